"""All notebooks, at the smallest scale, through the runner: what they leave behind is what
counts.

They run in this process: kernels take five minutes more. Those start in `test_jupyterlab` for 00,
in `test_rehearsal` for 01, 02 and 08, and in `test_redrawn` for `published`.
"""

import json
import os
import re

import pandas as pd
import pytest

from lib.config import manifest, paths, profiles
from tests.run_notebooks import read_outputs, run_here, small_encoder

pytestmark = pytest.mark.smoke
ENTRIES = manifest.load()


@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    """Those of a run of `smoke`, without workers, whose start takes as long as what they do."""
    folder = tmp_path_factory.mktemp("smoke")
    overrides = small_encoder(folder / "encoder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THESIS_ARTIFACTS", str(folder))
        run_here("smoke", *overrides, "--force", "--jobs", "1")
        yield overrides


@pytest.fixture(scope="module")
def profile(overrides):
    return profiles.load("smoke", overrides=overrides)


@pytest.fixture(scope="module")
def outputs(profile):
    return read_outputs(paths.run_folder(profile) / "executed")


def test_every_label_is_made_with_its_provenance_and_nothing_else(profile):
    figures = paths.figures(profile)
    promised = {path.name for entry in ENTRIES.values() for path in entry.paths(profile)}
    assert {path.name for path in figures.iterdir() if path.stat().st_size > 50} == promised
    for label in ENTRIES:
        note = json.loads((paths.run_folder(profile) / f"provenance/{label}.json").read_text())
        assert (note["profile"], note["label"]) == ("smoke", label)
    frame = pd.read_csv(figures / "fig4_3.csv")  # a boxplot's tells everything alone
    assert {"model", "task", "value", "published", "seeds", "noise"} <= {*frame}
    assert frame["value"].between(0, 1).all() and frame["task"].nunique() == 6
    assert frame["value"].nunique() > 5, "real scores, not a constant"
    seeds = frame.loc[frame["model"] == "cosine", "seeds"]
    assert {*seeds} == {len(profile.reference_seeds)}


def test_executed_notebooks_show_every_figure(outputs):
    """A notebook may draw more than it saves, but not less."""
    assert {*outputs} == {entry.notebook for entry in ENTRIES.values()}
    for name, shown in outputs.items():
        drawn = sum("image/png" in part.get("data", {}) for part in shown)
        kinds = [entry.kind for entry in ENTRIES.values() if entry.notebook == name]
        assert drawn >= kinds.count("figure") + kinds.count("drawing"), name
    printed = "".join("".join(part.get("text", "")) for part in outputs["00_start_here"])
    assert "the same embeddings: True" in printed
    (folder,) = re.findall(r'SentenceTransformer\("(.+?)"\)\.encode', printed)
    assert os.path.isabs(folder) and os.path.isfile(os.path.join(folder, "modules.json"))


def test_a_second_run_runs_no_notebook(overrides, outputs):
    second = run_here("smoke", *overrides)
    assert second.count("up to date") == len(outputs)
