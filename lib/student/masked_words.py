"""Masked language modelling: a student learns to guess masked words before it is distilled.

Its layers predict masked tokens from the tokens around them (Devlin et al. 2019, section 3.1), as
Longformer's did (Beltagy et al. 2020, section 5). A *word* here is a token that is not special.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import DataCollatorForLanguageModeling, get_linear_schedule_with_warmup

from lib.student.encoder import Student, TokenIds

BATCH_SIZE = 8  # documents
LEARNING_RATE = 3e-4  # at its peak, after a tenth of the updates; it then falls linearly to 0
MASKED_SHARE = 0.15  # of the words, as in BERT
SEED = 0  # of all that is drawn


class WordLosses(NamedTuple):
    """Cross-entropies in nats per word to guess."""

    loss: list[float]  # the mean of each update; a batch without a word to guess is no update
    held_out: float  # the mean over the masked words of held-out documents, after training
    unigram: float  # the same, guessed only from words' frequency in the training documents


def train_masked_words(
    student: Student,
    documents: TokenIds,
    held_out: TokenIds,
    *,
    epochs: int,
    precision: str = "fp32",
    track: Callable[[list[Tensor]], Iterable[Tensor]] = iter,
) -> WordLosses:
    """Train a student to guess masked words, in place and without changing its token embeddings.

    Documents are token ids, special ones included; each of the `epochs` masks other words. `track`
    yields the batches it is given. `ValueError` without a mask token; `FloatingPointError` for NaN.
    """
    torch.manual_seed(SEED)
    masking = DataCollatorForLanguageModeling(student.tokenizer, mlm_probability=MASKED_SHARE)
    head = make_head(student)
    device = student.embeddings.word_embeddings.weight.device
    student.freeze_token_embeddings()
    weights = [each for each in nn.ModuleList([student, head]).parameters() if each.requires_grad]
    orders = [torch.randperm(len(documents)) for _ in range(epochs)]
    batches = [rows for order in orders for rows in order.split(BATCH_SIZE)]
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, fused=True)
    warmup = len(batches) // 10
    schedule = get_linear_schedule_with_warmup(optimizer, warmup, len(batches))
    losses = []
    student.train()
    for rows in track(batches):
        batch = [documents[int(row)] for row in rows]
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            scores, words = guess_words(student, head, batch, masking)
        if not len(words):
            continue
        loss = cross_entropy(scores.float(), words)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(f"the loss of masked words is {losses[-1]}")
    student.eval()
    torch.manual_seed(SEED)
    counts = np.bincount(np.concatenate([*documents]), minlength=student.config.vocab_size) + 1.0
    counts[student.tokenizer.all_special_ids] = 0
    frequency, by_student, by_frequency = torch.from_numpy(counts / counts.sum()), [], []
    with torch.no_grad():
        for start in range(0, len(held_out), BATCH_SIZE):
            part = held_out[start : start + BATCH_SIZE]
            scores, words = guess_words(student, head, part, masking)
            by_student.append(cross_entropy(scores, words, reduction="none"))
            by_frequency.append(-frequency[words.cpu()].log())
    measured = (torch.cat(each).mean().item() for each in (by_student, by_frequency))
    return WordLosses(losses, *measured)


def make_head(student: Student) -> nn.Sequential:
    """BERT's head: scores of all tokens; its output matrix is the student's token embeddings."""
    tokens = student.embeddings.word_embeddings.weight
    norm = nn.LayerNorm(student.dim, eps=student.config.layer_norm_eps)
    output = nn.Linear(*tokens.shape[::-1])
    head = nn.Sequential(nn.Linear(student.dim, student.dim), nn.GELU(), norm, output)
    output.weight = tokens
    return head.to(tokens.device)


def guess_words(
    student: Student, head: nn.Module, documents: TokenIds, masking: DataCollatorForLanguageModeling
) -> tuple[Float[Tensor, "words vocabulary"], Int[Tensor, " words"]]:
    """Mask some words; the scores of all tokens for each of them, and their ids."""
    packed = student.pack(documents)
    special = torch.isin(packed.ids, torch.tensor(student.tokenizer.all_special_ids))
    read, targets = masking.torch_mask_tokens(packed.ids, special)
    states = student.token_states(packed._replace(ids=read))
    chosen = targets >= 0
    return head(states[chosen.to(states.device)]), targets[chosen].to(states.device)
