"""The profile `lab` on somebody's own texts: what it lists is made, and nothing else is trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from lib.chapters import chapter4, final_students
from lib.config import manifest, paths, profiles
from lib.experiments.bench import Bench
from tests.vectors.conftest import make_text, write_lines

TASKS = (
    "{ARXIV: {folder: own/kinds, blocks: 2}, S2ORC: {folder: own/same, blocks: 2}, GAMES: own/near}"
)
TINY = [
    *("corpus.folders=[own]", "corpus.train_documents=24", "corpus.validation_documents=8"),
    *(f"tasks.folders={TASKS}", "width=0.05", "reference_seeds=[0, 1]"),
    *("contextual_teacher.epochs=1", "contextual_teacher.min_count_share=0.03"),
    *("student.layers=[0]", "student.window=32", "student.max_positions=512"),
    *("training.documents=12", "training.cca_batch_size=12", "heads.epochs=1", "heads.repeats=1"),
    *("final.documents=18", "final.warmup_updates=1"),
    'final.rounds={"1k": 6, "10k": 9, "all": null}',
]


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """`lab` on 60 texts of two kinds, of which tasks use 24."""
    own = tmp_path / "data" / "own"
    kinds = [("river", "court")[number % 2] for number in range(60)]
    texts = [{"id": str(n), "text": make_text(n)} for n in range(60)]
    write_lines(own / "documents.jsonl", texts)
    labelled = [{"id": str(number), "label": kinds[number]} for number in range(24)]
    write_lines(own / "tasks/kinds/train.jsonl", labelled[:12])
    write_lines(own / "tasks/kinds/test.jsonl", labelled[12:])
    pairs = [(first, first + 1 + first // 2 % 2) for first in range(0, 24, 4)]
    pairs += [(first, first + 2) for first in range(1, 22, 4)]
    rows = [{"a": str(a), "b": str(b), "label": str(kinds[a] == kinds[b])} for a, b in pairs]
    write_lines(own / "tasks/same/train.jsonl", rows[::2])
    write_lines(own / "tasks/same/test.jsonl", rows[1::2])
    relevant = {str(first): [str(first + 2), str(first + 4)] for first in range(0, 18, 6)}
    (own / "tasks/near").mkdir()
    (own / "tasks/near/relevant.json").write_text(json.dumps(relevant))
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    return profiles.load("lab", overrides=TINY)


def list_students(profile) -> set[str]:
    """Names in the store of the students behind the figures that `lab` lists."""
    bench, models = Bench(profile), {*profiles.grid("beyond")["compared_students"].values()}
    for label in {"fig4_2", "fig4_12"} & {*profile.labels}:
        models |= {*chapter4.list_models(label, profile).values(), *chapter4.list_references(label)}
    final = final_students.load_models()
    wanted = [(bench, model) for model in models]
    wanted += [
        (final_students.prepare_bench(bench), final[n]) for n in final_students.list_students()
    ]
    made = [each.model(model, seed) for each, model in wanted for seed in (0, 1)]
    return {f"{model.weights.name}.npz" for model in made if hasattr(model, "weights")}


@pytest.mark.smoke
def test_lab_saves_what_it_lists_and_trains_no_student_for_anything_else(profile):
    variables = {**os.environ, "PYTHONPATH": str(paths.ROOT)}
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", "lab", "--set", *TINY]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    entries, saved = manifest.load(), {path.name for path in paths.figures(profile).iterdir()}
    assert saved == {name for label in profile.labels for name in entries[label].files}
    students = {f"student/{path.name}" for path in paths.store().glob("student/*.npz")}
    assert students and students - list_students(profile) == set()
