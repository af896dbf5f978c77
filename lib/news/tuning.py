"""Tuning of the paper's teacher: a sentence encoder and a linear layer, with the triplet loss.

Encoder and layer are tuned on the train side's events alone. Source: news paper, Section 3; margin
.5 and AdamW as in the organisers' code.
"""

from collections.abc import Sequence

import numpy as np
import torch

from lib.news.losses import triplet
from lib.news.teacher import TeacherSource, TunedTeacher, Weights

TOKENS = 96  # read of a document while tuning: a story begins with its event, more costs minutes
TRIPLETS = 256  # in a step; those of one topic share documents, each of which is embedded once
EPOCHS = 2
RATE = 3e-5  # published 1e-5, for many more steps
HEAD_RATE = 1e-3  # the layer is new, the encoder is not
SEED = 0


def tune_teacher(
    source: TeacherSource, texts: Sequence[str], triplets: np.ndarray, max_tokens: int
) -> Weights:
    """Tune a teacher; returns its weights, and `history`, the mean loss of each epoch."""
    encoder = source.load(max_tokens)
    torch.manual_seed(SEED)
    teacher = TunedTeacher(encoder)
    history = tune(teacher, texts, triplets)
    state = {name: values.cpu().numpy() for name, values in teacher.model.state_dict().items()}
    return state | {"history": np.array(history)}


def tune(
    teacher: TunedTeacher, texts: Sequence[str], triplets: np.ndarray, epochs: int = EPOCHS
) -> list[float]:
    """Tune encoder and layer in place.

    Neighbouring triplets share documents, so they are in one batch; the order of batches is random.
    The same seed gives bit-identical weights.

    Parameters
    ----------
    teacher : TunedTeacher
    texts : sequence of str
    triplets : (triplets, 3)
        Rows of texts: anchors, positives, negatives.
    epochs : int

    Returns
    -------
    list of float
        The mean loss of each epoch.

    Raises
    ------
    ValueError
        If there are no triplets.
    """
    if not len(triplets):
        raise ValueError(
            "no document of the train side has a negative pair, so there is no triplet to tune on"
        )
    order, model = np.random.default_rng(SEED), teacher.model
    parts = np.split(triplets, range(TRIPLETS, len(triplets), TRIPLETS))
    model.requires_grad_(True).train()
    body = [part for name, part in model.named_parameters() if not name.startswith("news_head.")]
    groups = [
        {"params": body, "lr": RATE},
        {"params": list(model.news_head.parameters()), "lr": HEAD_RATE},
    ]
    optimizer = torch.optim.AdamW(groups, fused=True)
    torch.manual_seed(SEED)  # of dropout
    history = []
    for _ in range(epochs):
        total = 0.0
        for number in order.permutation(len(parts)):
            documents, places = np.unique(parts[number], return_inverse=True)
            vectors = teacher.embed([texts[row] for row in documents])
            losses = triplet(*vectors[places.reshape(-1, 3)].unbind(1))
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            total += float(losses.detach().sum())
        history.append(total / len(triplets))
    model.eval().requires_grad_(False)
    return history
