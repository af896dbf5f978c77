"""Products with the code that computes them, and the jobs that make them from plain values."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.config.schema import HeadSettings, StudentSettings
from lib.experiments import encoders, judging, models, students
from lib.experiments.judging import Examples
from lib.store import progress
from lib.store.cache import Cache, Code, NotComputed, Product

# Modules that are imported on the way but compute no values.
NOT_COMPUTING = ("lib.store", "lib.config", "lib.data", "lib.published", "lib.student.export")
PARAGRAPH_VECTOR_FACTS = ("vocabulary_size", "seconds", "truncated", "documents")


def find_code(*modules: str, stop: Sequence[str] = ()) -> Code:
    """The code of some modules, and of the environment that every process computes in.

    Imports are not followed into modules of `stop`.
    """
    return Code(("lib.config.environment", *modules), (*NOT_COMPUTING, *stop))


_ROWS = "lib.experiments.encoders"
_STUDENT, _CLS = "lib.student", "lib.student.cls"
_TEACHERS, _BASELINES = "lib.teachers", "lib.evaluation.baselines"

TOKENS_CODE = find_code(_ROWS, stop=(_TEACHERS, _BASELINES, _CLS, "lib.student.attention"))
ENCODER_CODE = find_code(_ROWS, stop=(_TEACHERS, _BASELINES, _CLS))
CLS_CODE = find_code(_ROWS, stop=(_TEACHERS, _BASELINES))
TEACHER_CODE = find_code(_ROWS, stop=(_STUDENT, _BASELINES))
CHUNKS_CODE = find_code(_ROWS, stop=(_STUDENT,))
WORDS_CODE = find_code(_BASELINES)
CUTTING_CODE = find_code("lib.experiments.cutting", stop=(_STUDENT, _BASELINES))
JOINED_CODE = find_code("lib.evaluation.joined")
LANGUAGE_MODEL_CODE = find_code("lib.student.masked_words", "lib.experiments.models")
PARAGRAPH_VECTOR_CODE = find_code("lib.teachers.paragraph_vector")
JUDGING_CODE = find_code("lib.experiments.judging")


@dataclass(frozen=True)
class Encoder:
    """What embeds texts with one model, as values that can be sent to other processes.

    Attributes
    ----------
    table : Product
        Its rows are the embeddings.
    make : callable
        Computes rows.
    reads_tokens : bool
        Whether it reads the student's token ids; otherwise it reads texts.
    """

    table: Product
    make: Callable[[list[Any]], dict[str, Any]]
    reads_tokens: bool = False

    @property
    def label(self) -> str:
        return self.table.label


def name_encoder(
    base: models.Base,
    computed: Sequence[str],
    pooling: str = "mean",
    cache: Cache | None = None,
    product: Product | None = None,
) -> Encoder:
    """What embeds with a trained student, or without `product` with the base.

    `computed` is device and precision. Raises `NotComputed` if the student is not in the cache.
    """
    inputs: dict[str, Any] = {"base": name_base(base), "computed": [*computed]}
    if cache is not None and product is not None:
        note = cache.find(product)
        if note is None:
            raise NotComputed(
                f"no trained student in {cache.folder} for {product.inputs['variant']}"
            )
        inputs |= {"student": sorted(note["files"].values()), "pooling": pooling}
    code = (CLS_CODE if pooling == "cls" else ENCODER_CODE, *list_base_code(base))
    packages = ("torch", "transformers", "tokenizers")
    label = "Longformer" if product is None else product.label
    table = Product("vectors", inputs, code, packages, label)
    return Encoder(table, encoders.StudentRows(base, computed[1], pooling, cache, product), True)


def name_layers(section: StudentSettings) -> dict[str, Any]:
    """Inputs that identify the student's layers and tokens, with hashes of their checkpoint."""
    settings = section.model_dump(mode="json", exclude={"language_model"})
    return settings | {"files": models.hash_model(section.model)}


def name_base(base: models.Base) -> dict[str, Any]:
    """Inputs that identify the student before training."""
    made = {} if base.language_model is None else {"language_model": base.language_model.key}
    return name_layers(base.section) | made


def list_base_code(base: models.Base) -> tuple[Code, ...]:
    """The code that made the student before training, except the code that loads it."""
    return () if base.language_model is None else base.language_model.code


def name_paragraph_vector_rows(cache: Cache, product: Product) -> Encoder:
    """What embeds with a Paragraph Vector, identified by its inputs and code alone."""
    inputs = {"model": product.inputs}
    table = Product("vectors", inputs, product.code, product.packages, product.label)
    return Encoder(table, encoders.ParagraphVectorRows(cache, product))


# ---- jobs ---------------------------------------------------------------------------------------


def make_language_model(
    base: models.Base, documents: Sequence[Any], held_out: Sequence[Any], computed: Sequence[str]
) -> None:
    """Train a base to guess masked words; the cache gets its weights, and the note its losses.

    `documents` and `held_out` are token ids, `computed` is device and precision. Raises
    `ValueError` if the base is not a language model.
    """
    settings = base.section.language_model
    if base.cache is None or base.language_model is None or settings is None:
        raise ValueError("this base is not a language model")
    facts: dict[str, Any] = {}

    def show(batches: Sequence[Any]) -> Iterator[Any]:
        return progress.track(batches, "masked words", len(batches))

    def train() -> dict[str, np.ndarray]:
        from lib.student.masked_words import train_masked_words

        student = models.load_layers(base.section, dropout=0.0).to(models.find_device())
        options = settings.model_dump() | {"precision": computed[1], "track": show}
        facts.update(train_masked_words(student, documents, held_out, **options)._asdict())
        return models.pack_weights(student)

    base.cache.arrays(base.language_model, train, lambda _: facts)


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
    train_or_read_student(cache, product, lesson)
    encoder = name_encoder(lesson.base, computed, lesson.variant.pooling, cache, product)
    for part in items:
        cache.rows(encoder.table, part, encoder.make)


def train_or_read_student(
    cache: Cache,
    product: Product,
    lesson: students.Lesson,
    callbacks: Sequence[Callable] = (),
    *,
    resumable: bool = False,
) -> dict[str, np.ndarray]:
    """Train a student, or read it from the cache; returns the weights that training changed.

    Its history is in the note. A short training is repeated after an interruption rather than
    resumed, unless it is `resumable`.
    """
    checkpoint = cache.scratch(product, ".checkpoint")
    kept = resumable or checkpoint.exists() or lesson.updates > lesson.training.checkpoint_every
    facts: dict[str, Any] = {"model": lesson.variant.identity, "seed": lesson.seed}

    def train() -> dict[str, np.ndarray]:
        student, losses, watched = students.train_student(
            lesson, checkpoint=checkpoint if kept else None, callbacks=callbacks
        )
        facts.update(loss=losses, watched=watched.tolist())
        return models.pack_weights(student)

    weights = cache.arrays(product, train, lambda _: facts)
    if kept:
        from lib.distillation.checkpoint import remove_checkpoint

        remove_checkpoint(checkpoint)
    return weights


def embed_paragraph_vector(
    cache: Cache, product: Product, train: Callable[[], Any], *parts: Sequence[str]
) -> None:
    """Train a Paragraph Vector and embed texts with it."""
    cache.model(product, train, describe_paragraph_vector)
    for texts in parts:
        add_rows(cache, name_paragraph_vector_rows(cache, product), texts)


def train_paragraph_vector(
    label: str, width: float, texts: Sequence[str], settings: Mapping[str, Any]
) -> Any:
    from lib.teachers.paragraph_vector import ParagraphVector

    return ParagraphVector.parse(label, width=width).train(texts, **settings)


def describe_paragraph_vector(model: Any) -> dict[str, Any]:
    return {name: int(getattr(model, name)) for name in PARAGRAPH_VECTOR_FACTS if name != "seconds"}


def judge_and_record(
    cache: Cache,
    products: Sequence[Product],
    given: Sequence[tuple[str, int, Any]],
    examples: Examples,
    settings: HeadSettings,
    classifier: str,
) -> None:
    """Judge models side by side on a task's examples, and store records; see `judge_models`."""
    missing = [number for number, product in enumerate(products) if cache.find(product) is None]
    results = judging.judge_models(
        [given[number] for number in missing], examples, settings, classifier
    )
    for number, result in zip(missing, results, strict=True):
        cache.record(products[number], functools.partial(dict, result))
