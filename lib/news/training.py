"""A student as a model: its losses, its training on documents or triplets, its vectors."""

import copy
import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.decomposition import PCA
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lib.config.schema import NewsSettings, Profile
from lib.experiments.models import Model, find_device
from lib.losses.cosine import cosine, unit_rows
from lib.losses.mse import mse
from lib.news.students import TOKEN_DIM, NewsStudent, scale_width
from lib.store import Product, hash_arrays, hash_texts

MARGIN = 0.5  # with which the organisers' reproduction trains the teacher
SORTED = 16  # batches whose documents are sorted by length together, so that padding is rare
SPREAD = 0.5  # standard deviation of new token embeddings that start from principal components
SETTINGS = {"tokens", "epochs", "batch_size", "rates", "patience", "plateau_patience"}
LOSSES = ("losses._checks", "losses.cosine", "losses.mse")
MODULES = ("news.training", "news.students", *LOSSES, "teachers.sbert", "texts")

Rows = Float[Tensor, "batch dim"]
Three = tuple[Rows, Rows, Rows]  # of anchors, positives and negatives


def triplet(anchor: Rows, positive: Rows, negative: Rows) -> Float[Tensor, " batch"]:
    """Triplet loss of rows scaled to length 1, with Euclidean distances (news paper, Eq. 1).

        triplet_i = max(0, |a_i - p_i| - |a_i - n_i| + margin)

    A document that is its own positive has distance 0 to it, and no gradient from that distance.
    """
    # `stack` refuses shapes that differ, which the difference would broadcast.
    anchor, positive, negative = map(unit_rows, torch.stack([anchor, positive, negative]))
    near, far = ((anchor - other).norm(dim=1) for other in (positive, negative))
    return (near - far + MARGIN).relu()


def complex_loss(students: Three, teachers: Three, *, alpha: float) -> Float[Tensor, " batch"]:
    """Triplet loss and distillation together, for anchors, positives and negatives (Eq. 1).

    complex_i = alpha * triplet_i + (1 - alpha) * mean of the three MSE(student, teacher)
    """
    copied = sum(mse(*pair) for pair in zip(students, teachers, strict=True)) / 3
    return alpha * triplet(*students) + (1 - alpha) * copied


@dataclass(frozen=True, eq=False)
class DistilledStudent(Model):
    """One of the paper's students. Only its vectors are kept: who lacks some trains it again.
    `teacher` reads the texts that are embedded, `taught` the `documents` that the student learns
    from, whose rows are `examples`, see `train`.
    """

    identity: str
    seed: int
    profile: Profile
    teacher: Any
    taught: Any
    documents: Sequence[str]
    examples: tuple[np.ndarray, ...]

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"model": self.identity, "seed": self.seed, "width": self.profile.width}
        inputs["training"] = self.profile.news.model_dump(mode="json", include=SETTINGS)
        inputs["teachers"] = [self.teacher.product, self.taught.product]
        inputs["documents"] = hash_arrays(hash_texts(self.documents), *self.examples)
        inputs["computed"] = find_device()
        packages, label = ("torch", "numpy", "scikit-learn"), f"{self.identity}, seed {self.seed}"
        return Product("news_student", inputs, MODULES, packages, label)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return self._trained.encode(read_ids(self.teacher, texts)[:])

    @functools.cached_property
    def _trained(self) -> NewsStudent:
        settings, width = self.profile.news, self.profile.width
        seed, table = derive_seed(self.identity, self.seed), read_table(self.teacher)
        rows, targets = read_ids(self.taught, self.documents), self.taught.embed(self.documents)
        torch.manual_seed(seed)  # after loading a teacher, which draws random numbers
        student = NewsStudent(self.identity, table.shape, len(targets[0]), width)
        design, weights = student.design, student.embedding.weight
        start = settings.tokens if design.tokens == "new" else design.tokens
        if start == "pca":
            components = PCA(scale_width(TOKEN_DIM, width), svd_solver="covariance_eigh")
            table = components.fit_transform(table)
            table = (SPREAD * table / table.std()).astype(np.float32)
        if start != "random":
            weights.data.copy_(torch.from_numpy(table)[:, : weights.shape[1]])
        train(student.to(find_device()), rows, targets, self.examples, settings, seed)
        return student


def train(
    student: NewsStudent, rows: Any, teacher: Any, examples: Any, settings: NewsSettings, seed: int
) -> list[float]:
    """Train the student in place; it keeps the best epoch's weights. Returns held-out losses.
    `rows` are documents' token ids, `teacher` their (documents, dim) vectors. `examples` are those
    to train on and those held out, (count, 1 or 3) rows of documents. After `patience` epochs
    without improvement training ends; after one more than `plateau_patience`, as PyTorch counts,
    "plateau" divides rates by ten: with the paper's 3 and 2 the two coincide, and it never acts.
    """
    (learned, held_out), size, rates = examples, settings.batch_size, settings.rates
    order = np.random.default_rng(seed)
    torch.manual_seed(seed)  # of dropout
    rate = rates.get(student.design.architecture, rates["other"])
    # New token embeddings have a rate of their own: a step sees few of them. Those that are frozen
    # get no gradient, and Adam leaves them as they are.
    tokens, *others = student.parameters()
    groups = [{"params": others}, {"params": [tokens], "lr": rates.get("tokens", rate)}]
    optimizer = torch.optim.Adam(groups, lr=rate, fused=True)
    schedule = ReduceLROnPlateau(optimizer, patience=settings.plateau_patience)
    weights, history = {}, list[float]()
    for epoch in range(settings.epochs):
        student.train()
        for batch in draw_batches(learned, rows, size, order):
            optimizer.zero_grad()
            compute_losses(student, rows, teacher, batch).mean().backward()
            optimizer.step()
        student.eval()
        with torch.no_grad():
            batches = np.split(held_out, range(size, len(held_out), size))
            losses = [compute_losses(student, rows, teacher, batch) for batch in batches]
        history.append(float(torch.cat(losses).mean()))
        if student.design.schedule == "plateau":
            schedule.step(history[-1])
        best = int(np.argmin(history))
        if best == epoch:
            weights = copy.deepcopy(student.state_dict())
        elif epoch - best >= settings.patience:
            break
    student.load_state_dict(weights)
    return history


def compute_losses(student: NewsStudent, rows: Any, teacher: Any, batch: np.ndarray) -> Tensor:
    """(examples,) losses of a batch, (examples, 1 or 3) rows of documents, each embedded once."""
    design = student.design
    documents, places = batch[:, 0], np.arange(len(batch))
    if batch.shape[1] == 3:
        documents, places = np.unique(batch.T.ravel(), return_inverse=True)
    vectors = student(*student.pad(rows[documents]))[places].chunk(batch.shape[1])
    if design.loss == "triplet":
        return triplet(*vectors)
    targets = nn.functional.normalize(torch.tensor(teacher[documents])).to(vectors[0].device)
    targets = targets[places].chunk(batch.shape[1])
    if design.loss == "complex":
        return complex_loss(vectors, targets, alpha=design.alpha)
    return (mse if design.loss == "MSE" else cosine)(*vectors, *targets)


def draw_batches(examples: np.ndarray, rows: Any, size: int, order: Any) -> list[np.ndarray]:
    """The examples in batches of similar length, both shuffled by the generator `order`."""
    examples, batches = order.permutation(examples), []
    for group in np.split(examples, range(SORTED * size, len(examples), SORTED * size)):
        lengths = [len(row) for row in rows[group[:, 0]]]
        group = group[np.argsort(lengths, kind="stable")]
        batches += np.split(group, range(size, len(group), size))
    return [batches[number] for number in order.permutation(len(batches))]


def derive_seed(identity: str, seed: int) -> int:
    """Each identity is a run of its own, as in the paper: twins share no random numbers."""
    own = np.random.SeedSequence([seed, zlib.crc32(identity.encode())])
    return int(own.generate_state(1)[0])


def read_ids(teacher: Any, texts: Sequence[str]) -> Sequence[Any]:
    """Token ids of what the teacher reads of texts, int32 arrays with special tokens."""
    product = Product("news_ids", {"teacher": teacher.product}, MODULES, (), "token ids")
    rows = teacher.store.rows(product, texts, lambda part: {"ids": teacher.sbert.tokenize(part)})
    return rows["ids"]


def read_table(teacher: Any) -> np.ndarray:
    """(vocabulary, dim) token embeddings of the teacher."""
    return teacher.sbert.model.get_input_embeddings().weight.cpu().numpy()
