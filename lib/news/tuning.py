"""The paper's teacher, made here: a sentence encoder that is tuned on events with the triplet loss.

    vector = unit( mean over the real tokens of Linear(encoder's last state) ),   256 numbers of length 1

The encoder is the profile's structural teacher; it and the linear layer are tuned on the train side alone. Source: news
paper, Section 3; margin .5 and AdamW as in the organisers' code.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.config.schema import Profile
from lib.experiments import keys, models, structural_teacher
from lib.news import events
from lib.news.events import Side
from lib.news.losses import triplet
from lib.store.files import fingerprint
from lib.store.records import Recipe, once, store
from lib.store.source_keys import source_key

DIM = 256  # of the paper's teacher
TOKENS = (
    96  # of a document while tuning: a story tells its event at once, and longer ones cost minutes
)
TRIPLETS = (
    256  # of a step; those of one topic share their documents, each of which is embedded once
)
EPOCHS = 2
RATE, HEAD_RATE = (
    3e-5,
    1e-3,
)  # published 1e-5 for many more steps; the layer is new, the encoder is not
SEED = 0


class TunedTeacher:
    """An encoder with a linear layer behind each token's state; made by `load`, used as `SBERT` is.

    model: Hugging Face's encoder, in which the layer hangs as `news_head`, so that one state dict holds both.
    """

    def __init__(self, encoder: Any):
        self.encoder, self.tokenizer, self.model, self.dim = (
            encoder,
            encoder.tokenizer,
            encoder.model,
            DIM,
        )
        if not hasattr(self.model, "news_head"):
            self.model.news_head = nn.Linear(encoder.dim, DIM).to(self.model.device)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """(texts, 256) vectors of length 1, with gradients."""
        options = {
            "truncation": True,
            "max_length": self.encoder.max_tokens,
            "padding": True,
            "verbose": False,
        }
        batch = self.tokenizer(list(texts), return_tensors="pt", **options).to(self.model.device)
        states = self.model.news_head(self.model(**batch).last_hidden_state)
        counted = batch["attention_mask"].unsqueeze(2)
        return nn.functional.normalize((states * counted).sum(1) / counted.sum(1))

    def tokenize(self, texts: Sequence[str]) -> tuple[list[np.ndarray], np.ndarray]:
        """As `SBERT.tokenize`."""
        return self.encoder.tokenize(texts)

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        """(texts, 256) float32 vectors of length 1. The mean of a linear layer's values is the layer of the mean."""
        means = torch.from_numpy(self.encoder.encode(texts, batch_size)).to(self.model.device)
        return nn.functional.normalize(self.model.news_head(means)).cpu().numpy()


def recipe(profile: Profile, side: Side) -> Recipe:
    """All that makes the tuned teacher: its encoder, the train side and the code. No other side is in it."""
    seen = fingerprint([list(side.texts), side.pairs.tolist(), side.positive.tolist()])
    made_by = [source_key("lib.news.tuning", "lib.config.environment", stop=keys.NOT_ENTERED)]
    made_by.append([models.device(), keys.versions("torch", "transformers", "numpy")])
    settings, encoder = [min(TOKENS, profile.news.max_tokens)], keys.structural_teacher(profile)
    return {
        "kind": "news_tuned",
        "settings": settings,
        "train": seen,
        "teacher": encoder,
        "code": made_by,
    }


def load(encoder: Any, profile: Profile, side: Side) -> TunedTeacher:
    """The teacher as tuned on a side, train; the store keeps its weights and `history`, the mean loss of each epoch.
    encoder: the profile's structural teacher, an `SBERT`, which reads as many tokens as the tuned one shall."""

    def make() -> dict[str, np.ndarray]:
        teacher = structural_teacher.load(profile)
        teacher.max_tokens = min(TOKENS, profile.news.max_tokens)
        torch.manual_seed(SEED)
        history = tune(tuned := TunedTeacher(teacher), side)
        state = {name: values.cpu().numpy() for name, values in tuned.model.state_dict().items()}
        return state | {"history": np.array(history)}

    key, teacher = recipe(profile, side), TunedTeacher(encoder)
    weights = once(key, lambda: store().arrays(key, make))
    teacher.model.load_state_dict(
        {name: torch.from_numpy(weights[name]) for name in teacher.model.state_dict()}
    )
    teacher.model.requires_grad_(False)
    return teacher


def tune(teacher: TunedTeacher, side: Side, epochs: int = EPOCHS) -> list[float]:
    """Tune encoder and layer on the triplets of a side; returns the mean loss of each epoch.

    Neighbouring triplets stand in one batch, as they share documents; the order of batches is random. The same seed
    gives the same bits. Raises `ValueError` if no document has both a positive and a negative partner.
    """
    every = events.triplets(side, SEED)
    if not len(every):
        raise ValueError(
            "no document of the train side has a negative pair: there is no triplet to tune on"
        )
    order, model = np.random.default_rng(SEED), teacher.model
    parts = np.split(every, range(TRIPLETS, len(every), TRIPLETS))
    model.requires_grad_(True).train()
    head = model.news_head.parameters()
    body: list[Any] = [
        values for name, values in model.named_parameters() if not name.startswith("news_head.")
    ]
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": RATE}, {"params": head, "lr": HEAD_RATE}], fused=True
    )
    torch.manual_seed(SEED)  # of dropout
    history = []
    for _ in range(epochs):
        total = 0.0
        for number in order.permutation(len(parts)):
            documents, places = np.unique(parts[number], return_inverse=True)
            vectors = teacher.embed([side.texts[row] for row in documents])
            anchor, positive, negative = vectors[places.reshape(-1, 3)].unbind(1)
            losses = triplet(anchor, positive, negative)
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            total += float(losses.detach().sum())
        history.append(total / len(every))
    model.eval().requires_grad_(False)
    return history
