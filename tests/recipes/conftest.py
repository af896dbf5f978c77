"""mini's dataset folders, built once for all tests."""

import json
from types import SimpleNamespace

import pytest

from lib import recipes
from lib.config import profiles
from lib.data import corpus, task_files
from lib.data.dataset_folder import Documents
from tests.data.conftest import artifacts, write  # noqa: F401


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    place = tmp_path_factory.mktemp("mini")
    profile = profiles.load("mini")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THESIS_ARTIFACTS", str(place))
        root = recipes.write_folders(profile.build, place)
        tasks = task_files.read_tasks([root], profile.tasks)
        documents = Documents(*(root / name for name in profile.corpus.names))
    selection = corpus.draw(profile.corpus, documents, task_files.held_out_contents(tasks), len)
    parts = (documents[selection[part]] for part in ("train", "validation"))
    drawn = corpus.Corpus(*parts, json.loads(str(selection["left_out"])))
    limit = profile.tasks.limit
    return SimpleNamespace(build=profile.build, limit=limit, corpus=drawn, tasks=tasks)
