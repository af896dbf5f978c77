"""The dress rehearsal of `thesis`: its two commands, offline, on all that it downloads.

A few dozen texts in the true formats, and two models of the true kinds with two thin layers. Of the
notebooks those run that read what no other profile reads.
"""

import subprocess
import sys

import pytest

from docs import telegram
from lib.config import manifest, paths, profiles
from tests import thesis_files
from tests.run_notebooks import run

pytestmark = [pytest.mark.slow, pytest.mark.rehearsal]
LABELS = ("tab4_1", "fig4_2", "news_tab1")  # of notebooks 01, 02 and 08
FOLDERS = "[{folder: wikipedia, share: 0.5}, {folder: news, share: 0.5, min_tokens: 60}]"
CUT = f"""
corpus.folders={FOLDERS}
corpus.train_documents=40
corpus.validation_documents=8
tasks.limit=40
reference_seeds=[0, 1]
repeated=references
width=0.05
max_variants=1
contextual_teacher.epochs=1
contextual_teacher.min_count_share=0.03
training.documents=12
training.cca_batch_size=12
training.checkpoint_every=1
heads.epochs=1
final.documents=12
final.rounds={{"1k": 20, "10k": 30, "all": null}}
news.documents=40
news.epochs=1
news.batch_size=16
news.triplets=40
news.max_tokens=32
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """What downloads leave: a hub cache, a folder of other files, and the news folder of 08."""
    place = tmp_path_factory.mktemp("rehearsal")
    profile = profiles.load("thesis")
    thesis_files.hub(place / "home" / "hub", profile)
    (place / "data").mkdir()
    for name, content in thesis_files.archives(profile).items():
        (place / "data" / name).write_bytes(content)
    contest = thesis_files.telegram_files(place / "contest")
    telegram.write_dataset(*contest, place / "data" / "telegram")
    return place


def test_both_commands_make_their_labels_without_a_network(place, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(place / "home"))
    monkeypatch.setenv("THESIS_DATA", str(place / "data"))
    monkeypatch.setenv("THESIS_ARTIFACTS", str(place / "artifacts"))
    subprocess.run([sys.executable, "-m", "lib.recipes", "thesis"], cwd=paths.ROOT, check=True)
    # As on a GPU, a training has the machine to itself.
    run(place / "artifacts", "thesis", *LABELS, "--jobs", "1", "--set", *CUT.strip().splitlines())
    (executed,) = (place / "artifacts").glob("thesis-*/executed")
    made = {path.stem for path in executed.glob("*.ipynb")}
    entries = [each for each in manifest.load().values() if each.notebook in made]
    figures = place / "artifacts" / "figures" / executed.parent.name
    promised = {path.name for entry in entries for path in entry.paths(profiles.load("thesis"))}
    assert len(made) == len(LABELS) and promised <= {path.name for path in figures.iterdir()}
