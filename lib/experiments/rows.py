"""What computes the rows of tables and the products of jobs, in any process, from values alone."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.config.schema import HeadSettings, StructuralTeacherSettings, StudentSettings
from lib.experiments import judging, models, students
from lib.experiments.judging import Examples
from lib.store.cache import Cache, Code, NotComputed, Product

# What computes no value, though it is imported on the way.
NOT_COMPUTING = ("lib.store", "lib.config", "lib.data", "lib.published", "lib.student.export")
FACTS = ("vocabulary_size", "seconds", "truncated", "documents")  # of a Paragraph Vector


def find_code(*modules: str, stop: Sequence[str] = ()) -> Code:
    """The code of some modules, with the environment that every process computes in."""
    return Code(("lib.config.environment", *modules), (*NOT_COMPUTING, *stop))


TEACHER_CODE = find_code("lib.teachers.sbert")
CHUNKS_CODE = find_code("lib.evaluation.baselines", "lib.teachers.sbert")
TFIDF_CODE = find_code("lib.evaluation.baselines")
PARAGRAPH_VECTOR_CODE = find_code("lib.teachers.paragraph_vector")
TOKENS_CODE = find_code("lib.student.packing", "lib.student.weights")
ENCODER_CODE = find_code("lib.student.encoder", stop=("lib.student.cls",))
CLS_CODE = find_code("lib.student.cls")
JUDGING_CODE = find_code("lib.experiments.judging")


@dataclass(frozen=True)
class Encoder:
    """What embeds texts with one model, as values that other processes can be given.

    table: the product whose rows the embeddings are. make: computes rows. reads_tokens: whether it
    reads the student's token ids; else it reads texts.
    """

    table: Product
    make: Callable[[list[Any]], dict[str, Any]]
    reads_tokens: bool = False


@dataclass(frozen=True)
class TokenRows:
    """Token ids of texts for the student, cut, and how many there were before."""

    section: StudentSettings

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        student = models.load_base_student(self.section)
        ids = student.tokenize(texts)
        whole = [len(row) for row in ids]
        for number, text in enumerate(texts):
            if whole[number] >= student.max_positions:
                whole[number] = len(student.tokenizer(text, verbose=False)["input_ids"])
        rows = [np.array(row, dtype=np.int32) for row in ids]
        return {"ids": rows, "whole": np.array(whole, dtype=np.int64)}


@dataclass(frozen=True)
class StructuralRows:
    """Embeddings by the structural teacher."""

    section: StructuralTeacherSettings
    device: str

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        teacher = load_structural_teacher(self.section, self.device)
        return {"vectors": teacher.encode(texts, self.section.batch_size)}


@dataclass(frozen=True)
class LengthRows:
    """Lengths of texts in the structural teacher's tokens."""

    section: StructuralTeacherSettings

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        return {"lengths": load_structural_teacher(self.section).lengths(texts)}


@dataclass(frozen=True)
class ChunkRows:
    """The mean of the structural teacher's embeddings of all pieces of a text."""

    section: StructuralTeacherSettings
    device: str

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        from lib.evaluation import baselines

        teacher = load_structural_teacher(self.section, self.device)
        return {"vectors": baselines.mean_of_chunks(teacher, texts)}


@dataclass(frozen=True)
class ParagraphVectorRows:
    """Embeddings by a Paragraph Vector that is in the cache."""

    cache: Cache
    product: Product

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        return {"vectors": self.cache.model(self.product, miss_product).encode(texts)}


@dataclass(frozen=True)
class StudentRows:
    """Embeddings by the base, or by a trained student whose weights are in the cache."""

    section: StudentSettings
    precision: str
    pooling: str = "mean"
    cache: Cache | None = None
    product: Product | None = None

    def __call__(self, ids: list[np.ndarray]) -> dict[str, Any]:
        student = models.load_base_student(self.section)
        if self.pooling == "cls":
            from lib.student.cls import ClsStudent

            student = ClsStudent(student)
        if self.cache is not None and self.product is not None:
            weights = self.cache.arrays(self.product, miss_product)
            student = students.unpack_weights(student, weights)
        student = student.to(models.find_device())
        return {"vectors": student.encode(ids, precision=self.precision)}


def load_structural_teacher(section: StructuralTeacherSettings, device: str = "cpu"):
    """The structural teacher, a `lib.teachers.sbert.SBERT`, its weights checked."""
    from lib.teachers.sbert import SBERT

    pinned = {"sha256": section.sha256, "revision": section.revision}
    return SBERT.load(section.model, max_tokens=section.max_tokens, **pinned, device=device)


def name_encoder(
    section: StudentSettings,
    computed: Sequence[str],
    pooling: str = "mean",
    cache: Cache | None = None,
    product: Product | None = None,
) -> Encoder:
    """What embeds with a trained student, which must be in the cache, or without one with the base.

    computed: device and precision.
    """
    inputs: dict[str, Any] = {"base": name_base(section), "computed": [*computed]}
    if cache is not None and product is not None:
        note = cache.find(product)
        if note is None:
            raise NotComputed(
                f"a student is missing in {cache.folder}: {product.inputs['variant']}"
            )
        inputs |= {"student": sorted(note["files"].values()), "pooling": pooling}
    code = CLS_CODE if pooling == "cls" else ENCODER_CODE
    table = Product("vectors", inputs, (code,), ("torch", "transformers"))
    return Encoder(table, StudentRows(section, computed[1], pooling, cache, product), True)


def name_base(section: StudentSettings) -> dict[str, Any]:
    """What makes the student before training, the bytes of its checkpoint among it."""
    return section.model_dump(mode="json") | {"files": models.hash_model(section.model)}


def name_paragraph_vector_rows(cache: Cache, product: Product) -> Encoder:
    """What embeds with a Paragraph Vector, a function of its inputs and code alone."""
    table = Product("vectors", {"model": product.inputs}, product.code, product.packages)
    return Encoder(table, ParagraphVectorRows(cache, product))


def miss_product() -> Any:
    raise LookupError("what was computed vanished while it was read: run again")


# ---- jobs ---------------------------------------------------------------------------------------


def add_rows(cache: Cache, encoder: Encoder, items: Sequence[Any]) -> None:
    cache.rows(encoder.table, items, encoder.make)


def train_and_embed(
    cache: Cache,
    product: Product,
    lesson: students.Lesson,
    computed: Sequence[str],
    *items: Sequence[Any],
) -> None:
    """Train a student and embed documents and texts with it."""
    make_student(cache, product, lesson)
    encoder = name_encoder(lesson.student, computed, lesson.variant.pooling, cache, product)
    for part in items:
        cache.rows(encoder.table, part, encoder.make)


def make_student(
    cache: Cache,
    product: Product,
    lesson: students.Lesson,
    callbacks: Sequence[Callable] = (),
    *,
    resumable: bool = False,
) -> dict[str, np.ndarray]:
    """Train a student, or read it: the weights that training changed; its history is in the note.

    A short training is repeated rather than resumed, unless it is said to be `resumable`.
    """
    checkpoint = cache.scratch(product, ".checkpoint")
    settings = lesson.training
    short = settings.checkpoint_every * lesson.batch_size * settings.accumulation
    kept = resumable or checkpoint.exists() or settings.documents > short
    facts: dict[str, Any] = {"model": lesson.variant.identity, "seed": lesson.seed}

    def train() -> dict[str, np.ndarray]:
        student, losses, watched = students.train_student(
            lesson, checkpoint=checkpoint if kept else None, callbacks=callbacks
        )
        facts.update(loss=losses, watched=watched.tolist())
        return students.pack_weights(student)

    weights = cache.arrays(product, train, lambda _: facts)
    if kept:
        from lib.distillation.checkpoint import remove_checkpoint

        remove_checkpoint(checkpoint)
    return weights


def embed_paragraph_vector(
    cache: Cache, product: Product, train: Callable[[], Any], texts: Sequence[str]
) -> None:
    """Train a Paragraph Vector and embed texts with it."""
    cache.model(product, train, describe_paragraph_vector)
    add_rows(cache, name_paragraph_vector_rows(cache, product), texts)


def train_paragraph_vector(
    label: str, width: float, texts: Sequence[str], settings: Mapping[str, Any]
) -> Any:
    from lib.teachers.paragraph_vector import ParagraphVector

    return ParagraphVector.parse(label, width=width).train(texts, **settings)


def describe_paragraph_vector(model: Any) -> dict[str, Any]:
    return {name: int(getattr(model, name)) for name in FACTS if name != "seconds"}


def judge_and_record(
    cache: Cache,
    products: Sequence[Product],
    given: Sequence[tuple[str, int, Any]],
    examples: Examples,
    settings: HeadSettings,
    classifier: str,
) -> None:
    """Judge models on a task's examples, side by side; see `judging.judge_models`."""
    missing = [number for number, product in enumerate(products) if cache.find(product) is None]
    results = judging.judge_models(
        [given[number] for number in missing], examples, settings, classifier
    )
    for number, result in zip(missing, results, strict=True):
        cache.record(products[number], functools.partial(dict, result))
