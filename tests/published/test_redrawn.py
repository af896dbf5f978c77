"""`./run_all.sh published`: every published label within a minute, with the published numbers, and nothing else."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.config import manifest, paths, profiles
from lib.runner import notebook, schedule

ENTRIES = manifest.promised(manifest.load(), manifest.PUBLISHED)
OURS = manifest.load().keys() - ENTRIES.keys()
COMMITTED = paths.ROOT / "figures" / "published"
SECONDS = 60  # of a processor, so that other work on the machine does not count


def read(folder, label: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{label}.csv", keep_default_na=False, na_values=[""])


def test_it_makes_every_label_that_has_published_numbers_and_no_other():
    drawings = {label for label, entry in ENTRIES.items() if entry.kind == "drawing"}
    assert {*ENTRIES} - drawings == {*published.labels()} and drawings == {"fig3_1", "fig4_6"}
    own = {label for label in OURS if not label.startswith(("figA_", "figB_"))}
    assert own == {"tab_heads", "tab_checks", "tab_claims", "report"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A copy of the checkout without figures, and what the command printed and took in it."""
    root = tmp_path_factory.mktemp("published") / "checkout"
    for folder in ("lib", "params", "notebooks"):
        shutil.copytree(
            paths.ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(paths.ROOT / "requirements.lock", root)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", "published"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=root,
        env=kept | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return root, done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.smoke
def test_all_labels_are_made_within_a_minute(run):
    root, done, seconds = run
    assert done.returncode == 0, done.stdout + done.stderr
    assert seconds < SECONDS
    files = {name for entry in ENTRIES.values() for name in entry.files}
    assert {path.name for path in (root / "figures/published").iterdir()} == files
    (told,) = [
        line for line in done.stdout.splitlines() if line.startswith("nothing was published of ")
    ]
    assert set(told.split()[4:]) == OURS
    executed = json.loads(
        (root / "artifacts/published/executed/published.ipynb").read_text(encoding="utf-8")
    )
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", [])]
    shown = sum("image/png" in output.get("data", {}) for output in outputs)
    assert shown == sum(entry.kind in ("figure", "drawing") for entry in ENTRIES.values()) == 20
    assert not list((root / "artifacts").rglob("store")), "nothing is trained or computed"


@pytest.mark.smoke
def test_the_committed_files_are_what_it_makes(run):
    for label in ENTRIES:
        made, kept = (read(folder, label) for folder in (run[0] / "figures/published", COMMITTED))
        pd.testing.assert_frame_equal(made, kept, atol=1e-6, obj=label)


def test_what_is_committed_is_whole():
    assert {path.name for path in COMMITTED.iterdir()} == {
        name for entry in ENTRIES.values() for name in entry.files
    }
    assert sum(path.stat().st_size for path in COMMITTED.iterdir()) < 2.5e6


@pytest.mark.parametrize("label", published.BOXPLOTS)
def test_boxplots_show_the_published_accuracies(label):
    drawn, scores = read(COMMITTED, label), published.load(label)
    assert (
        drawn["model"].tolist() == scores["model"].tolist()
        and drawn["task"].tolist() == scores["task"].tolist()
    )
    assert drawn["published"].to_numpy() == pytest.approx(scores["accuracy"].to_numpy(), abs=1e-6)
    boxes = published.boxplot_rows(label)["model"].tolist()
    assert drawn["model"].unique().tolist() == boxes, "rows as in the thesis, from top to bottom"
    assert drawn["published_normalized"].to_numpy() == pytest.approx(
        scores["normalized"].to_numpy(), abs=1e-6
    )


def test_other_figures_show_the_published_numbers():
    for label, column in {"fig5_4": "accuracy", "fig5_5": "score", "fig5_6": "score"}.items():
        theirs = published.load(label).rename(columns={column: "published"})
        both = read(COMMITTED, label).merge(
            theirs, on=[*theirs.columns.intersection(["round", "metric"]), "model", "task"]
        )
        assert len(both) == len(theirs) == len(read(COMMITTED, label))
        assert both["published_x"].to_numpy() == pytest.approx(
            both["published_y"].to_numpy(), abs=1e-6
        )
    for label in ("fig4_1", "fig5_1"):
        assert read(COMMITTED, label).groupby(["split", "source"])[
            "published"
        ].sum().to_numpy() == pytest.approx([100] * 4, abs=0.01)
        theirs = published.load(label).set_index(["split", "source", "bin_lo"])["percent"]
        closed = read(COMMITTED, label).dropna(
            subset="bin_hi"
        )  # the last bin holds all longer documents
        ours = closed.set_index(["split", "source", "bin_lo"])["published"]
        inner = theirs.index.intersection(ours.index[ours > 0])
        assert len(inner) > 100 and ours[inner].to_numpy() == pytest.approx(
            theirs[inner].to_numpy(), abs=1e-6
        )
    for label in ("fig4_4", "fig5_2"):
        theirs, ours = published.load(label), read(COMMITTED, label)
        numbers = theirs.select_dtypes("number").columns
        assert len(ours) == len(theirs) and ours[numbers].to_numpy() == pytest.approx(
            theirs[numbers].to_numpy()
        )
    paper = published.load("news_fig1").dropna(subset="value")
    drawn = read(COMMITTED, "news_fig1").dropna(subset="size_mb")
    assert sorted(drawn["f1"] / 100) == pytest.approx(
        sorted(paper.loc[paper["size_mb"] != "", "value"]), abs=1e-6
    )


@pytest.mark.parametrize("label", [label for label in ENTRIES if ENTRIES[label].kind == "table"])
def test_tables_hold_what_was_printed(label):
    table, printed = read(COMMITTED, label), published.load(label).replace("", np.nan)
    if label == "tab5_7":
        table = table.melt(["round", "model"], var_name="task").dropna(subset="value")
        both = table.merge(printed, on=["round", "model", "task"])
        assert len(both) == len(table) == len(printed)
        assert both["value_x"].to_numpy() == pytest.approx(both["value_y"].to_numpy())
        return
    printed = printed[[*table.columns]]
    for column in table:
        if pd.api.types.is_numeric_dtype(table[column]):
            expected = pd.to_numeric(printed[column]).to_numpy(float)
            assert table[column].to_numpy(float) == pytest.approx(expected, nan_ok=True), column
        else:
            assert (
                table[column].astype(object).fillna("").tolist()
                == printed[column].astype(object).fillna("").tolist()
            )
    assert len(table) == len(printed) and len(table.columns) > 1


REFUSED = {
    "figA_3": "figA_3: nothing of it was published; ./run_all.sh mini figA_3 makes it",
    "fig4_33": "unknown label, notebook or profile 'fig4_33'; nearest: fig4_3",
    "--seeds=3": "params/published.yaml: seeds: what was published has no settings to change",
    "--set=heads.epochs=5": "heads.epochs: what was published has no settings to change",
    "mini": "two profiles at once: published and mini; run them one after the other",
}


@pytest.mark.parametrize("word", REFUSED)
def test_what_cannot_be_redrawn_is_one_line(word):
    done = command("published", word)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and REFUSED[word] in done.stderr


def command(*words: str) -> subprocess.CompletedProcess[str]:
    runner = [sys.executable, "-P", "-m", "lib.runner.run_all", *words, "--dry-run"]
    return subprocess.run(runner, cwd=paths.ROOT, capture_output=True, text=True, timeout=120)


def test_a_label_is_asked_of_the_one_notebook(monkeypatch, tmp_path):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    options = schedule.arguments(["published", "fig4_3", "tab5_7"])
    (plan,) = schedule.plans(options, profiles.load("published"))
    assert plan.name == "published" and [entry.label for entry in plan.wanted] == [
        "fig4_3",
        "tab5_7",
    ]
    assert [path.parent.name for entry in plan.wanted for path in entry.paths(plan.profile)] == [
        "published"
    ] * 5
    assert "fig4_3 tab5_7) would run (a minute)" in schedule.dry_run([plan])


@pytest.mark.parametrize(
    ("name", "profile"), [("published", "mini"), ("02_structural_loss", "published")]
)
def test_neither_its_profile_nor_its_notebook_goes_with_another(name, profile):
    parameters = {"profile": profile, "seeds": None, "only": "", "overrides": {}}
    with pytest.raises(
        profiles.ParameterError, match=f"{name}: the profile '{profile}' is not for this notebook"
    ):
        notebook.start(name, parameters)


def test_the_help_names_it():
    begin = time.monotonic()
    done = subprocess.run(
        [paths.ROOT / "run_all.sh", "--help"], capture_output=True, text=True, timeout=60
    )
    assert (
        "published (the published figures and tables redrawn" in done.stdout
        and time.monotonic() - begin < 20
    )
