"""Can the glue go wrong unnoticed? It is broken on purpose, and both a key and a test of `test_glue` have to notice.

An edit replaces one piece of a module's source, in memory. The broken module is put in the place of the real one inside
a fresh copy of test_glue.py, whose tests run: at least one must fail. Before, keys are computed from the broken source:
those of what the edit makes wrong must change, and no other.
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

TRAINING, ACCURACIES, TASKS, EMBEDDINGS = (
    f"lib.experiments.{name}" for name in ("student_training", "accuracies", "task_texts", "embeddings")
)
OBJECTIVE, FOLDS, BASELINES = "lib.distillation.objective", "lib.tasks.cross_validation", "lib.evaluation.baselines"
PROFILE = profiles.load("smoke")
MODELS = {"cosine": "cosine", "masked": f"{NO_WEIGHTING['cosine']};384;λ=0.5", "SBERT": "SBERT", "TF-IDF": "TF-IDF"}
MODELS |= {"contextual": "only-contextual;100d;S:768;C:768", "PV": "DM;100d"}
STUDENTS = {"cosine", "masked", "contextual"}

# What is broken: (module, its text, the replacement, the models that have to be made again).
EDITS = {
    "masking off": (
        TRAINING,
        '"max_structural_len": settings.max_structural_len',
        '"max_structural_len": None',
        STUDENTS,
    ),
    "masking off in the objective": (OBJECTIVE, "max_structural_len if variant.masked else None", "None", STUDENTS),
    "masking for all": (OBJECTIVE, "max_structural_len if variant.masked else None", "max_structural_len", STUDENTS),
    "one seed for all": (TRAINING, "seed=seed", "seed=0", STUDENTS),
    "one seed for projections": (TRAINING, "torch.manual_seed(seed)", "torch.manual_seed(0)", STUDENTS),
    "no warm-up": (TRAINING, "round(settings.warmup_share * updates)", "0", STUDENTS),
    "weight decay": (TRAINING, "weight_decay=settings.weight_decay", "weight_decay=9.0", STUDENTS),
    "no clipping": (TRAINING, "clip=settings.clip", "clip=1e9", STUDENTS),
    "no accumulation": (TRAINING, "accumulation=settings.accumulation", "accumulation=1", STUDENTS),
    "learning rate": (TRAINING, "learning_rate=settings.learning_rate", "learning_rate=1e-3", STUDENTS),
    "length buckets": (TRAINING, "length_bucket=settings.length_bucket", "length_bucket=512", STUDENTS),
    "no gradient checkpointing": (TRAINING, "= settings.gradient_checkpointing", "= False", STUDENTS),
    "trained embeddings": (TRAINING, "if settings.freeze_token_embeddings:", "if False:", STUDENTS),
    "CCA's batch": (TRAINING, 'variant.contextual_loss == "cca"', "False", STUDENTS),
    "no [CLS]": (TRAINING, 'variant.pooling == "cls"', "False", STUDENTS),
    "SoftCCA's defaults": (TRAINING, "**profile.soft_cca.model_dump()", "beta=0.1", STUDENTS),
    "seeds of heads": (ACCURACIES, "HEAD_SEEDS = 1000", "HEAD_SEEDS = 100", set()),
    "one head's seed for all": (ACCURACIES, "HEAD_SEEDS * seed + head", "HEAD_SEEDS * seed", set()),
    "shuffled folds": (FOLDS, "shuffle=False", "shuffle=True, random_state=0", set()),
    "best head for mean": (ACCURACIES, "float(np.mean(heads))", "float(np.max(heads))", set()),
    "validation not cut": (ACCURACIES, 'cut if split == "validation" else None', "None", set()),
    "test cut": (ACCURACIES, 'cut if split == "validation" else None', "cut", set()),
    "no limit": (ACCURACIES, "if limit is not None:", "if False:", set()),
    "tested on the limit": (ACCURACIES, "limit)], test) for", "limit)], test[:limit]) for", set()),
    "all texts in Chapter 4": (TASKS, "task.labels[split], limit)", "task.labels[split], 10**9)", set(MODELS)),
    "words of TF-IDF": (BASELINES, "features: int = 1024", "features: int = 2", {"TF-IDF"}),
    "TF-IDF of the tasks": (
        EMBEDDINGS,
        'text_sets.texts("train", profile), ',
        "text_sets.texts(texts, profile), ",
        set(MODELS),
    ),
}


def all_keys():
    """Of each model: the key of its embeddings, and of its accuracy on a task."""
    variants = {name: parse(label) for name, label in MODELS.items()}
    return {
        name: (keys.embeddings(variant, 0, PROFILE), keys.record(variant, 0, "IMDB", PROFILE, "validation", None))
        for name, variant in variants.items()
    }


@pytest.fixture
def edited(monkeypatch):
    """A function that edits a module's source as the keys read it; edits leave imports as they are."""
    real = source_keys.source

    def edit(module, change):
        monkeypatch.setattr(source_keys, "source", lambda name: change(real(name)) if name == module else real(name))
        source_key.cache_clear()

    monkeypatch.setattr(sources, "fingerprint", lambda profile, datasets: sorted(datasets))  # no data is read
    source_key.cache_clear()
    yield edit
    monkeypatch.undo()
    source_key.cache_clear()


def failed_test(module, source):
    """The first test of test_glue.py that fails, by an assertion, when a module of lib is `source`."""
    broken = types.ModuleType(module)
    exec(compile(source, f"<edited {module}>", "exec"), vars(broken))
    package, name = module.rsplit(".", 1)
    importlib.import_module(module)
    parent = importlib.import_module(package)
    spec = importlib.util.spec_from_file_location("glue_checks", Path(__file__).with_name("test_glue.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module, broken)  # where functions import it
        patch.setattr(parent, name, broken)
        checks = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(checks)
        for importer in (checks.embeddings, checks.accuracies):
            if hasattr(importer, name):
                patch.setattr(importer, name, broken)
        if name == "cross_validation":
            patch.setattr(checks.accuracies, "folds", broken.folds)
        for name, check in vars(checks).items():
            if name.startswith("test_"):
                try:
                    check()
                except AssertionError:
                    return name
    return None


@pytest.mark.parametrize("module", sorted({module for module, *_ in EDITS.values()}))
def test_without_an_edit_nothing_fails(module):
    assert failed_test(module, source_keys.source(module)) is None


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_noticed_by_keys_and_by_tests(edited, name):
    module, old, new, made_again = EDITS[name]
    source = source_keys.source(module)
    assert old in source, f"{old!r} is not in {module}; update the edit"
    before = all_keys()
    edited(module, lambda text: text.replace(old, new))
    after = all_keys()
    assert {model for model in MODELS if before[model][0] != after[model][0]} == made_again
    judged = set(MODELS) if module in (ACCURACIES, FOLDS) else made_again
    assert {model for model in MODELS if before[model][1] != after[model][1]} == judged
    assert failed_test(module, source.replace(old, new)), f"no test of the glue notices: {name}"
