"""What a product is called depends on all that can change it, and on nothing else."""

import grimp
import pytest

from lib import store
from lib.distillation import variants

GRAPH = grimp.build_graph("lib", exclude_type_checking_imports=True)
# What the modules of a kind import, but cannot change its numbers.
HARMLESS = {
    "config": "values of a profile are inputs",
    "data": "texts, examples and folds are inputs, by their content",
    "experiments.models": "passes texts to `encode`; device and processes are inputs",
    "jobs": "runs functions",
    "messages": "tells errors in one line",
    "store": "keeps arrays as they are",
    "student": "hands names on",
    "losses": "hands names on; the losses themselves are listed",
    "distillation.variants": "its results, losses and arguments of a variant, are inputs",
    "evaluation": "hands names on",
    "teachers": "hands names on",
}
LABELS = (
    *("SBERT", "SBERT, mean of chunks", "Longformer", "TF-IDF", "LSA", "chunks + LSA", "DM;100d"),
    *("MSE", "cosine", "contrastive", "max-margin;MSE;γ=1.0", "cosine;[CLS]"),
    *("max-margin;MSE;γ=1.0;negatives=4", "MSE;chunks"),
    *("cosine;100d;S:768x100;C:-;384;λ=0.6", "cosine;100d;S:768x100;C:-;mse"),
    *("only-contextual;100d;S:768x100;C:-;cca", "cosine;LSA;S:768x100;C:1024x100"),
)


def list_products(bench):
    """Every product behind the models and records of some labels, by what people call it."""
    products = {}

    def add(product):
        products[f"{product.kind} {product.label}"] = product
        for value in product.inputs.values():
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, store.Product):
                    add(each)

    for label in LABELS:
        add(bench.model(label).product)
        add(bench._name_record((variants.parse(label), 0), "IMDB", "examples"))
    return products


@pytest.fixture(scope="module")
def products(filled_store):
    """Those of `list_products`, and a student of the second paper."""
    from lib.config import profiles
    from lib.experiments.bench import Bench
    from lib.news.chapter import News

    bench = Bench(profiles.load("smoke"), store.Store(filled_store, reading=True))
    news = News(bench)
    added = {"news": news.model("bag;cosine").product}
    return list_products(bench) | added


def test_every_module_that_computes_a_kind_is_in_its_list(products):
    """Or in the list of those that cannot change a number, with the reason."""
    listed: dict[str, set[str]] = {}
    for product in products.values():
        listed.setdefault(product.kind, set()).update(product.modules)
    listed["vectors"] |= listed["student"]  # a student's vectors have the student as input
    listed["base"] |= listed["student"]  # which is in one file with what trains students
    forgotten = {
        (kind, name)
        for kind, modules in listed.items()
        for name in reach(modules) - modules
        if name.partition(".")[0] not in modules
    }
    for product in products.values():  # each has its own losses
        more = reach({m for m in product.modules if m.startswith("losses.")}) - {*product.modules}
        forgotten |= {(product.label, name) for name in more}
    assert not forgotten


def reach(modules):
    """Modules with all that they import, directly or not, except harmless ones."""
    waiting, reached = [*modules], set(modules)
    while waiting:
        imported = GRAPH.find_modules_directly_imported_by(f"lib.{waiting.pop()}")
        for name in {each.removeprefix("lib.") for each in imported} - reached - HARMLESS.keys():
            if name.partition(".")[0] not in ("config", "data"):
                reached.add(name)
                waiting.append(name)
    return reached


def test_models_and_seeds_share_no_name_but_the_seven_that_are_not_trained(make_bench):
    bench = make_bench().with_readout("none")
    pairs = [(variants.parse(each), n) for each in (*LABELS, "LSA;cut") for n in (0, 1)]
    names = {bench._name_record(pair, "IMDB", "examples").name for pair in pairs}
    assert len(names) == len(pairs) - 7


def rename(bench, before):
    """The products that are called otherwise than before."""
    return {name for name, each in list_products(bench).items() if each.name != before[name]}


STUDENTS = {label for label in LABELS if variants.parse(label).kind == "student"}
CONTEXTUAL = {label for label in STUDENTS if variants.parse(label).contextual}


@pytest.mark.parametrize(
    ("module", "students"),
    [
        ("losses.mse", {n for n in STUDENTS if n.startswith(("MSE", "max-margin")) or "mse" in n}),
        ("losses.cosine", {n for n in STUDENTS if n.startswith("cosine")} | {"contrastive"}),
        ("losses.cca", {n for n in CONTEXTUAL if not n.endswith("mse")}),
        ("distillation.projection", STUDENTS),
        ("teachers.words", STUDENTS),
        ("distillation.training", STUDENTS),
        ("student.attention", STUDENTS),
        ("evaluation.readouts", set()),
        ("evaluation.ranking", set()),
        ("news.training", set()),
        ("ledger.claims", set()),
    ],
)
def test_an_edited_module_renames_exactly_what_it_computes(
    make_bench, products, edit_source, module, students
):
    bench = make_bench()
    before = {name: each.name for name, each in list_products(bench).items()}
    edit_source(module)
    renamed = rename(make_bench(), before)
    trained = {n.removeprefix("student ") for n in renamed if n.startswith("student ")}
    assert trained == {f"{variants.parse(label).identity}, seed 0" for label in students}
    if module == "evaluation.readouts":
        assert {name.partition(" ")[0] for name in renamed} == {"record"}
    elif not students:
        assert renamed == set()


@pytest.mark.parametrize(
    ("setting", "value", "renamed"),
    [
        ("training.warmup_share", 0.5, {"student", "vectors", "record"}),
        ("training.checkpoint_every", 1, set()),
        ("heads.epochs", 3, {"record"}),
        ("contextual_teacher.epochs", 3, {"paragraph_vector", "student", "vectors", "record"}),
    ],
)
def test_a_setting_renames_exactly_what_it_decides(make_bench, setting, value, renamed):
    before = {name: each.name for name, each in list_products(make_bench()).items()}
    after = rename(make_bench(**{setting.replace(".", "__"): value}), before)
    assert {name.partition(" ")[0] for name in after} == renamed
    if setting == "training.warmup_share":
        told = {name for name in after if name.startswith(("vectors", "record"))}
        fixed = ("SBERT", "Longformer", "TF-IDF", "LSA", "DM;", "PV;")
        assert not [n for n in told if n.removeprefix("record IMDB: ").startswith(fixed)]
