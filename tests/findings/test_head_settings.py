"""Rankings under several head settings: the settings reach the heads, and chance is taken out."""

import pandas as pd

from lib.config import profiles
from lib.findings import head_settings


def test_a_column_for_every_setting_of_the_heads(monkeypatch):
    asked = []

    def run(models, *, profile, seeds):
        heads = profile.heads
        asked.append((heads.features, heads.epochs, heads.learning_rate, heads.classifier))
        rows = [(model, task, 0.75, chance) for model in models for task, chance in (("OC", 0.5), ("ARXIV", 0.25))]
        return pd.DataFrame(rows, columns=["model", "task", "value", "chance"])

    monkeypatch.setattr(head_settings.experiments, "run", run)
    profile = profiles.load("mini", overrides={"only": "cosine,MSE"})
    table = head_settings.scores("fig4_3", profile)
    assert set(table["model"]) == {"cosine", "MSE", "Longformer", "SBERT"}
    assert (table[list(head_settings.SETTINGS)] == (0.5 + 2 / 3) / 2).all(axis=None)
    assert asked[:4] == [
        ("raw", 10, 1e-4, "head"),
        ("unit norm", 10, 1e-4, "head"),
        ("standardized", 10, 1e-4, "head"),
        ("standardized", 40, 1e-3, "head"),
    ]
    assert asked[4][3] == "similarity"
