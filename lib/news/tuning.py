"""The paper's own teacher: a sentence encoder and a linear layer, tuned with the triplet loss.

    vector = unit( mean over the real tokens of Linear(encoder's last state) ),  256 numbers

Source: news paper, Section 3; margin .5 and AdamW as in the organisers' code.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.experiments.embedders import PACKAGES, Teacher
from lib.news.losses import triplet
from lib.store import Arrays, Product, hash_arrays, hash_texts
from lib.texts import list_texts

DIM = 256  # width of the paper's teacher
TOKENS = 96  # read of a document while tuning: a story begins with its event, more costs minutes
TRIPLETS = 256  # in a step; those of one topic share documents
EPOCHS = 2
RATE = 3e-5  # published 1e-5, for many more steps
HEAD_RATE = 1e-3  # the layer is new, the encoder is not
SEED = 0
MODULES = ("news.tuning", "news.losses", "losses._checks", "losses.cosine", "losses.mse")


@dataclass(frozen=True, eq=False, kw_only=True)
class TunedTeacher(Teacher):
    """`untuned` with a linear layer, tuned on (triplets, 3) rows of documents, see `events`."""

    untuned: Teacher
    documents: Sequence[str]
    triplets: np.ndarray

    @functools.cached_property
    def tuned(self) -> Product:
        lesson = hash_arrays(self.triplets, hash_texts(self.documents))
        inputs = {"teacher": self.untuned.product, "lesson": lesson}
        modules = (*self.untuned.product.modules, *MODULES)
        return Product("news_tuned", inputs, modules, PACKAGES, "teacher, tuned")

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"weights": self.tuned, "max_tokens": self.section.max_tokens}
        return Product("vectors", inputs, self.tuned.modules, PACKAGES, "teacher, tuned")

    @functools.cached_property
    def sbert(self) -> TunedSBERT:
        arrays = self.store.get(self.tuned, self._tune)
        sbert = TunedSBERT(super().sbert)
        weights = {name: torch.from_numpy(values) for name, values in arrays.items()}
        sbert.model.load_state_dict(weights)
        sbert.model.requires_grad_(False)
        return sbert

    def _tune(self) -> Arrays:
        encoder = self.untuned.sbert  # loaded before the seed, because it draws random numbers
        torch.manual_seed(SEED)
        sbert = TunedSBERT(encoder)
        tune(sbert, self.documents, self.triplets)
        return {name: values.cpu().numpy() for name, values in sbert.model.state_dict().items()}


class TunedSBERT:
    """An `SBERT` with a linear layer, `model.news_head`: one state dict holds all weights."""

    def __init__(self, sbert: Any):
        self.encoder, self.tokenizer, self.model = sbert, sbert.tokenizer, sbert.model
        self.dim, self.max_tokens, self.tokenize = DIM, sbert.max_tokens, sbert.tokenize
        self.model.news_head = nn.Linear(sbert.dim, DIM).to(self.model.device)

    def embed(self, texts: Iterable[str]) -> Tensor:
        """(texts, 256) vectors of length 1, with gradients."""
        cut = {"truncation": True, "max_length": self.max_tokens, "padding": True}
        batch = self.tokenizer(list_texts(texts), return_tensors="pt", verbose=False, **cut)
        batch = batch.to(self.model.device)
        states = self.model.news_head(self.model(**batch).last_hidden_state)
        counted = batch["attention_mask"].unsqueeze(2)
        return nn.functional.normalize((states * counted).sum(1) / counted.sum(1))

    @torch.inference_mode()
    def encode(self, texts: Iterable[str], batch_size: int = 32) -> np.ndarray:
        """(texts, 256) float32. The layer is linear, so it is applied to the mean of states."""
        means = torch.from_numpy(self.encoder.encode(texts, batch_size)).to(self.model.device)
        return nn.functional.normalize(self.model.news_head(means)).cpu().numpy()


def tune(sbert: TunedSBERT, texts: Sequence[str], triplets: np.ndarray, epochs: int = EPOCHS):
    """Tune encoder and layer in place.

    Neighbouring triplets share documents, so they are in one batch; the order of batches is random.
    """
    order, model = np.random.default_rng(SEED), sbert.model
    parts = np.split(triplets, range(TRIPLETS, len(triplets), TRIPLETS))
    model.requires_grad_(True).train()
    *body, weight, bias = model.parameters()  # the layer comes last
    groups = [{"params": body, "lr": RATE}, {"params": [weight, bias], "lr": HEAD_RATE}]
    optimizer = torch.optim.AdamW(groups, fused=True)
    torch.manual_seed(SEED)  # of dropout
    for _ in range(epochs):
        for number in order.permutation(len(parts)):
            documents, places = np.unique(parts[number], return_inverse=True)
            vectors = sbert.embed([texts[row] for row in documents])
            loss = triplet(*vectors[places.reshape(-1, 3)].unbind(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval().requires_grad_(False)
