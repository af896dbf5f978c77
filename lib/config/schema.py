"""The types of everything in `params/`: what may be set, and which values are possible.

What a value means and why it has its default stands in the YAML files, beside the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from lib.config import roles

T = TypeVar("T")
Count = Annotated[int, Field(ge=1, le=10**9)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # the range that NumPy, gensim and torch share
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
# YAML has lists only; strict mode would refuse them for a tuple. The elements stay strict.
Listed = Annotated[tuple[T, ...], Field(strict=False)]
Filled = Annotated[tuple[T, ...], Field(strict=False, min_length=1)]
Texts = Listed[Text]


class Settings(BaseModel):
    """Frozen values, no unknown keys, and no silent conversion: "0.1" is not a number, 1.0 is not a count."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


def section(model: type[Settings] | None, field: str) -> type[Settings] | None:
    """The model of a field that is a section of others; None for a field that holds a value, a mapping too."""
    annotation = model.model_fields[field].annotation if model is not None else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, Settings) else None


def patterns(only: str) -> list[str]:
    """The comma-separated shell patterns of the parameter `only`."""
    return [pattern.strip() for pattern in only.split(",") if pattern.strip()]


def _check(expected: str, holds: Callable[[Any], object]) -> AfterValidator:
    """A condition on a value, and what its error says was expected."""

    def check(value: T) -> T:
        if not holds(value):
            raise PydanticCustomError("expected", f"expected {expected}")  # type: ignore[arg-type]
        return value

    return AfterValidator(check)


def _folder(value: Any) -> Any:
    """A plain name is short for a folder without further settings."""
    return {"folder": value} if isinstance(value, str) else value


def _seeds(value: Any) -> Any:
    """Seeds as notebooks and command lines give them: text such as "0,1", one number, or several."""
    if isinstance(value, str):
        if not re.fullmatch(r"\s*[0-9]{1,10}(\s*,\s*[0-9]{1,10})*\s*", value):
            raise PydanticCustomError("expected", "expected whole numbers such as 0,1")
        return [int(part) for part in value.split(",")]
    return list(value) if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes) else [value]


_EachOnce = _check(
    "each once", lambda values: len({getattr(value, "folder", value) for value in values}) == len(values)
)


class CorpusFolder(Settings):  # a dataset folder of the corpus; shares are relative to each other
    folder: Annotated[str, Field(pattern=r"^[^/.][^/]*$")]
    share: Positive = 1.0
    min_tokens: Annotated[int, Field(ge=0)] = 0


class CorpusSettings(Settings):  # the distillation corpus: dataset folders and their shares
    folders: Annotated[Filled[Annotated[CorpusFolder, BeforeValidator(_folder)]], _EachOnce]
    order: Literal["listed", "shuffled"]
    train_documents: Annotated[int, Field(ge=2)]
    validation_documents: Annotated[int, Field(ge=2)]
    seed: Seed

    @property
    def names(self) -> tuple[str, ...]:
        """The folders, in the order listed."""
        return tuple(entry.folder for entry in self.folders)


class TaskFolder(Settings):
    """Where a task lies, and how many cross-validation folds it has where it has no validation split."""

    folder: Annotated[str, Field(pattern=r"^[^/.][^/]*/[^/.][^/]*$")]
    folds: Annotated[int, Field(ge=2)] | None = None


class TaskSettings(Settings):  # the evaluation tasks by name, and how they are cut down
    folders: Annotated[dict[Text, Annotated[TaskFolder, BeforeValidator(_folder)]], Field(min_length=1)]
    limit: Count
    seed: Seed

    @property
    def names(self) -> tuple[str, ...]:
        """The thesis' roles first, in their order, then other tasks by alphabet."""
        return tuple(roles.ordered(self.folders))


class MiniBuild(Settings):  # how the dataset folders of mini are made from the files inside gensim
    builder: Literal["mini"]
    documents: Annotated[int, Field(ge=4)]
    topic_passages: Annotated[int, Field(ge=2)]
    articles: Annotated[int, Field(ge=8)]
    sections: Annotated[int, Field(ge=2)]
    train_pairs: Count
    validation_pairs: Count
    seed: Seed


# A file of the hub counts with its commit only: what a branch holds changes.
_PINNED = re.compile(r"(?!hf://)|[^@]*@[^/]{40}(/|$)")
Source = Annotated[Text, _check("the pinned hf://datasets/<id>@<40 hex digits>/<files>", _PINNED.match)]


class ThesisBuild(Settings):  # from which files the dataset folders of thesis are made
    builder: Literal["thesis"]
    wikipedia: Filled[Source]
    news: Filled[Source]


class StructuralTeacherSettings(Settings):  # SBERT
    model: Text
    revision: Text | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    max_tokens: Annotated[int, Field(ge=3)]
    batch_size: Count


class ContextualTeacherSettings(Settings):  # Paragraph Vector's fixed hyperparameters; the grid's are in grids/pv.yaml
    documents: Count | None
    seed: Seed
    epochs: Count
    workers: Count
    window: Count
    negative: Annotated[int, Field(ge=0)]
    sample: NonNegative
    min_count_share: Annotated[float, Field(gt=0, lt=1)]
    alpha: Positive
    min_alpha: Positive
    dbow_words: bool

    @model_validator(mode="after")
    def _alpha_falls(self) -> ContextualTeacherSettings:
        if self.min_alpha > self.alpha:
            raise ValueError(f"min_alpha={self.min_alpha} is above alpha={self.alpha}: the rate falls during training")
        return self


class StudentSettings(Settings):
    """The student's architecture and where its weights start. window: tokens, half of them on each side."""

    base: Literal["encoder", "longformer"]
    model: Text
    revision: Text | None = None
    layers: Annotated[
        Filled[Annotated[int, Field(ge=0)]] | None,
        _check("rising numbers, each once", lambda layers: list(layers or ()) == sorted(set(layers or ()))),
    ]
    window: Annotated[int, Field(ge=2, multiple_of=2)]
    max_positions: Count


class TrainingSettings(Settings):  # how every student of Chapter 4 is trained
    documents: Annotated[int, Field(ge=2)]
    batch_size: Annotated[int, Field(ge=2)]
    cca_batch_size: Annotated[int, Field(ge=2)]
    learning_rate: Positive
    warmup_share: Share
    weight_decay: NonNegative
    clip: Positive
    accumulation: Count
    precision: Literal["fp32", "bf16"]
    gradient_checkpointing: bool
    dropout: Share | None
    freeze_token_embeddings: bool
    checkpoint_every: Count
    length_bucket: Count
    max_structural_len: Count


class HeadSettings(Settings):  # the classification heads of the evaluation
    hidden: Count
    dropout: Share
    epochs: Count
    batch_size: Count
    weight_decay: NonNegative
    label_smoothing: Share
    learning_rate: Positive
    clip: Positive
    features: Literal["raw", "unit norm", "standardized"]
    classifier: Literal["head", "similarity"]
    repeats: Count


class SoftCCASettings(Settings):  # the contextual loss
    beta: Share
    delta: NonNegative
    form: Literal["code", "printed"]


class FinalSettings(Settings):  # Chapter 5: longer training, and evaluation with three amounts of labelled data
    documents: Annotated[int, Field(ge=2)]
    learning_rate: Positive
    accumulation: Count
    warmup_updates: Annotated[int, Field(ge=0)]
    contextual_seed: Seed
    rounds: Annotated[dict[Text, Count | None], Field(min_length=1)]


class Profile(Settings):
    """Everything that scales an experiment. `lib.config.profiles.load` makes it."""

    name: Text
    offline: bool
    data_root: Text | None
    seeds: Annotated[Filled[Seed], BeforeValidator(_seeds), _EachOnce]
    reference_seeds: Annotated[tuple[Seed, ...], Field(strict=False, min_length=2), _EachOnce]
    width: Annotated[float, Field(gt=0, le=4)]
    only: Annotated[str, _check("text such as 'cosine,max-margin;*'", lambda only: not only or patterns(only))]
    max_variants: Count | None
    build: Annotated[MiniBuild | ThesisBuild, Field(discriminator="builder")] | None
    corpus: CorpusSettings
    tasks: TaskSettings
    structural_teacher: StructuralTeacherSettings
    contextual_teacher: ContextualTeacherSettings
    student: StudentSettings
    training: TrainingSettings
    heads: HeadSettings
    soft_cca: SoftCCASettings
    final: FinalSettings

    _departures: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Profile:
        for key, used in (("training.documents", self.training.documents), ("final.documents", self.final.documents)):
            if used > self.corpus.train_documents:
                raise ValueError(f"{key}={used} is more than corpus.train_documents={self.corpus.train_documents}")
        for key in ("batch_size", "cca_batch_size"):
            size, documents = getattr(self.training, key), self.training.documents
            if documents < size:
                raise ValueError(f"training.documents={documents} do not fill one batch of training.{key}={size}")
        return self

    @property
    def departures(self) -> dict[str, Any]:
        """Dotted keys whose values are not those of the profile's file, with their values; empty if unmodified."""
        return dict(self._departures)

    def flat(self) -> dict[str, Any]:
        """The profile as dotted key -> plain value; a field that holds a mapping is one value."""
        values: dict[str, Any] = {}
        for key, value in self.model_dump(mode="json").items():
            inner = isinstance(getattr(self, key), Settings)
            values |= {f"{key}.{field}": part for field, part in value.items()} if inner else {key: value}
        return values


def _as_trained(label: str) -> str:
    """A model has one label: `γ=1` is `γ=1.0`, and `×` is `x`."""
    return re.sub(r"(?<=γ=)\d+(\.\d+)?$", lambda number: str(float(number[0])), label.replace("×", "x"))


Label = Annotated[Text, AfterValidator(_as_trained)]


class MaxMarginGrid(Settings):  # distances times gammas
    distances: Listed[Literal["MSE", "cosine"]]
    gammas: Listed[Positive]


class StructuralGrid(Settings):  # Section 4.4
    losses: Listed[Label]  # which losses there are `lib.distillation.variants` knows
    max_margin: MaxMarginGrid
    reference: Annotated[Filled[Label], _EachOnce]


class ProjectionGroup(Settings):
    """All pairs of the named projections for one contextual teacher, whose short name ends in `dimension`."""

    dimension: Text
    student: Listed[Label]
    contextual: Listed[Label]


class ProjectionGrid(Settings):  # Section 4.5.2, Tables 4.6 to 4.8
    only_contextual: Annotated[Listed[ProjectionGroup], Field(alias="only-contextual")]
    cosine: Listed[ProjectionGroup]
    mm_mse: Annotated[Listed[ProjectionGroup], Field(alias="mm-MSE")]


class WeightingGrid(Settings):  # Section 4.5.3, Table 4.9
    max_structural_len: Listed[Literal["384", "None"]]
    lam: Listed[Share]


class CompoundGrid(Settings):  # the three best of each architecture; every pair of them is a compound
    dm: Texts
    dbow: Texts


class ParagraphVectorGrid(Settings):  # Section 4.5.1, Table 4.5
    architectures: Listed[Literal["DM", "DBOW"]]
    dimensions: Listed[Count]
    preprocessing: Listed[Literal["stem", "lowercase", "None"]]
    min_count: Listed[Literal["2", "10%"]]
    compound: CompoundGrid


GRIDS: dict[str, type[Settings]] = dict(
    structural=StructuralGrid, projections=ProjectionGrid, weighting=WeightingGrid, pv=ParagraphVectorGrid
)
