"""Masked language modelling: a student learns to guess masked words before it is distilled.

Its layers predict masked tokens from the tokens around them (Devlin et al. 2019, section 3.1), as
Longformer's did (Beltagy et al. 2020, section 5). A *word* here is a token that is not special.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, linear
from transformers import get_linear_schedule_with_warmup

from lib.student.encoder import Student, TokenIds

# Shares of the words to guess; the rest stay, so that no state can rely on the mask (section 3.1).
MASKED, REPLACED = 0.8, 0.1
CLIP = 1.0  # largest norm of the gradient
MEASURED = 16  # held-out documents in a batch


class WordLosses(NamedTuple):
    """Cross-entropies in nats per word to guess."""

    loss: list[float]  # the mean of each update; a batch without a word to guess is no update
    held_out: float  # the mean over the masked words of held-out documents, after training
    unigram: float  # the same, guessed only from words' frequency in the training documents


class WordHead(nn.Module):
    """BERT's head: scores of all tokens; its output matrix is the student's token embeddings."""

    def __init__(self, student: Student):
        super().__init__()
        self.dense = nn.Linear(student.dim, student.dim)
        self.norm = nn.LayerNorm(student.dim, eps=student.config.layer_norm_eps)
        self.tokens = student.embeddings.word_embeddings
        self.bias = nn.Parameter(torch.zeros(student.config.vocab_size))

    def forward(self, states: Float[Tensor, "words dim"]) -> Float[Tensor, "words vocabulary"]:
        return linear(self.norm(gelu(self.dense(states))), self.tokens.weight, self.bias)


def train_masked_words(  # noqa: PLR0913  # settings that no profile changes
    student: Student,
    documents: TokenIds,
    held_out: TokenIds,
    *,
    epochs: int,
    batch_size: int = 8,
    learning_rate: float = 3e-4,
    warmup_share: float = 0.1,
    masked_share: float = 0.15,
    seed: int = 0,
    precision: str = "fp32",
    track: Callable[[list[Tensor]], Iterable[Tensor]] = iter,
) -> WordLosses:
    """Train a student to guess masked words, in place and without changing its token embeddings.

    Documents are token ids, special ones included; each of the `epochs` masks a `masked_share` of
    their words (BERT's is 0.15), `batch_size` documents per update. The peak `learning_rate` is
    reached in `warmup_share` of the updates; from there it falls linearly to 0. `seed` is for the
    order, the masks, the head's weights and dropout. `track` yields the batches it is given.
    `ValueError` without a mask token or held-out words; `FloatingPointError` for a loss of NaN.
    """
    if getattr(student.tokenizer, "mask_token_id", None) is None:
        raise ValueError("no mask token to hide words with: set student.language_model=null")
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    head = WordHead(student).to(student.embeddings.word_embeddings.weight.device)
    student.freeze_token_embeddings()
    weights = [each for each in nn.ModuleList([student, head]).parameters() if each.requires_grad]
    batches = [
        rows
        for _ in range(epochs)
        for rows in torch.randperm(len(documents), generator=generator).split(batch_size)
    ]
    optimizer = torch.optim.AdamW(weights, lr=learning_rate, fused=True)
    warmup = round(warmup_share * len(batches))
    schedule = get_linear_schedule_with_warmup(optimizer, warmup, len(batches))
    losses = []
    student.train()
    for rows in track(batches):
        batch = [documents[int(row)] for row in rows]
        scores, words = guess_words(student, head, batch, masked_share, precision, generator)
        if not len(words):  # every token is special, for example [UNK]
            continue
        loss = cross_entropy(scores, words)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(
                f"the loss of masked words is {losses[-1]} at update {len(losses)} of "
                f"{len(batches)}: lower the learning rate"
            )
    student.eval()
    frequencies = count_words(student, documents)
    measured = measure_losses(student, head, held_out, frequencies, masked_share, seed)
    return WordLosses(losses, *measured)


def guess_words(
    student: Student,
    head: WordHead,
    documents: TokenIds,
    masked_share: float,
    precision: str,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "words vocabulary"], Int[Tensor, " words"]]:
    """Mask some words of documents; the scores of all tokens for each of them, and their ids."""
    packed = student.pack(documents)
    read, places = mask_words(student, packed.ids, masked_share, generator)
    device = head.bias.device
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        states = student.token_states(packed._replace(ids=read))
        scores = head(states[places.to(device)])
    return scores.float(), packed.ids[places].to(device)


def mask_words(
    student: Student, ids: Int[Tensor, " tokens"], share: float, generator: torch.Generator
) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " words"]]:
    """Choose a share of the words to guess, at least one: what the student reads, and their places.

    Of these places in `ids`, 80% get the mask and 10% a random token.
    """
    candidates = (~_is_special(student, ids)).nonzero().flatten()
    count = max(1, round(share * len(candidates)))
    places = candidates[torch.randperm(len(candidates), generator=generator)[:count]]
    ends = [round(MASKED * count), round((MASKED + REPLACED) * count)]
    masked, replaced, _ = places.tensor_split(ends)
    read = ids.clone()
    read[masked] = student.tokenizer.mask_token_id
    read[replaced] = torch.randint(student.config.vocab_size, replaced.shape, generator=generator)
    return read, places


def count_words(student: Student, documents: TokenIds) -> Float[Tensor, " vocabulary"]:
    """Each token's share of the documents' words, with add-one (Laplace) smoothing."""
    ids = torch.cat([torch.as_tensor(document, dtype=torch.long) for document in documents])
    words = ids[~_is_special(student, ids)]
    counts = torch.bincount(words, minlength=student.config.vocab_size) + 1.0
    return counts / counts.sum()


@torch.no_grad()
def measure_losses(
    student: Student,
    head: WordHead,
    documents: TokenIds,
    frequencies: Float[Tensor, " vocabulary"],
    masked_share: float,
    seed: int,
) -> tuple[float, float]:
    """Mean cross-entropies of the student and of the frequencies, in nats per masked word."""
    generator = torch.Generator().manual_seed(seed)
    by_student, by_frequency = [], []
    for start in range(0, len(documents), MEASURED):
        batch = documents[start : start + MEASURED]
        scores, words = guess_words(student, head, batch, masked_share, "fp32", generator)
        by_student.append(cross_entropy(scores, words, reduction="none").cpu())
        by_frequency.append(-frequencies[words.cpu()].log())
    if not sum(map(len, by_student)):
        raise ValueError("no held-out document has a word to guess: hold out more documents")
    return torch.cat(by_student).mean().item(), torch.cat(by_frequency).mean().item()


def _is_special(student: Student, ids: Int[Tensor, " tokens"]) -> Tensor:
    return torch.isin(ids, torch.tensor(student.tokenizer.all_special_ids))
