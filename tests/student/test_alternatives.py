"""`tests/benchmarks/alternatives.py`: what it counts, how chunks are pooled, what it keeps, and
that it runs.
"""

import importlib
import os
import subprocess
import sys

import pandas as pd
import pytest
import torch

from lib.config import paths

FOLDER = paths.ROOT / "tests" / "benchmarks"
SMALL = """
import sys
from pathlib import Path
import alternatives
alternatives.SIZE |= {"vocab_size": 50, "hidden_size": 24}
alternatives.SIZE |= {"intermediate_size": 96, "num_hidden_layers": 2}
alternatives.PRODUCTS = {name: (32, 32, 32) for name in alternatives.PRODUCTS}
alternatives.TOKENS = 32
steps, precisions = ["training", "inference"], ["fp32", "bf16"]
names = list(alternatives.NAMES)
alternatives.run(names, [32], [10, 20], steps, precisions, 1, Path(sys.argv[1]))
alternatives.run(["student"], [32], [], ["inference"], ["fp32"], 1, Path(sys.argv[1]) / "one")
"""


@pytest.fixture
def alternatives(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("alternatives")


def test_pairs_in_reach(alternatives):
    for length in (1, 2, 7, 30):
        for half in (1, 3, 6, 40):
            distances = [abs(i - j) for i in range(length) for j in range(length)]
            assert alternatives.reached(length, half) == sum(
                distance <= half for distance in distances
            )


def test_needed_products_by_hand(alternatives, monkeypatch):
    small = {"hidden_size": 3, "intermediate_size": 6, "num_hidden_layers": 4}
    monkeypatch.setattr(alternatives, "SIZE", small)
    monkeypatch.setattr(alternatives, "WINDOW", 2)
    monkeypatch.setattr(alternatives, "CHUNK", 4)
    monkeypatch.setattr(alternatives, "MODERN_WINDOW", 2)
    # Two documents of 5 and 1 tokens: four square maps, two of the feed-forward, 2 operations each,
    # 6 tokens, 4 layers.
    linear = 2 * (4 * 9 + 2 * 18) * 6 * 4
    pairs = {"student": 13 + 1, "longformer": 13 + 1, "full": 25 + 1, "chunks": 16 + 1 + 1}
    for name, in_a_layer in pairs.items():
        assert alternatives.needed(name, [5, 1]) == linear + 4 * 3 * in_a_layer * 4, name
    # Layers 0 and 3 see everything, layers 1 and 2 their window.
    assert alternatives.needed("modernbert", [5, 1]) == linear + 4 * 3 * (2 * 26 + 2 * 14)


def test_chunks_are_averaged_over_tokens(alternatives, monkeypatch):
    monkeypatch.setattr(alternatives, "CHUNK", 4)

    def model(input_ids, attention_mask):
        states = input_ids[..., None].float()
        return type("Output", (), {"last_hidden_state": states})

    documents = [[2, 4, 6, 8, 20], [3]]
    assert alternatives.mean_of_chunks(model, documents).tolist() == [[8.0], [3.0]]
    assert torch.equal(alternatives.mean_of_tokens(model, documents), torch.tensor([[8.0], [3.0]]))


def test_a_pass_that_dies_is_none(alternatives):
    assert alternatives.alone(os._exit, 1) is None
    assert alternatives.alone(sum, [1, 2]) == 3


def test_a_second_measurement_takes_the_place_of_the_first(alternatives, tmp_path):
    def row(case, model, seconds):
        return {
            "case": case,
            "step": "inference",
            "model": model,
            "precision": "fp32",
            "seconds": seconds,
        }

    file = tmp_path / "rows.csv"
    alternatives.replaced(file, [row("mixed", "student", 1.0)])
    alternatives.replaced(file, [row("512", "student", 2.0), row("512", "Longformer", 3.0)])
    frame = alternatives.replaced(file, [row("512", "student", 4.0)])
    expected = {("512", "Longformer"): 3.0, ("512", "student"): 4.0, ("mixed", "student"): 1.0}
    assert frame.set_index(["case", "model"])["seconds"].to_dict() == expected
    assert list(frame["case"]) == ["512", "512", "mixed"]


@pytest.mark.smoke
def test_runs_at_small_size(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    subprocess.run(
        [sys.executable, "-c", SMALL, str(tmp_path)], cwd=FOLDER, env=environment, check=True
    )
    frame = pd.read_csv(tmp_path / "alternatives.csv", dtype={"case": str})
    batches = [(step, case) for step in ("inference", "training") for case in ("32", "mixed")]
    assert list(dict.fromkeys(zip(frame["step"], frame["case"], strict=True))) == batches
    assert len(frame) == 4 * 5 * 2 and (frame[["seconds", "needed_gflop"]] > 0).all(axis=None)
    assert "| student, bf16 |" in (tmp_path / "alternatives.md").read_text(encoding="utf-8")
    one = (tmp_path / "one/alternatives.md").read_text(encoding="utf-8")
    assert "| student, fp32 |" in one
    assert "| student, bf16 |" not in one
    assert one.count(" | - |") == 4 + 2 * 4
    assert (tmp_path / "alternatives.svg").stat().st_size > 1000
