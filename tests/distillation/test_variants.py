"""Labels and the models behind them."""

import pytest
import torch

from lib import losses, published
from lib.distillation import objective, variants
from lib.distillation.variants import MM_MSE, Variant, parse

EVERY_KIND = [
    "Longformer",
    "DM;100d",
    "DM;768;stem;2+DBOW;1024;None;2",
    "cosine",
    "MSE",
    "max-margin;cosine;γ=0.1",
    MM_MSE,
    "only-contextual;100d;S:768(ReLU)x1024(ReLU)x768;C:768",
    "cosine;2048d;S:1024(ReLU)x2048;C:-;mse",
    "cosine;[CLS]",
    "max-margin;cosine;γ=2.0;1024d;S:768;C:768;384;λ=0.25",
    "contrastive;100d;S:-;C:-;cca",
    "cosine;[CLS];cut",
    "chunks + LSA;cut",
    "max-margin;MSE;γ=0.5;chunks",
    "cosine;LSA;S:768(ReLU)x2048;C:-",
    "cosine;chunks;2048d+LSA;S:2048;C:-;384;λ=0.5",
]


def test_an_identity_is_the_label_of_its_variant():
    assert [parse(label).identity for label in EVERY_KIND] == list(EVERY_KIND)
    alone = [each for each in EVERY_KIND if parse(each).seed_class == "student of context alone"]
    assert alone == [each for each in EVERY_KIND if each.startswith("only-contextual")]


def test_a_weighted_student_is_taken_apart():
    label = "cosine;2048d+LSA;S:768(ReLU)x2048;C:-;384;λ=0.5"
    fields = ("cosine", "DM;1024;stem;2+DBOW;1024;None;2+LSA", "768(ReLU)x2048", "-")
    assert parse(label) == Variant(label, "student", *fields, masked=True, lam=0.5)


def test_arguments_are_read_from_the_label():
    label, arguments = "max-margin;MSE;γ=0.5;negatives=128", {"gamma": 0.5}
    assert variants.structural_loss(label) == (["max_margin", "mse"], arguments)
    assert variants.structural_loss(f"{label};chunks") == (["max_margin", "mse"], arguments)
    assert [parse(each).negatives for each in (label, MM_MSE, "cosine", "SBERT")] == [128, 0, 0, 0]
    assert parse("cosine;chunks").reads_chunks and not parse("cosine").reads_chunks
    assert parse("only-structural;cosine") == parse("cosine")
    assert parse("only-structural;mm-MSE") == parse(MM_MSE)


@pytest.mark.parametrize("label", [each for each in EVERY_KIND if parse(each).structural])
def test_an_objective_needs_no_other_function(label, monkeypatch):
    """The store asks `Variant.losses` whose code trained a student."""
    variant = parse(label)
    assert not parse("Longformer").losses and not parse("DM;100d").losses
    for name in set(losses.__all__) - set(variant.losses):
        monkeypatch.delattr(losses, name)
    width = 8 / 768
    loss = objective.Objective(variant, 8, round(2048 * width), width=width, max_structural_len=3)
    teachers = torch.randn(6, 8), torch.randn(6, round(2048 * width))
    assert loss(torch.randn(6, 8), *teachers, torch.arange(6)).shape == (6,)


@pytest.mark.parametrize(
    "label",
    ["cosin", "cosine;512d;S:1;C:-", "cosine;100d;S:768;C:768;λ=2", "SBERT;cut", "", "MSE;cca"],
)
def test_an_unknown_label_says_what_is_known(label):
    with pytest.raises(ValueError, match="unknown model.*expected Longformer"):
        parse(label)


def test_every_published_model_is_a_variant_under_its_own_identity():
    for figure in published.CHAPTER_4:
        for identity in published.load(figure)["identity"].unique():
            assert parse(identity).identity == identity, figure
