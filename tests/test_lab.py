"""The profile `lab` on somebody's own texts: what it lists is made, and nothing else is trained."""

import json

import pytest

from lib.chapters import chapter4, final_students
from lib.config import manifest, paths, profiles
from lib.data.files import write_lines
from lib.experiments.bench import Bench
from tests.run_notebooks import run_here, small_encoder
from tests.vectors.conftest import make_text

TASKS = (
    "{ARXIV: {folder: own/kinds, blocks: 2}, S2ORC: {folder: own/same, blocks: 2}, GAMES: own/near}"
)
TINY = [
    *("corpus.folders=[own]", "corpus.train_documents=24", "corpus.validation_documents=8"),
    *(f"tasks.folders={TASKS}", "width=0.05", "reference_seeds=[0, 1]"),
    *("contextual_teacher.epochs=1", "contextual_teacher.min_count_share=0.03"),
    *("student.layers=[0]", "student.window=32", "student.max_positions=128"),
    *("training.documents=12", "training.cca_batch_size=12", "heads.epochs=1", "heads.repeats=1"),
    *("final.documents=18", "final.warmup_updates=1"),
    'final.rounds={"1k": 6, "10k": 9, "all": null}',
]


def write_texts(own):
    """60 texts of two kinds, of which tasks use 24."""
    write_lines(own / "documents.jsonl", [{"id": str(n), "text": make_text(n)} for n in range(60)])
    kinds = [{"id": str(n), "label": ("river", "court")[n % 2]} for n in range(24)]
    pairs = [(first, first + 1 + first // 2 % 2) for first in range(0, 24, 4)]
    pairs += [(first, first + 2) for first in range(1, 22, 4)]
    same = [{"a": str(a), "b": str(b), "label": str(a % 2 == b % 2)} for a, b in pairs]
    for name, rows in {"kinds": kinds, "same": same}.items():
        write_lines(own / f"tasks/{name}/train.jsonl", rows[: len(rows) // 2])
        write_lines(own / f"tasks/{name}/test.jsonl", rows[len(rows) // 2 :])
    relevant = {str(first): [str(first + 2), str(first + 4)] for first in range(0, 18, 6)}
    (own / "tasks/near").mkdir()
    (own / "tasks/near/relevant.json").write_text(json.dumps(relevant))


@pytest.mark.smoke
def test_lab_saves_what_it_lists_and_trains_nothing_else(tmp_path, artifacts, monkeypatch):
    write_texts(tmp_path / "data/own")
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "data"))
    overrides = TINY + small_encoder(tmp_path / "encoder")
    profile, entries = profiles.load("lab", overrides=overrides), manifest.load()
    run_here("lab", *overrides, "--jobs", "1")
    saved = {path.name for path in paths.figures(profile).iterdir()}
    promised = [path for label in profile.labels for path in entries[label].paths(profile)]
    assert saved == {path.name for path in promised}
    bench, models = Bench(profile), {*profiles.grid("beyond")["compared_students"].values()}
    for label in {"fig4_2", "fig4_12"} & {*profile.labels}:
        models |= {*chapter4.list_models(label, profile).values(), *chapter4.list_references(label)}
    final, prepared = final_students.load_models(), final_students.prepare_bench(bench)
    wanted = [(bench, model) for model in models]
    wanted += [(prepared, final[name]) for name in final_students.list_students()]
    made = [each.model(model, seed) for each, model in wanted for seed in (0, 1)]
    weights = [model.weights.name for model in made if hasattr(model, "weights")]
    store = artifacts / "store"
    trained = {*store.glob("student/*/*.npz")}
    assert trained and trained <= {store / f"{name}.npz" for name in weights}
