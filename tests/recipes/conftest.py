"""mini's dataset folders, built once for all tests."""

import pytest

from lib.experiments.bench import Bench
from tests.data.conftest import apart  # noqa: F401


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    """A bench of mini, whose tasks and corpus are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THESIS_ARTIFACTS", str(tmp_path_factory.mktemp("mini")))
        bench = Bench.load("mini")
        assert bench.corpus and bench.tasks
    return bench
