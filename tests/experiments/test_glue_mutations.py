"""Can the glue go wrong unnoticed? It is broken on purpose, and both a key and a test of `test_glue` have to notice.

An edit replaces one piece of a module's source, in memory. The broken module is put in the place of the real one inside
a fresh copy of test_glue.py, whose tests run: at least one must fail. And once for each module keys are computed from a
broken source: those of what it makes must change, and no other.
"""

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest

from lib.config import profiles
from lib.data import sources
from lib.distillation.variants import NO_WEIGHTING, parse
from lib.experiments import keys
from lib.store import source_keys
from lib.store.source_keys import source_key

TRAINING, ACCURACIES, EMBEDDINGS, CONTEXTUAL, STRUCTURAL, STUDENT, TEXTS, RUNS, KEYS = (
    f"lib.experiments.{name}"
    for name in (
        "student_training", "accuracies", "embeddings", "contextual_teacher", "structural_teacher", "models",
        "text_sets", "runs", "keys",
    )
)  # fmt: skip
VARIANTS = "lib.distillation.variants"
OBJECTIVE, BASELINES = "lib.distillation.objective", "lib.evaluation.baselines"
CCA, METRICS = "lib.evaluation.canonical_correlation", "lib.evaluation.metrics"
EXPORT, BUILD = "lib.student.export", "lib.data.builders"
PROFILE = profiles.load("smoke")
MODELS = {
    "cosine": "cosine",
    "masked": f"{NO_WEIGHTING['cosine']};384;λ=0.5",
    "SBERT": "SBERT",
    "TF-IDF": "TF-IDF",
}
MODELS |= {"contextual": "only-contextual;100d;S:768;C:768", "PV": "DM;100d", "base": "Longformer"}
STUDENTS = {"cosine", "masked", "contextual"}

# The models that have to be made again when a module changes. What `variants` says is in the keys by its value.
MADE_AGAIN = {
    TRAINING: STUDENTS,
    OBJECTIVE: STUDENTS,
    ACCURACIES: set(),  # judged again
    TEXTS: set(MODELS),
    EMBEDDINGS: set(MODELS),
    BASELINES: {"TF-IDF"},
    CONTEXTUAL: {"contextual", "masked", "PV"},
    STRUCTURAL: {"cosine", "masked", "SBERT", "TF-IDF"},
    STUDENT: STUDENTS | {"base"},
    RUNS: set(),  # what it makes is not kept
    VARIANTS: set(),
}
# Edits of what makes no value that is kept, or only that of some models: (module, its text, the replacement, models).
# Tests of the modules' own notice what they break.
KEPT = {
    "tokens of an export": (
        EXPORT,
        "(student.max_positions)",
        "(student.max_positions + 1)",
        set(),
    ),
    "ties of retrieval": (METRICS, "TIE_DECIMALS = 12", "TIE_DECIMALS = 11", set()),
    "what a builder writes": (BUILD, "{split}.jsonl", "{split}.json", set()),
    "CCA of all directions": (CCA, "[:k].sum()", ".sum()", {"contextual", "masked"}),
}
# What is broken: (module, its text, the replacement).
EDITS = {
    "masking off": (
        TRAINING,
        '"max_structural_len": settings.max_structural_len',
        '"max_structural_len": None',
    ),
    "masking off in the objective": (
        OBJECTIVE,
        "max_structural_len if variant.masked else None",
        "None",
    ),
    "masking for all": (
        OBJECTIVE,
        "max_structural_len if variant.masked else None",
        "max_structural_len",
    ),
    "one seed for all": (TRAINING, "seed=seed", "seed=0"),
    "one seed for projections": (TRAINING, "torch.manual_seed(seed)", "torch.manual_seed(0)"),
    "no warm-up": (TRAINING, "round(settings.warmup_share * updates)", "0"),
    "weight decay": (TRAINING, "weight_decay=settings.weight_decay", "weight_decay=9.0"),
    "no clipping": (TRAINING, "clip=settings.clip", "clip=1e9"),
    "no accumulation": (TRAINING, "accumulation=settings.accumulation", "accumulation=1"),
    "raw contextual features": (TRAINING, '== "standardized"', '== "standard"'),
    "standardised by each set": (
        TRAINING,
        'embeddings(label, "train", profile)[',
        "embeddings(label, name, profile)[",
    ),
    "dealt rows always": (TRAINING, 'settings.contextual_rows == "dealt" and', ""),
    "one order of dealing": (TRAINING, "[DEAL_SEED, *variant.identity.encode()]", "DEAL_SEED"),
    "no row dealt": (TRAINING, 'settings.contextual_rows == "dealt"', "False"),
    "held-out rows dealt": (TRAINING, ' and name == "train"', ""),
    "share of all folds": (RUNS, "(1 - 1 / folds if folds else 1)", "1"),
    "learning rate": (TRAINING, "learning_rate=settings.learning_rate", "learning_rate=1e-3"),
    "length buckets": (TRAINING, "length_bucket=settings.length_bucket", "length_bucket=512"),
    "no bank of negatives": (TRAINING, "negatives=settings.negatives if", "negatives=None if"),
    "negatives for every loss": (TRAINING, 'if "max_margin" in variant.losses else None', ""),
    "no gradient checkpointing": (TRAINING, "= settings.gradient_checkpointing", "= False"),
    "trained embeddings": (TRAINING, "if settings.freeze_token_embeddings:", "if False:"),
    "CCA's batch": (TRAINING, 'variant.contextual_loss == "cca"', "False"),
    "no [CLS]": (TRAINING, 'variant.pooling == "cls"', "False"),
    "SoftCCA's defaults": (TRAINING, "**profile.soft_cca.model_dump()", "beta=0.1"),
    "seeds of heads": (ACCURACIES, "HEAD_SEEDS = 1000", "HEAD_SEEDS = 100"),
    "one head's seed for all": (ACCURACIES, "HEAD_SEEDS * seed + head", "HEAD_SEEDS * seed"),
    "shuffled folds": (ACCURACIES, "shuffle=False", "shuffle=True, random_state=0"),
    "best head for mean": (ACCURACIES, "float(np.mean(heads))", "float(np.max(heads))"),
    "validation not cut": (ACCURACIES, 'cut if split == "validation" else None', "None"),
    "test cut": (ACCURACIES, 'cut if split == "validation" else None', "cut"),
    "no limit": (ACCURACIES, "if limit is not None:", "if False:"),
    "tested on the limit": (ACCURACIES, "limit)], test) for", "limit)], test[:limit]) for"),
    "all texts in Chapter 4": (TEXTS, "task.labels[split], limit)", "task.labels[split], 10**9)"),
    "stop words count": (BASELINES, 'stop_words="english", ', ""),
    "a score of another example": (ACCURACIES, ".mean(0)[np.argsort(tested)]", ".mean(0)"),
    "groups of other texts": (TEXTS, '["groups"])[inputs]', '["groups"])[inputs * 0]'),
    "TF-IDF of the tasks": (
        EMBEDDINGS,
        'text_sets.texts("train", profile), ',
        'text_sets.texts(sets["tasks"], profile), ',
    ),
    "fp32 for the base and for students": (
        EMBEDDINGS,
        "precision=models.precision(profile)",
        'precision="fp32"',
    ),
    "fp32 in training": (TRAINING, "precision=models.precision(profile)", 'precision="fp32"'),
    "PV of validation documents": (
        CONTEXTUAL,
        "corpus(profile).train[",
        "corpus(profile).validation[",
    ),
    "PV of all documents": (CONTEXTUAL, "[: section.documents]", ""),
    "PV as wide as printed": (CONTEXTUAL, "width=profile.width", "width=1.0"),
    "PV's seed": (CONTEXTUAL, '(exclude={"documents"})', '(exclude={"documents"}) | {"seed": 0}'),
    "PV's epochs": (
        CONTEXTUAL,
        '(exclude={"documents"})',
        '(exclude={"documents"}) | {"epochs": 10}',
    ),
    "PV's defaults": (CONTEXTUAL, "train(texts, **", "train(texts) or dict(**"),
    "one set for all": (
        CONTEXTUAL,
        "(text_sets.texts, name, longest)",
        '(text_sets.texts, "tasks", longest)',
    ),
    "trained again for more documents": (
        CONTEXTUAL,
        "min(profile.corpus.train_documents, EMBEDDED)",
        "0",
    ),
    "a checkpoint of each training": (
        TRAINING,
        "settings.documents > short * settings.accumulation",
        "True",
    ),
    "no checkpoint of plain CCA": (
        TRAINING,
        "settings.documents > short * settings.accumulation",
        "updates > 4",
    ),
    "no checkpoint for who waits": (TRAINING, "on_update is not None or ", ""),
    "trained again though there is a checkpoint": (TRAINING, "checkpoint.exists() or ", ""),
    "controls watched on their way": (EMBEDDINGS, "1 if split is None else ", ""),
    "compound swapped": (CONTEXTUAL, 'in label.split("+")]', 'in label.split("+")[::-1]]'),
    "SBERT not checked": (STRUCTURAL, '"sha256": section.sha256', '"sha256": None'),
    "SBERT of any revision": (STRUCTURAL, '"revision": section.revision', '"revision": "main"'),
    "SBERT's tokens": (STRUCTURAL, "max_tokens=section.max_tokens", "max_tokens=64"),
    "SBERT's batches": (STRUCTURAL, "profile.structural_teacher.batch_size", "32"),
    "no lengths": (STRUCTURAL, '"lengths": lengths', '"lengths": 0 * lengths + 5'),
    "no dropout": (
        STUDENT,
        'include={"dropout", "attention_dropout"}',
        'include={"attention_dropout"}',
    ),
    "window": (STUDENT, "**settings, **dropout", '**(settings | {"window": 64}), **dropout'),
    "all layers": (STUDENT, "**settings, **dropout", '**(settings | {"layers": None}), **dropout'),
    "Longformer of any revision": (
        STUDENT,
        "model), revision=section.revision",
        "model), revision=None",
    ),
    "[CLS] is the mean": (STUDENT, "ClsStudent(base_student(profile))", "base_student(profile)"),
    "all documents": (TEXTS, "[: profile.training.documents]", ""),
    "validation is train": (TEXTS, "Texts(whole.validation)", "Texts(whole.train)"),
    "groups of another text": (TEXTS, "named.get(text, ", "named.get((text[0], 0), "),
    "examples in the order of folds": (
        ACCURACIES,
        "tested = np.sort(np.concatenate",
        "tested = (np.concatenate",
    ),
    "chance of all labels": (
        ACCURACIES,
        "np.bincount(labels[tested]).max()",
        "np.bincount(labels).max()",
    ),
    "whole documents for halves": (KEYS, '"halves": "halves"}', '"halves": "validation"}'),
    "cut texts in fp32": (
        EMBEDDINGS,
        "student.encode(cut, precision=models.precision(profile))",
        "student.encode(cut)",
    ),
    "lengths of no document": (
        TRAINING,
        'structural["lengths"], **options',
        'structural["lengths"] * 0, **options',
    ),
    "another batch is watched": (
        TRAINING,
        '{"batch_size": profile.training.batch_size',
        '{"batch_size": 6',
    ),
    "watched in fp32": (
        TRAINING,
        '"precision": models.precision(profile)}',
        '"precision": "fp32"}',
    ),
    "recorded heads again": (ACCURACIES, " if not store().has(recipes[pair])]", "]"),
    "halves in turns": (TEXTS, "for first, _ in halves]", "for _, first in halves]"),
    "cut texts lose their end": (
        EMBEDDINGS,
        '*ids["tasks"][row][: limit - 1], ',
        '*ids["tasks"][row][:limit], ',
    ),
    "cut texts are whole": (EMBEDDINGS, 'arrays["tasks"] = arrays["cut"]', "pass"),
    "one seed for Paragraph Vectors": (EMBEDDINGS, "profile.reseeded(seed)", "profile"),
    "all tasks' texts": (TEXTS, '[: of_tasks["validation"] if name == "tasks" else None]', ""),
    "token rows shifted": (TEXTS, "np.cumsum(lengths)", "np.cumsum(lengths) + 1"),
    "top ignored": (RUNS, "rankings[source], top)", "rankings[source], None)"),
    "rows of other texts": (RUNS, '["tasks"][candidates]', '["tasks"][: len(candidates)]'),
    "rows of no test": (RUNS, 'profile, "test")["tasks"]', 'profile, "validation")["tasks"]'),
    "seeds by model ignored": (RUNS, "own.get(variant.identity, profile.seeds)", "profile.seeds"),
    "one gamma for all": (VARIANTS, 'float(values["gamma"])', "1.0"),
    "one distance for all": (VARIANTS, 'STRUCTURAL_LOSSES[values["distance"]]', '"mse"'),
}


def all_keys():
    """Of each model: the key of its embeddings, and of its accuracy on a task."""
    variants = {name: parse(label) for name, label in MODELS.items()}
    return {
        name: (
            keys.embeddings(variant, 0, PROFILE),
            keys.record(variant, 0, "IMDB", PROFILE, "validation", None),
        )
        for name, variant in variants.items()
    }


@pytest.fixture
def edited(monkeypatch):
    """A function that edits a module's source as the keys read it; edits leave imports as they are."""
    real = source_keys.source

    def edit(module, change):
        monkeypatch.setattr(
            source_keys, "source", lambda name: change(real(name)) if name == module else real(name)
        )
        source_key.cache_clear()

    monkeypatch.setattr(
        sources, "fingerprint", lambda profile, datasets: sorted(datasets)
    )  # no data is read
    source_key.cache_clear()
    yield edit
    monkeypatch.undo()
    source_key.cache_clear()


def failed_test(module, source):
    """The first test of test_glue.py that fails when a module of lib is `source`."""
    broken = types.ModuleType(module)
    exec(compile(source, f"<edited {module}>", "exec"), vars(broken))
    package, name = module.rsplit(".", 1)
    real = importlib.import_module(module)
    parent = importlib.import_module(package)
    spec = importlib.util.spec_from_file_location(
        "glue_checks", Path(__file__).with_name("test_glue.py")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module, broken)  # where functions import it
        patch.setattr(parent, name, broken)
        checks = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(checks)
        for importer in [each for place, each in sys.modules.items() if place.startswith("lib.")]:
            if vars(importer).get(name) is real:
                patch.setattr(importer, name, broken)
        for name, check in vars(checks).items():
            if name.startswith("test_"):
                try:
                    check()
                except (
                    AssertionError,
                    KeyError,
                ):  # a KeyError: a loss that the variant does not list
                    return name
    return None


def test_every_module_of_the_glue_is_broken():
    modules = {
        f"lib.experiments.{path.stem}"
        for path in (source_keys.ROOT / "lib/experiments").glob("*.py")
    }
    assert modules - {"lib.experiments.keys", "lib.experiments.__init__"} <= {
        module for module, *_ in EDITS.values()
    }


@pytest.mark.parametrize("module", MADE_AGAIN)
def test_without_an_edit_nothing_fails(module):
    assert failed_test(module, source_keys.source(module)) is None


@pytest.mark.parametrize("module", MADE_AGAIN)
def test_an_edit_is_noticed_by_keys(edited, module):
    old, new = next(
        (old, new) for edited_module, old, new in EDITS.values() if edited_module == module
    )
    before = all_keys()
    edited(module, lambda text: text.replace(old, new))
    after = all_keys()
    assert {model for model in MODELS if before[model][0] != after[model][0]} == MADE_AGAIN[module]
    judged = set(MODELS) if module == ACCURACIES else MADE_AGAIN[module]
    assert {model for model in MODELS if before[model][1] != after[model][1]} == judged


@pytest.mark.parametrize("name", KEPT)
def test_an_edit_makes_only_what_runs_it_again(edited, name):
    module, old, new, made_again = KEPT[name]
    assert old in source_keys.source(module), f"{old!r} is not in {module}; update the edit"
    before = all_keys()
    edited(module, lambda text: text.replace(old, new))
    after = all_keys()
    assert {model for model in MODELS if before[model] != after[model]} == made_again


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_noticed_by_tests(name):
    module, old, new = EDITS[name]
    source = source_keys.source(module)
    assert old in source, f"{old!r} is not in {module}; update the edit"
    assert failed_test(module, source.replace(old, new)), f"no test of the glue notices: {name}"
