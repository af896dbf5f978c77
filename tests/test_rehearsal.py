"""The dress rehearsal of `thesis`: its two commands, offline, on everything that it downloads in
the true formats.

A few dozen texts, and two models of the true kinds with two thin layers; the profile is cut by its
own settings alone. It takes some minutes: `tests/run.sh` begins with it and with the notebooks.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

from lib.config import manifest, paths, profiles
from lib.recipes import telegram
from tests import thesis_files

pytestmark = [pytest.mark.slow, pytest.mark.rehearsal]
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
final.accumulation=2
final.warmup_updates=1
final.rounds={{"1k": 20, "10k": 30, "all": null}}
news.documents=40
news.epochs=1
news.batch_size=16
news.triplets=40
news.max_tokens=32
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """What two downloads leave: a hub cache, and a folder of other files; with the news folder that
    08 reads."""
    place = tmp_path_factory.mktemp("rehearsal")
    profile = profiles.load("thesis")
    thesis_files.hub(place / "home" / "hub", profile)
    (place / "data").mkdir()
    for name, content in thesis_files.archives(profile).items():
        (place / "data" / name).write_bytes(content)
    telegram.write_dataset(
        *thesis_files.telegram_files(place / "contest"), place / "data" / "telegram"
    )
    return place


def run(place, *words: str) -> str:
    ours = {"HF_HOME": "home", "THESIS_DATA": "data", "THESIS_ARTIFACTS": "artifacts"}
    variables = {name: str(place / folder) for name, folder in ours.items()}
    variables |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(paths.ROOT)}
    command = [sys.executable, "-P", "-m", *words]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_both_commands_make_every_label_without_a_network(place):
    run(place, "lib.recipes", "thesis")
    # As on a GPU, a training has the machine to itself.
    told = run(
        place, "lib.runner.run_all", "thesis", "--jobs", "1", "--set", *CUT.split("\n")[1:-1]
    )
    assert "11 of 11 notebooks done" in told and "failed" not in told
    (executed,) = (place / "artifacts").glob("thesis-*/executed")
    figures = place / "artifacts" / "figures" / executed.parent.name
    promised = {name for entry in manifest.load().values() for name in entry.files}
    assert promised <= {path.name for path in figures.iterdir()}
    for path in executed.glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        kinds = {output["output_type"] for output in outputs}
        assert kinds and "error" not in kinds, path
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert largest < 3 * 2**20, "KiB of the largest process"
