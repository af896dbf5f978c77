"""Set-up that every test shares: no network, one thread, and shape annotations that are checked."""

import errno
import functools
import inspect
import os
import re
from pathlib import Path

from lib.config import environment

# Before anything imports NumPy, torch or transformers: they read these once. Set for subprocesses
# too.
environment.set_process_environment(offline=True)
os.environ["MPLBACKEND"] = "Agg"
os.environ["THESIS_JOBS"] = "1"  # pytest has processes enough; tests of workers ask for more

import jaxtyping  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from filelock import FileLock  # noqa: E402

torch.set_num_threads(1)  # results repeat bit for bit with one thread only

_jaxtyped = jaxtyping.jaxtyped
_SHAPE = re.compile(r"\b(Float|Int|Integer|Bool|Num|Shaped)\d*\[")


def _own_errors_first(*, typechecker):
    """jaxtyping's decorator, changed in two ways.

    A wrong argument goes to the function before it is reported: `mse(x, wider_x)` has to raise the
    library's own
    ValueError with both shapes, which users see, and not the type checker's error, which only tests
    ever see. If the
    function *accepts* what its annotation forbids, one of the two is wrong and the type checker's
    error stands.

    Functions without array annotations are left alone. What they are called with is not a matter of
    shapes.
    """

    def decorate(target):
        if not inspect.isfunction(target) or not any(
            map(_SHAPE.search, map(str, target.__annotations__.values()))
        ):
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


# The import hook puts `@jaxtyping.jaxtyped(typechecker=...)` on every function of lib imported from
# here on, and
# looks that name up when it does. Outside the tests nothing is checked and nothing is slower.
jaxtyping.jaxtyped = _own_errors_first
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


@pytest.fixture(scope="session", autouse=True)
def dataset_folders_are_built_once(shared):
    """Writing the folders of mini takes seconds: once for all tests, whatever their artifact
    root."""
    from lib import recipes
    from lib.data import sources

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "find_built", lambda build, _: recipes.write_folders(build, shared))
        yield


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
def verdicts_take_fewer_draws():
    """A p that repeats to the third digit is for tables that are kept."""
    from lib.statistics import verdicts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "DRAWS", 4000)
        yield


@pytest.fixture(scope="session", autouse=True)
def disks_are_not_waited_for():
    """Both wait for what other processes write; no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sync", lambda: None)
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def figures_are_left_to_notebooks():
    """No test draws into the checkout's `figures`: the notebook run beside it would find its
    figures changed, and make
    them again. A profile with a changed setting draws under the artifact root."""
    from lib.config import paths

    figures, replace = paths.ROOT / "figures", os.replace

    def checked(source, target, **folders):
        if figures in Path(os.path.abspath(target)).parents:
            raise OSError(
                errno.EPERM, "a test draws into the checkout; load a profile with a changed setting"
            )
        replace(source, target, **folders)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", checked)
        yield


@pytest.fixture(scope="session")
def with_examples():
    """A function that gives records the scores of ten test examples each, whose mean is the
    record's value.

    What an example adds is the same for every model, so differences of models are as sure as their
    seeds make them. Records are by the readout "thesis" if they say nothing else.
    """
    spread = np.tile([0.05, -0.05], 5)
    groups = np.array([f"article {number}" for number in range(10)])

    def add(records, *, chance=0.0, metric="accuracy"):
        examples = {
            "scores": [value + spread for value in records["value"]],
            "groups": [groups] * len(records),
        }
        known = {"metric": metric, "readout": "thesis"}
        known = {name: records.get(name, value) for name, value in known.items()}
        return records.assign(**examples, chance=chance, **known)

    return add


def pytest_collection_modifyitems(items):
    """What takes longest begins first, so that no process waits for another at the end: all
    notebooks and the rehearsal above all. Tests marked `gpu` are skipped, and said to be, where
    there is none."""
    items.sort(
        key=lambda item: (
            item.path.name not in ("test_smoke.py", "test_rehearsal.py"),
            not any(map(item.get_closest_marker, ("smoke", "slow"))),
        )
    )
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no GPU here"))
