"""From variants to records, on real texts at smoke scale: what is trained, what is reused, what a change retrains."""

import ast
from concurrent.futures import Executor, Future

import pytest

from lib.config import paths, profiles
from lib.distillation.variants import MM_MSE, NO_WEIGHTING, parse
from lib.experiments import accuracies, embeddings, keys, runs, student_training
from lib.store import records


class Inline(Executor):
    """An executor that works at once, in this process."""

    def submit(self, function, /, *arguments, **keywords):
        future = Future()
        try:
            future.set_result(function(*arguments, **keywords))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """The smoke profile with an artifact root of its own, shared by this module's tests."""
    patch = pytest.MonkeyPatch()
    patch.setenv("THESIS_ARTIFACTS", str(tmp_path_factory.mktemp("artifacts")))
    yield profiles.load("smoke", overrides={"training.documents": 12})
    patch.undo()


@pytest.fixture
def source_changed(monkeypatch):
    """A function that pretends a module's source had changed."""

    def forget():
        records.source_fingerprint.cache_clear()

    def change(module):
        real = records._syntax
        monkeypatch.setattr(records, "_syntax", lambda name: real(name) + (" changed" if name == module else ""))
        forget()

    forget()
    yield change
    monkeypatch.undo()
    forget()


def test_records_are_tidy_and_a_second_call_trains_nothing(profile, monkeypatch):
    frame = runs.run(["SBERT", "cosine"], profile=profile, seeds=[0], tasks=["OC", "IMDB"], executor=Inline())
    assert frame[["model", "task"]].to_numpy().tolist() == [
        ["SBERT", "OC"], ["SBERT", "IMDB"], ["cosine", "OC"], ["cosine", "IMDB"]
    ]  # fmt: skip
    assert frame["value"].between(0, 1).all() and (frame["metric"] == "accuracy").all()
    assert frame["fingerprint"].is_unique and (frame["device"] == "cpu").all() and (frame["seconds"] > 0).all()

    def never(*arguments, **keywords):
        raise AssertionError("trained again")

    monkeypatch.setattr(student_training, "train_student", never)
    monkeypatch.setattr(accuracies, "evaluate", never)
    again = runs.run(["SBERT", "cosine"], profile=profile, seeds=[0], tasks=["OC", "IMDB"], executor=Inline())
    assert again.equals(frame)


def test_a_damaged_record_is_rebuilt_with_the_same_value(profile):
    frame = runs.run(["SBERT"], profile=profile, seeds=[0], tasks=["OC"], executor=Inline())
    path = records.store().folder / "records" / f"{frame['fingerprint'][0]}.json"
    path.write_text(path.read_text()[:5])
    with pytest.warns(UserWarning, match="damaged or unfinished"):
        again = runs.run(["SBERT"], profile=profile, seeds=[0], tasks=["OC"], executor=Inline())
    assert again["value"][0] == frame["value"][0]


def test_a_students_contextual_training_is_watched(profile):
    made = embeddings.of("only-contextual;100d;S:768;C:768", 0, profile)
    updates, embedding, projected = made["cca"].T
    assert updates.tolist() == [0, 1, 2] and len(made["loss"]) == 2
    assert ((0 <= embedding) & (embedding <= 1)).all() and ((0 <= projected) & (projected <= 1)).all()


def test_retrieval_scores_every_model_on_both_metrics(profile):
    frame = runs.retrieve(["SBERT", "TF-IDF"], profile=profile, seeds=[0], executor=Inline())
    assert len(frame) == 2 * 2 * 2
    assert set(frame["metric"]) == {"MAP", "MRR"} and frame["value"].between(0, 1).all()
    scores = frame.set_index(["model", "task", "metric"])["value"]
    assert (scores.xs("MRR", level="metric") >= scores.xs("MAP", level="metric")).all()


def test_the_first_error_is_raised_after_the_others_are_done(profile, monkeypatch):
    real = student_training.train_student

    def fail(variant, seed, profile, start):
        if variant.structural == "MSE":
            raise FloatingPointError("loss is nan at update 1 of 2")
        return real(variant, seed, profile, start)

    monkeypatch.setattr(student_training, "train_student", fail)
    with pytest.warns(UserWarning, match="embed failed for"), pytest.raises(FloatingPointError, match="update 1 of 2"):
        runs.run(["MSE", "contrastive"], profile=profile, seeds=[0], tasks=["OC"], executor=Inline())
    assert records.store().has("embeddings", keys.embeddings(parse("contrastive"), 0, profile))


LABELS = ["cosine", "MSE", "contrastive", MM_MSE, NO_WEIGHTING["cosine"], NO_WEIGHTING["cosine"] + ";384;λ=0.5"]


@pytest.mark.parametrize(
    ("module", "retrained"),
    [
        ("lib.losses.mse", {"MSE", MM_MSE}),
        ("lib.losses.cosine", {"cosine", "contrastive", LABELS[4], LABELS[5]}),
        ("lib.losses.soft_cca", {LABELS[4], LABELS[5]}),
        ("lib.losses.weighting", {LABELS[4], LABELS[5]}),
        ("lib.distillation.training", set(LABELS)),
        ("lib.distillation.objective", set(LABELS)),
        ("lib.student.attention", set(LABELS)),
        ("lib.figures.boxplots", set()),
        ("lib.evaluation.heads", set()),
        ("lib.findings.chapter4", set()),
    ],
)
def test_a_changed_source_retrains_exactly_what_uses_it(profile, source_changed, module, retrained):
    before = {label: keys.embeddings(parse(label), 0, profile) for label in LABELS}
    source_changed(module)
    after = {label: keys.embeddings(parse(label), 0, profile) for label in LABELS}
    assert {label for label in LABELS if before[label] != after[label]} == retrained


def test_changed_heads_evaluate_again_without_training(profile, source_changed):
    variant = parse("cosine")
    before = keys.record(variant, 0, "OC", profile, "validation", None)
    source_changed("lib.evaluation.heads")
    assert keys.record(variant, 0, "OC", profile, "validation", None) != before


def test_a_key_names_what_matters_and_nothing_else(profile):
    variant = parse("cosine")
    key = keys.embeddings(variant, 0, profile)
    assert keys.embeddings(variant, 1, profile) != key
    faster = profiles.load("smoke", overrides={"training.documents": 12, "training.learning_rate": 1e-3})
    assert keys.embeddings(variant, 0, faster) != key
    for harmless in ({"training.checkpoint_every": 1}, {"soft_cca.beta": 0.5}, {"width": 0.1}, {"heads.epochs": 3}):
        other = profiles.load("smoke", overrides={"training.documents": 12} | harmless)
        assert keys.embeddings(variant, 0, other) == key, harmless


def test_only_students_depend_on_the_seed(profile):
    for label in ("Longformer", "SBERT", "DM;100d", "TF-IDF"):
        variant = parse(label)
        assert keys.embeddings(variant, 0, profile) == keys.embeddings(variant, 1, profile)


# Imported by what makes numbers, without a say in them: where files are, how they are written, checks of arguments, and
# what has a key of its own (a variant's fields are in it).
NO_SAY = {
    *(
        f"lib.{name}"
        for name in (
            "config.paths",
            "config.profiles",
            "store.files",
            "store.records",
            "config.schema",
            "distillation.variants",
            "losses",
            "losses._checks",
        )
    ),
    *(f"lib.{name}" for name in ("student.export", "teachers.archive", "teachers.texts", "distillation.projection")),
}


def source_of(module):
    path = paths.ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imports_of(module):
    """The modules of lib that a module imports, read from its source."""
    found = set()
    for node in ast.walk(ast.parse(source_of(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lib":
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in inside if source_of(name).exists()} or {node.module}
    return found


@pytest.mark.parametrize(
    "sources",
    [
        tuple({module for modules in keys.CORPUS_SOURCES.values() for module in modules}),
        tuple({module for modules in keys.TASK_SOURCES.values() for module in modules}),
        tuple(f"lib.student.{name}" for name in ("encoder", "attention", "packing", "weights")),
        tuple(f"lib.distillation.{name}" for name in ("training", "objective", "checkpoint")),
        ("lib.teachers.sbert",),
        ("lib.teachers.paragraph_vector", "lib.teachers.labels"),
        ("lib.evaluation.heads",),
        ("lib.losses.contrastive", "lib.losses.cosine"),
    ],
    ids=lambda sources: min(sources),
)
def test_a_key_names_every_module_with_a_say(sources):
    for module in sources:
        unnamed = imports_of(module) - set(sources) - NO_SAY
        assert not unnamed, f"{module} imports {sorted(unnamed)}, which no key names"
