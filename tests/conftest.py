"""Set-up that every test shares: no network, one thread, and shape annotations that are checked."""

import functools
import gc
import inspect
import os
import re
from importlib.machinery import SourceFileLoader

from lib import runner  # noqa: F401  # before anything reads notebooks
from lib.config import environment

# Before anything imports NumPy, torch or transformers, which read these once; for children too.
environment.set_process_environment(offline=True)
gc.disable()  # until all is imported: that would take a tenth longer
os.environ["MPLBACKEND"] = "Agg"
os.environ["THESIS_JOBS"] = "1"  # pytest has processes enough; tests of workers ask for more

import jaxtyping  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from filelock import FileLock  # noqa: E402
from jaxtyping._import_hook import _JaxtypingLoader  # noqa: E402

torch.set_num_threads(1)  # results repeat bit for bit with one thread only

_jaxtyped = jaxtyping.jaxtyped
_SHAPE = re.compile(r"\b(Float|Int|Integer|Bool|Num|Shaped)\d*\[")


def _own_errors_first(*, typechecker):
    """jaxtyping's decorator for functions with array annotations. A wrong argument goes to the
    function first, whose own ValueError is what users see.
    """

    def decorate(target):
        notes = map(str, getattr(target, "__annotations__", {}).values())
        if not inspect.isfunction(target) or not any(map(_SHAPE.search, notes)):
            return target
        checked = _jaxtyped(target, typechecker=typechecker)

        @functools.wraps(target)
        def call(*args, **kwargs):
            try:
                return checked(*args, **kwargs)
            except jaxtyping.TypeCheckError as violation:
                if "checking the parameters" in str(violation):
                    target(*args, **kwargs)
                raise

        return call

    return decorate


# The hook puts `@jaxtyping.jaxtyped(typechecker=...)` on each function of lib imported below,
# and looks that name up when it does. Outside the tests nothing is checked and nothing is slower.
jaxtyping.jaxtyped = _own_errors_first
# jaxtyping keeps the byte code of its modules under a name of its own, and meanwhile that of all
# they import: torch and the others were compiled anew. Here lib is compiled, and nothing else.
_JaxtypingLoader.exec_module = SourceFileLoader.exec_module
_JaxtypingLoader.get_code = lambda self, name: self.source_to_code(
    self.get_data(self.path), self.path
)
jaxtyping.install_import_hook(
    "lib", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder that all processes of pytest share."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    (folder / "shared").mkdir(exist_ok=True)
    return folder / "shared"


@pytest.fixture(scope="session")
def filled_store(shared):
    """A store in which three models of smoke were trained and judged; to be copied, or read."""
    from lib.config import profiles
    from lib.experiments.bench import Bench
    from lib.store import Store

    store = shared / "store"
    with FileLock(shared / "store.lock"):
        bench = Bench(profiles.load("smoke", overrides={"tasks.limit": 60}), Store(store))
        bench.run(("Longformer", "cosine", "MSE"), seeds=[0])
    return store


@pytest.fixture(scope="session", autouse=True)
def tests_are_quick(shared):
    """Folders of mini are written once, intervals take few draws, and nothing waits for a disk."""
    from lib import recipes
    from lib.statistics import verdicts

    with pytest.MonkeyPatch.context() as patch:
        write = functools.partial(recipes.write_folders, home=shared)
        patch.setattr(recipes, "write_folders", lambda build, home: write(build))
        patch.setattr(verdicts, "DRAWS", 4000)
        patch.setattr(os, "sync", lambda: None)
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def artifacts(tmp_path, monkeypatch):
    """An artifact root that is neither the checkout's nor a person's, and no folders of theirs."""
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.delenv("THESIS_DATA", raising=False)
    return tmp_path / "artifacts"


@pytest.fixture
def edit_source(monkeypatch):
    """A function that names products as if the source of a module had one line more."""
    from lib import store

    def edit(module):
        path, real = f"{module.replace('.', '/')}.py", store.read_sources()
        monkeypatch.setattr(store, "read_sources", lambda: real | {path: f"{real[path]}\nX = 1\n"})
        store.hash_code.cache_clear()

    yield edit
    monkeypatch.undo()
    store.hash_code.cache_clear()


@pytest.fixture(scope="session")
def with_examples():
    """A function that gives records the scores of ten test examples each, whose mean is the
    record's value. Examples add the same to every model.
    """
    spread = np.tile([0.05, -0.05], 5)
    groups = np.array([f"article {number}" for number in range(10)])

    def add(records, *, chance=0.0, metric="accuracy"):
        scores = [value + spread for value in records["value"]]
        records = records.assign(scores=scores, groups=[groups] * len(records))
        records = records.assign(chance=chance, folds=1)
        for name, value in (("metric", metric), ("readout", "thesis")):
            records[name] = records.get(name, value)
        return records

    return add


def pytest_collection_modifyitems(items):
    """What takes longest begins first, so that no process waits for another at the end. Tests
    marked `gpu` are skipped where there is none.
    """
    gc.freeze()  # what was imported stays
    gc.enable()
    place = {"test_smoke.py": 0, "test_rehearsal.py": 1, "test_lab.py": 2}
    marked = {item for item in items if any(map(item.get_closest_marker, ("smoke", "slow")))}
    items.sort(key=lambda item: (place.get(item.path.name, len(place)), item not in marked))
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no GPU here"))
