"""The students: what their identities say, their printed sizes, and that padding never counts."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

from lib import published
from lib.news.students import NewsStudent, count_megabytes, parse

EVERY = (*published.news_students(), *published.OWN_NEWS)
STRUCTURES = sorted({identity.rpartition(";")[0] + ";MSE": identity for identity in EVERY}.values())
TABLES = pd.concat([published.load(f"news_tab{number}") for number in range(1, 9)])
TABLES = TABLES.astype(object).fillna("")


def make_student(identity, seed=0):
    torch.manual_seed(seed)
    return NewsStudent(identity, table=(50, 10), output=12, width=1 / 8).eval()


def draw_rows(*lengths):
    return [np.random.default_rng(n).integers(1, 50, n).tolist() for n in lengths]


def test_an_identity_says_what_its_row_says():
    assert len(published.news_students()) == 48
    for row in TABLES[TABLES["identity"].isin(EVERY)].itertuples():
        design, counts = parse(row.identity), (row.layers or 1, row.heads or 0)
        assert (design.architecture, design.loss) == (row.architecture, row.loss)
        assert (design.layers, design.heads) == tuple(map(int, counts))
        assert design.linear_layers == int(row.linear_layers or 0)
        assert design.bidirectional == (row.bidirectional == "yes")
        assert design.dropout == (row.dropout == "yes")
        assert (design.aggregation, design.tokens) == (row.aggregation or "average", row.token_init)
        assert design.token_dim == int(row.token_dim) or design.tokens == "teacher"
        assert design.alpha == float(row.alpha or 0)
        assert (design.schedule == "plateau") == row.identity.endswith(";plateau")
        assert design.annotated == row.identity.endswith(";annotated")


def test_sizes_are_the_printed_ones():
    printed = TABLES[TABLES["identity"].isin(EVERY) & (TABLES["size_mb"] != "")]
    printed = printed.drop_duplicates("identity").set_index("identity")["size_mb"].astype(float)
    assert len(printed) == 43  # all but five of Tables 1 and 2, which print no size
    for identity, size in printed.items():
        with torch.device("meta"):
            model = NewsStudent(identity, table=(119_547, 768), output=256)
        ours = count_megabytes(model)
        if isinstance(model.body, torch.nn.TransformerEncoder):
            # A published file holds a layer more, which nothing uses.
            ours += count_megabytes(model.body.layers[0])
        assert ours == pytest.approx(size, abs=0.07), identity


@pytest.mark.parametrize("identity", STRUCTURES)
def test_padding_never_changes_an_embedding(identity):
    model, rows = make_student(identity), draw_rows(3, 4, 5, 9, 9)
    alone = torch.stack([model(*model.pad([row]))[0] for row in rows])
    ids, lengths = model.pad(rows)
    dirty = torch.cat([ids, torch.zeros(5, 3, dtype=ids.dtype)], dim=1)
    dirty[torch.arange(dirty.shape[1]) >= lengths[:, None]] = 7  # any padding, and more of it
    assert_close(model(dirty, lengths), alone, atol=1e-5, rtol=0)
    assert abs(model.encode(rows, batch_size=2) - alone.detach().numpy()).max() < 1e-5
    assert alone.std(0).max() > 1e-3, "different documents differ"


def test_a_bag_is_the_mean_of_its_words_without_special_tokens():
    model = make_student("bag;cosine")
    words = model.embedding(torch.tensor([3, 4, 4])).mean(0)
    assert_close(torch.from_numpy(model.encode([[1, 3, 4, 4, 2]]))[0], model.after(words))
