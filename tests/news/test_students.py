"""The students: what their identities say, their printed sizes, and that padding never counts."""

import re
import threading

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

from lib import published
from lib.news import designs, students
from lib.news.students import NewsStudent, Sizes, pad
from lib.published import figure_models
from tests.threads import LIMIT

SMALL = Sizes(vocabulary=50, token=16, hidden=8, output=12, teacher_token=10, feed_forward=16)
PAPER = Sizes(
    vocabulary=119_547, token=128, hidden=128, output=256, teacher_token=768, feed_forward=1024
)
EVERY = (*figure_models.news_students(), *figure_models.OWN_NEWS)
STRUCTURES = sorted({identity.rpartition(";")[0] + ";MSE": identity for identity in EVERY}.values())


def student(identity, sizes=SMALL, seed=0):
    torch.manual_seed(seed)
    return NewsStudent(designs.parse(identity), sizes).eval()


def test_the_paper_has_48_students_each_once():
    assert len(figure_models.news_students()) == len(set(figure_models.news_students())) == 48
    shown = {
        row for number in range(1, 9) for row in published.load(f"news_tab{number}")["identity"]
    }
    assert shown - {*figure_models.news_students()} - {"teacher"} == {
        f"{name};fine-tuned" for name in ("RuBERT Tiny", "RuBERT Tiny-2", "DistilRuBERT")
    }


def test_an_identity_says_what_its_row_says():
    for number in range(1, 9):
        for row in published.load(f"news_tab{number}").fillna("").itertuples():
            if row.identity in figure_models.news_students():
                design = designs.parse(row.identity)
                printed = {
                    "architecture": row.architecture,
                    "bidirectional": row.bidirectional == "yes",
                    "layers": int(row.layers or 1),
                    "heads": int(row.heads or 0),
                    "linear_layers": int(row.linear_layers or 0),
                    "dropout": row.dropout == "yes",
                    "aggregation": row.aggregation or "average",
                    "tokens": row.token_init,
                    "loss": row.loss,
                }
                assert {name: getattr(design, name) for name in printed} == printed, row.identity
                assert design.token_dim == int(row.token_dim) or design.tokens == "teacher"
                assert design.alpha == float(getattr(row, "alpha", "") or 0)
                assert (design.schedule == "plateau") == row.identity.endswith(";plateau")


@pytest.mark.parametrize(
    "identity",
    [
        "BiGPU;cosine",
        "BiLSTM(1);cosine",
        "BiGRU;average;cosine",
        "BiGRU;cosine;attentive",  # behind its place
        "BiGRU;cosine;cosine",
        "BiGRU;CLS;cosine",  # no Transformer
        "FFN(2);attentive;cosine",
        "BiGRU",
        "LSTM;complex",
        "LSTM;complex;α=1.5",
        "LSTM;complex;α=-0.5",
        "LSTM;MSE;α=0.5",
        "LSTM+1 linear+dropout;MSE",  # between which two layers?
        "",
        "LSTM;triplet;annotated",
    ],
)
def test_what_an_identity_cannot_say(identity):
    with pytest.raises(ValueError, match=re.escape(repr(identity))):
        designs.parse(identity)


def test_heads_divide_the_width():
    with pytest.raises(ValueError, match="8 attention heads do not divide the width 12"):
        student("Transformer(1x8)+ReLU;cosine", Sizes(50, 12, 8, 12, 10, 16))


def test_sizes_are_the_printed_ones():
    tables = pd.concat([published.load(f"news_tab{number}") for number in range(3, 9)])
    checked = 0
    for identity, printed in (
        tables[["identity", "size_mb"]].drop_duplicates().itertuples(index=False)
    ):
        if identity in figure_models.news_students():
            with torch.device("meta"):
                model = NewsStudent(designs.parse(identity), PAPER)
            size = model.megabytes
            if isinstance(
                model.body, students.Transformer
            ):  # a published file holds a layer more, which nothing uses
                layer = model.body.layers.layers[0]
                size += 4 * sum(weights.numel() for weights in layer.parameters()) / 2**20
            assert size == pytest.approx(float(printed), abs=0.07), identity
            checked += 1
    assert checked == 43  # all but five of Tables 1 and 2, which print no size


def test_the_cnns_stay_within_the_weights_that_their_sizes_leave():
    with torch.device("meta"):
        models = [NewsStudent(designs.parse(f"CNN-{number};MSE"), PAPER) for number in (1, 2)]
    first, second = (
        model.megabytes * 2**20 / 4 - model.embedding.weight.numel() for model in models
    )
    assert first < 20_000 and 178_000 <= second <= 204_000


@pytest.mark.parametrize("identity", STRUCTURES)
def test_padding_never_changes_an_embedding(identity):
    model = student(identity)
    rows = [np.random.default_rng(n).integers(1, 50, n).tolist() for n in (1, 2, 5, 9, 9)]
    alone = torch.stack([model(*pad([row]))[0] for row in rows])
    ids, lengths = pad(rows)
    assert_close(model(ids, lengths), alone, atol=1e-5, rtol=0)
    dirty = torch.cat([ids, torch.zeros(5, 3, dtype=ids.dtype)], dim=1)
    dirty[torch.arange(12) >= lengths[:, None]] = 7  # any padding, and more of it
    assert_close(model(dirty, lengths), alone, atol=1e-5, rtol=0)
    assert abs(model.encode(rows, batch_size=2) - alone.detach().numpy()).max() < 1e-5
    assert alone.std(0).max() > 1e-3, "different documents differ"


@pytest.mark.parametrize("identity", STRUCTURES)
def test_devices_of_all_layers_on_the_meta_device(identity):
    """A tensor made on the CPU in between would be an error. Packing knows no meta device."""
    embeddings = student(identity).train().to("meta")(*pad([[3, 4, 5], [6, 7, 8]]))
    assert embeddings.shape == (2, 12)
    assert embeddings.device.type == "meta"
    assert embeddings.requires_grad


@pytest.mark.parametrize(
    "identity", [name for name in STRUCTURES if "LSTM(" in name or "GRU" in name or "RNN" in name]
)
def test_packed_students_equal_a_loop_over_documents(identity):
    model = student(identity)
    rows = [np.random.default_rng(n).integers(1, 50, n).tolist() for n in (3, 7, 4)]
    looped = []
    for row in rows:
        states = model.body.cells(model.embedding(torch.tensor([row])))[0]
        states = model.per_token(states)[0]
        weights = (
            torch.full((len(row), 1), 1 / len(row))
            if model.scorer is None
            else model.scorer(states).softmax(0)
        )
        looped.append(model.after((weights * states).sum(0, keepdim=True))[0])
    assert_close(model(*pad(rows)), torch.stack(looped), atol=1e-5, rtol=0)


def test_the_second_linear_layer_means_the_same_behind_the_mean():
    model, rows = student("BiLSTM+2 linear+dropout;MSE"), [[3, 4, 9, 9], [5, 6, 7]]
    for row in rows:
        states = model.per_token(model.body.cells(model.embedding(torch.tensor([row])))[0])
        assert_close(model(*pad([row])), model.after(states).mean(1))
    widths = [layer.weight.shape for layer in (model.per_token[0], model.after)]
    assert widths == [(12, 16), (12, 12)], "one for each token, one for a document"


def test_teacher_tokens_stay_as_they_are():
    model = student("BiLSTM+2 linear+dropout;teacher tokens;MSE")
    assert not model.embedding.weight.requires_grad and model.embedding.weight.shape == (50, 10)
    assert student("BiLSTM;cosine").embedding.weight.requires_grad
    assert student("BiGRU(2)+1 linear;attentive;64d;MSE;plateau").embedding.weight.shape == (50, 8)


def test_a_document_without_tokens_is_refused():
    with pytest.raises(ValueError, match="document 1 has no token"):
        student("BiGRU;cosine").encode([[1, 2], []])


def test_dropout_only_in_training():
    model, rows = student("LSTM+2 linear+dropout;MSE").train(), pad([[1, 2, 3]])
    assert (model(*rows) - model(*rows)).abs().max() > 0
    assert (model.encode([[1, 2, 3]]) == model.encode([[1, 2, 3]])).all() and model.training


def test_a_student_in_training_mode_can_be_asked_from_two_threads():
    """The first to end must not bring dropout back under the other."""
    rows = [[1, 2, 3], [4, 5]]
    model = student("Transformer(1x4);cosine")
    expected = model.encode(rows)
    forward, inside, found = model.forward, [threading.Event(), threading.Event()], []
    first_is_done = threading.Event()

    def wait_for_the_other(*given):
        second = threading.current_thread() is thread
        inside[second].set()
        assert (first_is_done if second else inside[1]).wait(LIMIT)
        return forward(*given)

    thread = threading.Thread(
        target=lambda: inside[0].wait(LIMIT) and found.append(model.encode(rows)), daemon=True
    )
    model.forward = wait_for_the_other
    model.train()
    thread.start()
    model.encode(rows)
    first_is_done.set()
    thread.join(LIMIT)
    np.testing.assert_array_equal(found, [expected])
    assert model.training
