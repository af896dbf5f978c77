"""What `./run_all.sh thesis --dry-run` says of disk, downloads, hours and memory, and where its numbers come from."""

import re

import pandas as pd

from lib.config import paths, profiles
from lib.published import figure_models
from lib.runner import run_all

COSTS = (paths.PARAMS / "thesis_costs.md").read_text(encoding="utf-8")


def test_the_dry_run_tells_what_thesis_costs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "not" / "there"))
    assert run_all.main(["thesis", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "02_structural_loss" in printed and COSTS in printed and re.search(r"free now: \d+ GB\n", printed)
    assert not (tmp_path / "not").exists(), "a dry run writes nothing"
    assert run_all.main(["smoke", "--dry-run"]) == 0
    assert "free now" not in capsys.readouterr().out


def test_the_operations_follow_from_the_published_lengths():
    lengths = pd.read_csv(paths.PARAMS / "published" / "length_histograms.csv")
    lengths = lengths[(lengths["label"] == "fig4_1") & (lengths["split"] == "train")]
    middle = ((lengths["bin_lo"] + lengths["bin_hi"]) / 2).clip(upper=4096)
    tokens = (middle * lengths["percent"]).sum() / lengths["percent"].sum()
    assert f"15,000 x {tokens:,.0f} tokens" in COSTS
    names = figure_models.names(figure_models.CHAPTER_4)
    students = {name for name in names if not name.startswith(("DM", "DBOW", "PV"))} - {"Longformer", "SBERT"}
    profile = profiles.load("thesis")
    extra = 4 * (len(profile.reference_seeds) - 1)
    assert f"{len(students) + extra} students ({len(students)} and {extra} of reference seeds)" in COSTS
    forward = 189e6
    training = profile.training.documents * tokens * 4 * forward  # three times backwards, one of them computed again
    operations = training + 103e6 * forward
    assert f"{operations:.1e}".replace("e+", "e") == "3.3e16"
    hours = (len(students) + extra) * operations / 50e12 / 3600
    assert f"| GPU, Chapter 4 | {hours:.0f} hours |" in COSTS
