"""The types of all values in `params/`.

`params/mini.yaml` declares most of them, and its comments say what they mean: another profile may
change a value, but neither its name nor its type. The classes below add what one value cannot tell.
"""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from ruamel.yaml import YAML

from lib.config import paths

T = TypeVar("T")
Count = Annotated[int, Field(ge=1, le=10**9)]
Several = Annotated[int, Field(ge=2)]
Whole = Annotated[int, Field(ge=0, lt=2**32)]  # also seeds: NumPy, gensim and torch take these
Share = Annotated[float, Field(ge=0, lt=1)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
# YAML has only lists, which strict mode would refuse for a tuple. The elements stay strict.
Texts = Annotated[tuple[Text, ...], Field(strict=False)]
Filled = Annotated[tuple[T, ...], Field(strict=False, min_length=1)]
_PLAIN = {bool: bool, int: Whole, str: Text, type(None): Count | None, float: Number}
_MINI = YAML(typ="safe", pure=True).load(paths.PARAMS / "mini.yaml")


class Settings(BaseModel):
    """Frozen, without unknown keys or silent conversion: "0.1" is not a number, 1.0 not a count."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, regex_engine="python-re")


def declared(section: str) -> Any:
    """A class with the plain settings of a section of mini.yaml, where null may be a count."""
    types = {name: _PLAIN.get(type(value)) for name, value in _MINI[section].items()}
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in types.items() if kind}
    return create_model(section, __base__=Settings, **fields)


_RATED = r"^(RNN|GRU|LSTM|Transformer|FFN|CNN-[12]|bag|other|tokens)$"  # architectures and parts
_TASK = r"^[^/.][^/]*/[^/.][^/]*$"
_NAMED = BeforeValidator(lambda value: {"folder": value} if isinstance(value, str) else value)


class CorpusFolder(Settings):
    """A dataset folder of the corpus; shares are relative to each other."""

    folder: Annotated[str, Field(pattern=r"^[^/.][^/]*$")]  # its name in a data root
    share: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    min_tokens: Annotated[int, Field(ge=0)] = 0


class CorpusSettings(declared("corpus")):  # type: ignore[misc]
    """The distillation corpus: dataset folders and their shares."""

    folders: Filled[Annotated[CorpusFolder, _NAMED]]
    order: Literal["listed", "shuffled"]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.folder for entry in self.folders)


class TaskFolder(Settings):
    """Where a task is, how it is cross-validated, and how many texts to keep."""

    folder: Annotated[str, Field(pattern=_TASK)]  # <folder>/<task>
    folds: Several | None = 5  # of train, in place of a split that is missing
    cross_fit: bool = False  # Chapter 4 has the folds of train.jsonl, Chapter 5 those of test.jsonl
    blocks: Several | None = None  # folds of all examples, whatever splits there are
    texts: Annotated[int, Field(ge=4)] | None = None  # at most so many, see docs/sizes.md
    without: Text | None = None  # a regular expression; leaves out what matches


class TaskSettings(declared("tasks")):  # type: ignore[misc]
    """The evaluation tasks by name, perhaps none, and how they are reduced in size."""

    folders: dict[Text, Annotated[TaskFolder, _NAMED]]


class MiniBuild(declared("build")):  # type: ignore[misc]
    """How the dataset folders of profile mini are made from files that come with gensim."""

    builder: Literal["mini"]


class ThesisBuild(Settings):
    """The files from which the dataset folders of profile thesis are made."""

    builder: Literal["thesis"]
    wikipedia: Filled[Text]
    news: Filled[Text]
    tasks: dict[Text, dict[Text, Text]]  # {folder: {split or file: place}}


class StructuralTeacherSettings(declared("structural_teacher")):  # type: ignore[misc]
    """The structural teacher, SBERT."""

    revision: Text | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class ContextualTeacherSettings(declared("contextual_teacher")):  # type: ignore[misc]
    """Hyperparameters of Paragraph Vector beside those in grids/pv.yaml."""


class StudentSettings(declared("student")):  # type: ignore[misc]
    """The student's architecture and its initial weights."""

    base: Literal["encoder", "longformer"]
    revision: Text | None = None
    layers: Filled[Annotated[int, Field(ge=0)]] | None
    window: Annotated[int, Field(ge=4, multiple_of=2)]  # tokens, half of them on each side
    language_model: Count | None  # epochs of masked words


class TrainingSettings(declared("training")):  # type: ignore[misc]
    """How every student of Chapter 4 is trained."""

    precision: Literal["fp32", "bf16"]
    dropout: Share | None
    contextual_features: Literal["raw", "standardized"]
    contextual_rows: Literal["own", "dealt"]

    def count_updates(self, documents: int, processes: int = 1) -> int:
        """Updates of a student; each pass leaves out the last update if it is not full."""
        return self.passes * (documents // (self.batch_size * self.accumulation * processes))


class HeadSettings(declared("heads")):  # type: ignore[misc]
    """The classification heads of the evaluation."""

    features: Literal["raw", "standardized"]
    steps: Count | None = None  # smallest number of updates, in whole epochs; replaces `epochs`
    readout: Literal["thesis", "compare", "none"]

    @property
    def length(self) -> str:
        """How long heads train, as tables say it."""
        return f"{self.steps} steps" if self.steps else str(self.epochs)


class FinalSettings(declared("final")):  # type: ignore[misc]
    """Chapter 5: longer training, and evaluation with three amounts of labelled data."""

    rounds: Annotated[dict[Literal["1k", "10k", "all"], Count | Share | None], Field(min_length=1)]
    baselines: Texts = ()  # models beside those of grids/beyond.yaml, by identity


class NewsSettings(declared("news")):  # type: ignore[misc]
    """The second paper: events, texts for distillation, and the training of its students."""

    events: Annotated[str, Field(pattern=_TASK)]
    texts: Filled[Text]
    tokens: Literal["pca", "random"]
    rates: dict[Annotated[str, Field(pattern=_RATED)], Share]  # of learning


class Profile(Settings):
    """Everything that scales an experiment; `lib.config.profiles.load` makes it."""

    name: Text
    offline: bool
    data_roots: Texts  # "built": what `build` writes
    seeds: Filled[Whole]
    reference_seeds: Annotated[tuple[Whole, ...], Field(strict=False, min_length=2)]
    width: Annotated[float, Field(gt=0, le=4)]
    only: str
    max_variants: Count | None
    repeated: Literal["compared", "references"] = "compared"  # with the reference seeds
    labels: Texts | None = None  # the only figures and tables to make; all by default
    build: Annotated[MiniBuild | ThesisBuild, Field(discriminator="builder")] | None
    corpus: CorpusSettings
    tasks: TaskSettings
    structural_teacher: StructuralTeacherSettings
    contextual_teacher: ContextualTeacherSettings
    student: StudentSettings
    training: TrainingSettings
    heads: HeadSettings
    final: FinalSettings
    news: NewsSettings
    departures: Annotated[dict[str, Any], Field(default_factory=dict, exclude=True)]  # by key

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for values in (self.seeds, self.reference_seeds, self.corpus.names, self.news.texts):
            if len(set(values)) < len(values):
                raise ValueError(f"expected each seed and folder once, got {values}")
        most = max(self.training.documents, self.final.documents)
        if most > self.corpus.train_documents:
            raise ValueError(f"corpus.train_documents is less than documents={most}")
        if self.training.max_structural_len > self.structural_teacher.max_tokens:  # cut ones teach
            raise ValueError("training.max_structural_len is above structural_teacher.max_tokens")
        return self

    def changed(self, section: str, **values: Any) -> Self:
        """Copy the profile with other values in one section; `ValueError` if they do not fit."""
        settings = getattr(self, section)
        changed = type(settings).model_validate(dict(settings) | values)
        return self.model_copy(update={section: changed})

    def flat(self) -> dict[str, Any]:
        """Return the profile as dotted key -> plain value; a mapping in a field is one value."""
        values: dict[str, Any] = {}
        for key, value in self.model_dump(mode="json").items():
            parts = value if isinstance(value, dict) else {"": value}
            values |= {f"{key}.{name}".rstrip("."): part for name, part in parts.items()}
        return values
