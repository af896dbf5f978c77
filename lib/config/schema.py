"""The types of all values in `params/`. The comments there say what the values mean."""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

T = TypeVar("T")
Count = Annotated[int, Field(ge=1, le=10**9)]
Several = Annotated[int, Field(ge=2)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # the range that NumPy, gensim and torch share
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
PartOf = Annotated[float, Field(gt=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
# YAML has only lists, which strict mode would refuse for a tuple. The elements stay strict.
Listed = Annotated[tuple[T, ...], Field(strict=False)]
Filled = Annotated[tuple[T, ...], Field(strict=False, min_length=1)]
Texts = Listed[Text]


class Settings(BaseModel):
    """Frozen, without unknown keys or silent conversion: "0.1" is not a number, 1.0 not a count."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, regex_engine="python-re")


_TASK = r"^[^/.][^/]*/[^/.][^/]*$"
_NAMED = BeforeValidator(lambda value: {"folder": value} if isinstance(value, str) else value)


class CorpusFolder(Settings):
    """A dataset folder of the corpus; shares are relative to each other."""

    folder: Annotated[str, Field(pattern=r"^[^/.][^/]*$")]  # its name in a data root
    share: Positive = 1.0
    min_tokens: Annotated[int, Field(ge=0)] = 0


class CorpusSettings(Settings):
    """The distillation corpus: dataset folders and their shares."""

    folders: Filled[Annotated[CorpusFolder, _NAMED]]
    order: Literal["listed", "shuffled"]
    train_documents: Several
    validation_documents: Several
    seed: Seed

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


class TaskSettings(Settings):
    """The evaluation tasks by name, and how they are reduced in size."""

    folders: dict[Text, Annotated[TaskFolder, _NAMED]]  # perhaps none
    limit: Count
    seed: Seed


class MiniBuild(Settings):
    """How the dataset folders of profile mini are made from files that come with gensim."""

    builder: Literal["mini"]
    documents: Several
    topic_passages: Several
    articles: Several
    blocks: Several
    sections: Several
    pairs: Count
    seed: Seed


# Files of the hub must be named with their commit, because branches change.
Place = Annotated[str, Field(pattern=r"^(?!hf://)|^hf://[^@]+@[0-9a-f]{40}(/|$)")]


class ThesisBuild(Settings):
    """The files from which the dataset folders of profile thesis are made."""

    builder: Literal["thesis"]
    wikipedia: Filled[Place]
    news: Filled[Place]
    tasks: dict[Text, dict[Text, Place]]  # {folder: {split or file: place}}


class StructuralTeacherSettings(Settings):
    """The structural teacher, SBERT."""

    model: Text
    revision: Text | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    max_tokens: Annotated[int, Field(ge=3)]
    batch_size: Count


class ContextualTeacherSettings(Settings):
    """Fixed hyperparameters of Paragraph Vector. Those that vary are in grids/pv.yaml."""

    documents: Count | None
    seed: Seed
    epochs: Count
    workers: Count
    window: Count
    negative: Count
    sample: NonNegative
    min_count_share: PartOf
    alpha: Positive
    min_alpha: Positive
    dbow_words: bool


class LanguageModelSettings(Settings):
    """How the student's layers learn to guess masked words before distillation."""

    epochs: Count
    batch_size: Count
    learning_rate: Positive
    warmup_share: Share
    masked_share: PartOf
    seed: Seed


class StudentSettings(Settings):
    """The student's architecture and its initial weights."""

    base: Literal["encoder", "longformer"]
    model: Text
    revision: Text | None = None
    layers: Filled[Annotated[int, Field(ge=0)]] | None
    window: Annotated[int, Field(ge=4, multiple_of=2)]  # tokens, half of them on each side
    max_positions: Count
    language_model: LanguageModelSettings | None


class TrainingSettings(Settings):
    """How every student of Chapter 4 is trained."""

    documents: Several
    passes: Count
    batch_size: Several
    cca_batch_size: Several
    learning_rate: Positive
    warmup_share: Share
    weight_decay: NonNegative
    clip: Positive
    accumulation: Count
    precision: Literal["fp32", "bf16"]
    gradient_checkpointing: bool
    dropout: Share | None
    attention_dropout: Share | None
    freeze_token_embeddings: bool
    checkpoint_every: Count
    length_bucket: Count
    max_structural_len: Count
    contextual_features: Literal["raw", "standardized"]
    contextual_rows: Literal["own", "dealt"]

    @property
    def updates(self) -> int:
        """Updates of a student; each pass leaves out the last update if it is not full."""
        return self.passes * (self.documents // (self.batch_size * self.accumulation))


class HeadSettings(Settings):
    """The classification heads of the evaluation."""

    hidden: Count
    dropout: Share
    epochs: Count
    batch_size: Count
    weight_decay: NonNegative
    label_smoothing: Share
    learning_rate: Positive
    clip: Positive
    features: Literal["raw", "unit norm", "standardized"]
    steps: Count | None = None  # smallest number of updates, in whole epochs; replaces `epochs`
    classifier: Literal["head", "compare", "similarity"]
    repeats: Count


class SoftCCASettings(Settings):
    """The contextual loss."""

    beta: Share
    delta: NonNegative


class FinalSettings(Settings):
    """Chapter 5: longer training, and evaluation with three amounts of labelled data."""

    documents: Several
    passes: Count
    learning_rate: Positive
    accumulation: Count
    warmup_updates: Annotated[int, Field(ge=0)]
    contextual_seed: Seed
    rounds: Annotated[dict[Text, Count | PartOf | None], Field(min_length=1)]
    baselines: Texts = ()  # models beside those of grids/beyond.yaml, by identity


class NewsSettings(Settings):
    """The second paper: events, texts for distillation, and the training of its students."""

    events: Annotated[str, Field(pattern=_TASK)]
    positives: PartOf
    texts: Filled[Text]
    words: Count
    documents: Count
    max_tokens: Annotated[int, Field(ge=3)]
    tokens: Literal["pca", "random"]
    epochs: Count
    batch_size: Count
    triplets: Count | None
    rates: dict[Text, Positive]  # of learning, by design
    patience: Count
    plateau_patience: Annotated[int, Field(ge=0)]


class Profile(Settings):
    """Everything that scales an experiment; `lib.config.profiles.load` makes it."""

    name: Text
    offline: bool
    data_roots: Texts  # "built": what `build` writes
    seeds: Filled[Seed]
    reference_seeds: Annotated[tuple[Seed, ...], Field(strict=False, min_length=2)]
    width: Annotated[float, Field(gt=0, le=4)]
    only: str
    max_variants: Count | None
    repeated: Literal["compared", "references"] = "compared"  # with the reference seeds
    row_order: Literal["published", "ours"] = "published"  # of boxplots
    labels: Texts | None = None  # the only figures and tables to make; all by default
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
    news: NewsSettings

    _departures: dict[str, Any] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for values in (self.seeds, self.reference_seeds, self.corpus.names, self.news.texts):
            if len(set(values)) < len(values):
                raise ValueError(f"expected each seed and folder once, got {values}")
        drawn, trained = self.corpus.train_documents, self.training.documents
        if (most := max(trained, self.final.documents)) > drawn:
            raise ValueError(f"corpus.train_documents={drawn} is less than documents={most}")
        size = self.training.batch_size  # plain CCA's own is checked when it trains
        if trained < size:
            raise ValueError(f"training.documents={trained} do not fill a batch of {size}")
        return self

    @property
    def departures(self) -> dict[str, Any]:
        """Dotted key -> value, for all values that differ from the profile's file."""
        return self._departures

    def changed(self, section: str, **values: Any) -> Self:
        """Copy the profile with other values in one section; `ValueError` if they do not fit."""
        settings = getattr(self, section)
        changed = type(settings).model_validate(dict(settings) | values)
        return self.model_copy(update={section: changed})

    def flat(self) -> dict[str, Any]:
        """Return the profile as dotted key -> plain value; a mapping in a field is one value."""
        values: dict[str, Any] = {}
        for key, value in self.model_dump(mode="json").items():
            if isinstance(value, dict):
                values |= {f"{key}.{name}": part for name, part in value.items()}
            else:
                values[key] = value
        return values
