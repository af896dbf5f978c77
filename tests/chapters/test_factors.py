"""What a factor on the contextual loss does, by hand."""

import numpy as np
import pytest

from lib.chapters import contextual
from lib.config.profiles import grid
from tests.fake_bench import FakeBench

FACTORS, TRAINED = grid("beyond")["factors"], grid("beyond")["trained_factors"]


def test_a_factor_multiplies_the_contextual_gradient():
    """A student lies at the angle of its λ to the one without context; shares begin at 1/5."""
    trained = []

    def embed(bench, model, seed):
        label = str(model)
        lam = float(label.rpartition("λ=")[2]) if "λ=" in label else 1.0
        angle = (1 - lam) * 0.5 + 0.1 * seed
        watched = np.array([[0, 0, 0, 0.2], [4, 0, 0, 0.4]])
        return {"validation": np.tile([np.cos(angle), np.sin(angle)], (3, 1)), "watched": watched}

    bench = FakeBench(
        "smoke", embeddings=embed, run=lambda bench, models, seeds: trained.extend(models)
    )
    table = contextual.compare_factors(bench)
    cosine = table[table["loss"] == "cosine"].set_index("factor")
    assert cosine["expected"].tolist() == pytest.approx([k / (4 + k) for k in FACTORS])
    assert cosine["share"].dropna().to_dict() == pytest.approx(dict.fromkeys(TRAINED, 0.3))
    assert cosine["another_seed"].tolist() == pytest.approx([np.cos(0.1)] * len(FACTORS))
    assert cosine.loc[64, "cosine"] == pytest.approx(np.cos(0.5 * (1 - 0.0154)))
    assert len(trained) == 2 * len(TRAINED)


def test_the_trained_factors_are_those_of_their_weights():
    for factor, lam in TRAINED.items():
        assert (1 - lam) / lam == pytest.approx(factor, rel=0.005)
