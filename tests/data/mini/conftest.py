"""mini's dataset folders, built once for all tests."""

from types import SimpleNamespace

import pytest

from lib import tasks
from lib.config import profiles
from lib.data import corpus, sources


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        artifacts = tmp_path_factory.mktemp("mini")
        patch.setenv("THESIS_ARTIFACTS", str(artifacts))
        profile = profiles.load("mini")
        return SimpleNamespace(
            artifacts=artifacts,
            profile=profile,
            root=sources.root(profile),
            corpus=corpus.read(profile),
            tasks=tasks.read(profile),
        )
