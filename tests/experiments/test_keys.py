"""What a change makes again: every module that a value runs, and nothing that it does not."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lib.config import profiles
from lib.data import sources
from lib.distillation import variants
from lib.distillation.variants import MM_MSE, NO_WEIGHTING, parse
from lib.experiments import embeddings, keys, models
from lib.store import source_keys
from lib.store.files import fingerprint
from lib.store.source_keys import ROOT, closure, source_key

DOCUMENTS = {"training.documents": 12}
PROFILE = profiles.load("smoke", overrides=DOCUMENTS)
SUM, WEIGHTED = NO_WEIGHTING["cosine"], f"{NO_WEIGHTING['cosine']};384;λ=0.5"
CLS, CCA = "cosine;[CLS]", "only-contextual;100d;S:768;C:768;cca"
COSINES, CONTEXTUAL = {"cosine", SUM, WEIGHTED, CLS}, {SUM, WEIGHTED, CCA}
STUDENTS = {"MSE", "contrastive", MM_MSE} | COSINES | CONTEXTUAL
OTHERS = {"Longformer", "SBERT", "DM;100d", "TF-IDF", "SBERT, mean of chunks"}


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    """Dataset folders are neither built nor read: their bytes stay as they are."""
    monkeypatch.setattr(sources, "fingerprint", lambda profile, datasets: sorted(datasets))


def embedding_keys(profile=PROFILE):
    return {
        label: fingerprint(keys.embeddings(parse(label), 0, profile)) for label in STUDENTS | OTHERS
    }


@pytest.fixture
def changed(monkeypatch):
    """A function that changes a module's source as the keys read it."""
    real = source_keys.source

    def change(module):
        monkeypatch.setattr(
            source_keys, "source", lambda name: real(name) + "\nCHANGED = 1" * (name == module)
        )
        source_key.cache_clear()

    source_key.cache_clear()
    yield change
    monkeypatch.undo()
    source_key.cache_clear()


@pytest.mark.parametrize(
    ("module", "made_again"),
    [
        ("lib.losses.mse", {"MSE", MM_MSE}),
        ("lib.losses.cosine", COSINES | {"contrastive"}),
        ("lib.losses.contrastive", {"contrastive"}),
        ("lib.losses.max_margin", {MM_MSE}),
        ("lib.losses.soft_cca", {SUM, WEIGHTED}),
        ("lib.losses.cca", {CCA}),
        ("lib.losses.weighting", {SUM, WEIGHTED}),
        ("lib.losses._checks", STUDENTS - {CCA}),
        ("lib.losses", set()),  # a loss that is added: the functions behind the names stay
        ("lib.distillation.training", STUDENTS),
        ("lib.distillation.objective", STUDENTS),
        ("lib.distillation.checkpoint", STUDENTS),
        ("lib.data.builders", set()),  # what builders wrote counts, by its bytes
        ("lib.student.export", set()),  # writes students, and no experiment reads one
        ("lib.evaluation.metrics", set()),
        ("lib.evaluation.canonical_correlation", CONTEXTUAL),
        ("lib.tasks", STUDENTS | OTHERS),
        ("lib.data.check", set()),
        ("lib.distillation.projection", CONTEXTUAL),
        ("lib.distillation.held_out_cca", CONTEXTUAL),
        (
            "lib.distillation.variants",
            set(),
        ),  # a line of a table, a label: the values are in the keys
        ("lib.student.attention", STUDENTS | {"Longformer"}),
        ("lib.student.cls", {CLS}),
        ("lib.student.export", set()),  # writes what is trained already
        ("lib.teachers.sbert", STUDENTS - {CCA} | {"SBERT", "TF-IDF", "SBERT, mean of chunks"}),
        ("lib.teachers.paragraph_vector", CONTEXTUAL | {"DM;100d"}),
        ("lib.evaluation.baselines", {"TF-IDF", "SBERT, mean of chunks"}),
        ("lib.evaluation.heads", set()),
        ("lib.experiments.text_sets", STUDENTS | OTHERS),  # how token ids are kept too
        ("lib.config.environment", STUDENTS | OTHERS),
        ("lib.experiments.runs", set()),
        ("lib.experiments.keys", set()),
        ("lib.store.executors", set()),
        ("lib.figures.boxplots", set()),
        ("lib.chapters.chapter4", set()),
        ("lib.statistics.effects", set()),
        ("lib.report.site", set()),
        ("lib.runner.run_all", set()),
    ],
)
def test_a_changed_source_makes_again_exactly_what_uses_it(changed, module, made_again):
    before = embedding_keys()
    changed(module)
    assert source_keys.source(module).endswith("CHANGED = 1")
    after = embedding_keys()
    assert {label for label in before if before[label] != after[label]} == made_again


def test_no_module_that_a_record_runs_is_missing_in_its_key(changed):
    """All that the glue imports, directly or not, aside from what carries values, builders of dataset folders, whose
    bytes are in the keys, and losses that the student lacks."""
    carriers = tuple(name for name in keys.NOT_ENTERED if name != "lib.experiments")
    variant = parse(WEIGHTED)
    used = {"_checks", "cosine", "soft_cca", "weighting"}
    unused = {
        f"lib.losses.{path.stem}"
        for path in (ROOT / "lib/losses").glob("*.py")
        if path.stem not in used
    }
    silent = unused | {"lib.losses", "lib.evaluation.baselines", "lib.student.cls"}
    key = keys.record(variant, 0, "OC", PROFILE, "validation", None)
    modules = (
        set(closure("lib.experiments.accuracies", stop=(*carriers, "lib.experiments.keys")))
        - silent
    )
    assert len(modules) > 25
    for module in modules:
        changed(module)
        assert keys.record(variant, 0, "OC", PROFILE, "validation", None) != key, module


@pytest.mark.parametrize("change", [{"contextual_features": "raw"}, {"contextual_rows": "dealt"}])
def test_how_a_contextual_teacher_is_read_counts_for_its_own_students_alone(change):
    before, after = embedding_keys(), embedding_keys(PROFILE.changed("training", **change))
    assert {label for label in before if before[label] != after[label]} == CONTEXTUAL


def test_the_version_of_what_standardizes_counts_for_students_of_a_contextual_teacher(monkeypatch):
    before, real = embedding_keys(), keys.versions
    monkeypatch.setattr(
        keys,
        "versions",
        lambda *names: real(*names) | {name: "0" for name in names if "scikit" in name},
    )
    after = embedding_keys()
    assert {label for label in before if before[label] != after[label]} == CONTEXTUAL | {
        "TF-IDF",
        "SBERT, mean of chunks",
    }


def test_changed_files_count_and_are_looked_at_once_where_many_keys_are_asked_for(monkeypatch):
    looks = []
    monkeypatch.setattr(
        sources,
        "fingerprint",
        lambda profile, datasets: looks.append(1) or f"files {len(looks) > 99}",
    )
    before = embedding_keys()
    assert len(looks) > 20
    looks.clear()
    with keys.data_at_rest():
        assert embedding_keys() == before and len(looks) == 2  # the corpus' and the tasks'
        looks += [1] * 100  # the files change
        with keys.data_at_rest():
            assert embedding_keys() == before
        assert embedding_keys() == before
    assert not set(embedding_keys().values()) & set(before.values())


def test_a_model_looks_at_files_once(monkeypatch, tmp_path):
    """A look takes five milliseconds; a student with a contextual teacher asks for some seventy keys."""
    looks = []
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    monkeypatch.setattr(sources, "fingerprint", lambda *arguments: looks.append(1) or "files")
    monkeypatch.setattr(
        embeddings, "_compute", lambda variant, *_: {"keys": np.array([*embedding_keys()])}
    )
    embeddings.of("Longformer", 0, PROFILE)
    assert len(looks) == 2  # the corpus' and the tasks'


def test_no_thread_leaves_its_look_to_another(monkeypatch):
    looks = []
    monkeypatch.setattr(sources, "fingerprint", lambda *arguments: looks.append(1) or "files")
    early, late, no_error = keys.data_at_rest(), keys.data_at_rest(), (None, None, None)
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        first.submit(early.__enter__).result()
        second.submit(late.__enter__).result()
        first.submit(early.__exit__, *no_error).result()
        second.submit(late.__exit__, *no_error).result()
    embedding_keys()
    assert len(looks) > 20, "nothing is at rest any more"


@pytest.mark.parametrize(
    ("module", "again"),
    [
        ("lib.evaluation.heads", True),
        ("lib.data.builders", False),
        ("lib.evaluation.metrics", False),
    ],
)
def test_changed_heads_evaluate_again_without_training(changed, module, again):
    variant = parse("cosine")
    before = (
        keys.record(variant, 0, "OC", PROFILE, "validation", None),
        keys.embeddings(variant, 0, PROFILE),
    )
    changed(module)
    after = (
        keys.record(variant, 0, "OC", PROFILE, "validation", None),
        keys.embeddings(variant, 0, PROFILE),
    )
    assert (before[0] != after[0]) == again and before[1] == after[1]


def test_the_name_of_a_task_counts_and_is_no_part_of_a_path():
    recipes = [
        keys.record(parse("SBERT"), 0, name, PROFILE, "test", None)
        for name in ("OC", "x/../b", "x" * 300)
    ]
    assert len({*map(fingerprint, recipes)}) == 3 and {recipe["kind"] for recipe in recipes} == {
        "records"
    }


@pytest.mark.parametrize(
    ("changes", "label", "matters"),
    [
        ({"training.learning_rate": 1e-3}, "cosine", True),
        ({"training.documents": 18}, "cosine", True),
        ({"training.max_structural_len": 100}, WEIGHTED, True),
        ({"soft_cca.beta": 0.5}, WEIGHTED, True),
        ({"width": 0.1}, WEIGHTED, True),
        ({"tasks.limit": 3}, "cosine", True),
        ({"training.checkpoint_every": 1}, "cosine", False),
        ({"soft_cca.beta": 0.5}, "cosine", False),
        ({"width": 0.1}, "cosine", False),
        ({"heads.epochs": 3}, "cosine", False),
        ({"training.learning_rate": 1e-3}, "SBERT", False),
        ({"seeds": [7], "only": "cosine"}, "cosine", False),
    ],
)
def test_a_key_names_what_matters_and_nothing_else(changes, label, matters):
    other = profiles.load("smoke", overrides=DOCUMENTS | changes)
    assert (embedding_keys(other)[label] != embedding_keys()[label]) == matters


def test_only_what_is_trained_depends_on_the_seed():
    for label in STUDENTS | OTHERS:
        variant = parse(label)
        depends = keys.embeddings(variant, 0, PROFILE) != keys.embeddings(variant, 1, PROFILE)
        assert depends == (label in STUDENTS or variant.kind == "paragraph_vector"), label


def test_a_cut_model_is_its_model_but_for_its_records():
    whole, cut = parse("cosine"), parse("cosine;cut")
    assert keys.embeddings(whole, 0, PROFILE, "test") == keys.embeddings(cut, 0, PROFILE, "test")
    assert keys.record(whole, 0, "OC", PROFILE, "test", None) != keys.record(
        cut, 0, "OC", PROFILE, "test", None
    )
    shorter = profiles.load("smoke", overrides=DOCUMENTS | {"structural_teacher.max_tokens": 40})
    assert keys.embeddings(parse("Longformer"), 0, PROFILE, "test") != keys.embeddings(
        parse("Longformer"), 0, shorter, "test"
    )


@pytest.mark.parametrize(
    "other", ["from lib.losses.cosine import cosine as mse", "def mse(*_): return 0"]
)
def test_another_function_behind_the_name_of_a_loss_counts(monkeypatch, other):
    before, real = embedding_keys(), source_keys.source
    monkeypatch.setattr(
        source_keys, "source", lambda name: real(name) + f"\n{other}\n" * (name == "lib.losses")
    )
    remembered = source_key, source_keys.home, source_keys.imports
    for function in remembered:
        function.cache_clear()
    after = embedding_keys()
    for function in remembered:
        function.cache_clear()
    assert {label for label in before if before[label] != after[label]} == {"MSE", MM_MSE}


def test_what_a_label_means_counts(monkeypatch):
    """The same label, but another gamma or another function: its students are trained again."""
    before, real = embedding_keys(), variants.structural_loss
    for broken in (
        lambda label: (real(label)[0], {"gamma": 9.0}),
        lambda label: ("mse", real(label)[1]),
    ):
        monkeypatch.setattr(variants, "structural_loss", broken)
        assert embedding_keys()[MM_MSE] != before[MM_MSE]


@pytest.mark.parametrize(
    ("file", "counts"),
    [("config.json", True), ("vocab.txt", True), ("1_Pooling/config.json", True), ("pytorch_model.bin", True),
     ("model.safetensors", True), ("README.md", False)],
)  # fmt: skip
def test_every_file_that_a_local_model_is_loaded_from_counts(tmp_path, file, counts):
    def named():
        keys._weights.cache_clear()
        return [keys.base(profile), keys.structural_teacher(profile)]

    changes = {"student.model": str(tmp_path), "structural_teacher.model": str(tmp_path)}
    profile = profiles.load("smoke", overrides=changes)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("before")
    before = named()
    (tmp_path / file).write_text("after")
    assert [key != other for key, other in zip(before, named(), strict=True)] == [counts] * 2


def test_where_and_with_what_a_number_is_computed_counts(monkeypatch):
    before = embedding_keys()
    monkeypatch.setattr(keys, "device", lambda: "another")
    after = embedding_keys()
    assert {label for label in before if before[label] != after[label]} == STUDENTS | {
        "Longformer"
    }  # SBERT: CPU only
    monkeypatch.setattr(
        keys, "versions", lambda *packages: packages if "scikit-learn" in packages else {}
    )
    keys_of_packages = embedding_keys()["TF-IDF"]
    monkeypatch.setattr(keys, "versions", lambda *packages: {})
    assert embedding_keys()["TF-IDF"] != keys_of_packages


def test_a_processor_without_bfloat16_has_keys_of_its_own(monkeypatch):
    """It computes in float32, so a store that is copied or shared does not mix the two."""
    profile, found = profiles.load("smoke", overrides=["training.precision=bf16"]), []
    for there in (True, False):
        monkeypatch.setattr(models, "has_bfloat16", lambda there=there: there)
        found.append(
            [
                keys.embeddings(parse(label), 0, profile)["model"]
                for label in ("Longformer", "cosine")
            ]
        )
    assert all(one != other for one, other in zip(*found, strict=True))
