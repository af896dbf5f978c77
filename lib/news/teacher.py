"""The teacher of the news chapter: the structural one, or one tuned on events with a linear layer.

    vector = unit( mean over the real tokens of Linear(encoder's last state) ),  256 numbers

`tuning.py` tunes it; this module loads it and embeds texts. It knows nothing of students.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.config.schema import StructuralTeacherSettings
from lib.teachers.sbert import SBERT
from lib.texts import list_texts

DIM = 256  # width of the paper's teacher
SPREAD = 0.5  # standard deviation of new token embeddings that start from principal components
Weights = dict[str, np.ndarray]


class TunedTeacher:
    """An encoder with a linear layer after each token's state; it is used like an `SBERT`.

    Attributes
    ----------
    model
        Hugging Face's encoder. The layer is its attribute `news_head`, so that one state dict holds
        both.
    """

    def __init__(self, encoder: SBERT):
        self.encoder, self.tokenizer, self.model = encoder, encoder.tokenizer, encoder.model
        self.dim = DIM
        if not hasattr(self.model, "news_head"):
            self.model.news_head = nn.Linear(encoder.dim, DIM).to(self.model.device)

    def embed(self, texts: Iterable[str]) -> Tensor:
        """(texts, 256) vectors of length 1, with gradients."""
        batch = self.tokenizer(
            list_texts(texts),
            return_tensors="pt",
            truncation=True,
            max_length=self.encoder.max_tokens,
            padding=True,
            verbose=False,
        ).to(self.model.device)
        states = self.model.news_head(self.model(**batch).last_hidden_state)
        counted = batch["attention_mask"].unsqueeze(2)
        return nn.functional.normalize((states * counted).sum(1) / counted.sum(1))

    def tokenize(self, texts: Iterable[str]) -> tuple[list[np.ndarray], np.ndarray]:
        """As `SBERT.tokenize`."""
        return self.encoder.tokenize(texts)

    @torch.inference_mode()
    def encode(self, texts: Iterable[str], batch_size: int = 32) -> np.ndarray:
        """(texts, 256) float32 vectors of length 1.

        The linear layer is applied to the mean of states, which equals the mean of its outputs.
        """
        means = torch.from_numpy(self.encoder.encode(texts, batch_size)).to(self.model.device)
        return nn.functional.normalize(self.model.news_head(means)).cpu().numpy()

    def load_weights(self, weights: Weights) -> None:
        """Load the weights that `tuning.tune_teacher` returned, and freeze them."""
        state = {name: torch.from_numpy(weights[name]) for name in self.model.state_dict()}
        self.model.load_state_dict(state)
        self.model.requires_grad_(False)


@dataclass(frozen=True)
class TeacherSource:
    """Where the teacher comes from, as values that can be sent to other processes.

    Attributes
    ----------
    section : StructuralTeacherSettings
    device : str
    read_tuned : callable or None
        Returns the weights of a tuned teacher; None for the structural teacher as it is.
    """

    section: StructuralTeacherSettings
    device: str
    read_tuned: Callable[[], Weights] | None = None

    def load(self, max_tokens: int) -> Any:
        """The teacher, an `SBERT` or a `TunedTeacher`, which reads so many tokens of a text."""
        section = self.section
        encoder = SBERT.load(
            section.model,
            max_tokens=max_tokens,
            sha256=section.sha256,
            revision=section.revision,
            device=self.device,
        )
        if self.read_tuned is None:
            return encoder
        teacher = TunedTeacher(encoder)
        teacher.load_weights(self.read_tuned())
        return teacher


@dataclass(frozen=True)
class TeacherRows:
    """Makes the teacher's `vectors` of texts, and their token `ids`, special ones included."""

    source: TeacherSource
    max_tokens: int

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        teacher = self.source.load(self.max_tokens)
        ids, _ = teacher.tokenize(texts)
        return {"vectors": teacher.encode(texts), "ids": ids}


def read_token_embeddings(teacher: Any, width: int) -> dict[str, np.ndarray]:
    """The teacher's token embeddings, and those that students start from.

    Returns
    -------
    dict
        `tokens` (vocabulary, dim), the teacher's own; `reduced` (vocabulary, width), their
        principal components; `megabytes`, the size of the teacher; `output`, the width of its
        vectors.
    """
    from sklearn.decomposition import PCA

    tokens = teacher.model.get_input_embeddings().weight.cpu().numpy()
    reduced = PCA(width, svd_solver="covariance_eigh").fit_transform(tokens)
    weights = sum(values.numel() for values in teacher.model.parameters())
    return {
        "tokens": tokens,
        "reduced": (SPREAD * reduced / reduced.std()).astype(np.float32),
        "megabytes": np.array(4 * weights / 2**20),
        "output": np.array(teacher.dim),
    }
