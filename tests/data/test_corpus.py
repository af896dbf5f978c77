"""Distillation corpora from the three sources, and their token statistics."""

import hashlib
import io
import json
import lzma
import subprocess
import sys
import tarfile
from pathlib import Path

import pandas as pd
import pytest

from lib.data import corpus
from lib.data.build.mini import gensim_files

ROOT = Path(__file__).parents[2]


class Words:
    """A tokenizer of words, with two special tokens."""

    def __call__(self, texts, add_special_tokens=True, **settings):
        return {"input_ids": [[0] * (len(text.split()) + 2 * add_special_tokens) for text in texts]}


def digest(documents):
    return hashlib.sha256("\n".join(d.id + d.text for d in documents).encode()).hexdigest()


@pytest.fixture(scope="module")
def mini():
    return corpus.gensim_corpus(540, 60)


def test_mini_sizes_mix_and_prefixes(mini):
    assert (len(mini.train), len(mini.validation)) == (540, 60)
    assert sum(d.source == "news" for d in mini.validation) == 30
    for n in (10, 100, 300, 400, 500):
        assert abs(sum(d.source == "news" for d in mini.train[:n]) - n / 2) <= 1
    # 289 stories are left without copies: news runs out at the end of the longest corpus, nowhere else.
    assert sum(d.source == "news" for d in mini.train) == 259


def test_mini_has_the_shape_the_profile_needs(mini):
    words = [len(d.text.split()) for d in mini.train]
    wikipedia = [n for d, n in zip(mini.train, words, strict=True) if d.source == "wikipedia"]
    # About 1.27 tokens a word: 45,000 to 51,000 words are 57,000 to 65,000 tokens.
    assert 45_000 < sum(words[:300]) < 51_000
    assert max(wikipedia) > 1600 and sum(50 <= n <= 300 for n in wikipedia) > 0.85 * len(wikipedia)
    assert sum(n > 100 for n in words) > 2 / 3 * len(words)  # 128 tokens are 98 to 105 words


def test_mini_has_no_duplicates(mini):
    documents = [*mini.train, *mini.validation]
    assert len({d.id for d in documents}) == len({d.text for d in documents}) == 600
    assert len(gensim_files.without_copies(d.text for d in documents)) == 600


def test_mini_is_the_same_in_another_process(mini):
    code = (
        "from lib.data import corpus; import hashlib; c = corpus.gensim_corpus(540, 60);"
        "print(hashlib.sha256('\\n'.join(d.id + d.text for d in c.train).encode()).hexdigest())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONHASHSEED": "7"}
    )
    assert found.stdout.strip() == digest(mini.train)


def test_mini_seed_changes_the_order_and_too_many_documents_are_refused(mini):
    assert digest(corpus.gensim_corpus(20, 4, seed=1).train) != digest(corpus.gensim_corpus(20, 4, seed=2).train)
    with pytest.raises(ValueError, match="no more than .* ask for fewer"):
        corpus.gensim_corpus(3000, 60)
    with pytest.raises(ValueError, match="validation_documents.*at least 2.*got 0"):
        corpus.gensim_corpus(20, 0)


def test_near_copies_are_found():
    story = " ".join(f"word{n}" for n in range(60))
    assert gensim_files.without_copies([story, "something else", story.replace("word3 ", "new "), story.upper()]) == [
        0,
        1,
    ]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())


@pytest.fixture
def folders(tmp_path):
    write(tmp_path / "wiki/documents.jsonl", [{"id": n, "text": f"article {n}", "title": f"T{n}"} for n in range(12)])
    write(tmp_path / "press/documents.jsonl.xz", [{"id": str(n), "text": "story " * (n + 1)} for n in range(12)])
    return tmp_path


SOURCES = {"wikipedia": ["wiki"], "news": ["press"]}


def test_folder_corpus_mixes_evenly_without_repeats(folders):
    found = corpus.folder_corpus(folders, datasets=SOURCES, train_documents=12, validation_documents=4)
    assert [d.source for d in found.train[:4]] == ["wikipedia", "news", "wikipedia", "news"]
    ids = [d.id for d in (*found.train, *found.validation)]
    assert len(set(ids)) == 16 and {i.split("/")[0] for i in ids} == {"wiki", "press"}
    assert next(d for d in found.train if d.source == "wikipedia").title.startswith("T")
    again = corpus.folder_corpus(folders, datasets=SOURCES, train_documents=12, validation_documents=4)
    assert digest(again.train) == digest(found.train)


def test_folder_corpus_of_ones_own_documents_alone(folders):
    found = corpus.folder_corpus(folders, datasets={"news": ["press"]}, train_documents=8, validation_documents=2)
    assert len(found.train) == 8 and {d.source for d in found.train} == {"news"}


def test_folder_corpus_drops_short_news_and_says_when_too_little_is_left(folders):
    settings = dict(datasets=SOURCES, validation_documents=2, min_news_tokens=8, tokenizer=Words())
    found = corpus.folder_corpus(folders, train_documents=8, **settings)
    assert all(len(d.text.split()) >= 6 for d in found.train if d.source == "news")
    with pytest.raises(ValueError, match="news: press hold 7 usable documents, 11 are wanted"):
        corpus.folder_corpus(folders, train_documents=20, **settings)
    with pytest.raises(ValueError, match="needs the student's tokenizer"):
        corpus.folder_corpus(folders, train_documents=8, **{**settings, "tokenizer": None})


def test_statistics_by_hand():
    documents = [
        corpus.Document(str(n), "w " * words, source)
        for n, (words, source) in enumerate([(10, "wikipedia"), (39, "wikipedia"), (40, "wikipedia"), (100, "news")])
    ]
    found = corpus.token_statistics(corpus.Corpus(documents, documents[3:]), Words(), Words())
    assert found["longformer_tokens"].tolist() == [12, 41, 42, 102, 102]
    assert found["sbert_tokens"].tolist() == [10, 39, 40, 100, 100]
    assert found["split"].tolist() == ["train"] * 4 + ["validation"]


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Wikipedia as Parquet and RealNews as Grover's archive, both tiny."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    pd.DataFrame(
        {"id": "1", "url": "u", "title": [f"T{n}" for n in range(30)], "text": [f"article {n}" for n in range(30)]}
    ).to_parquet(tmp_path / "train-0.parquet")
    rows = [{"title": None, "text": "news " * n, "url": "u", "domain": "d", "publish_date": "x"} for n in range(1, 31)]
    data = "\n".join(json.dumps(row) for row in rows).encode()
    with tarfile.open(tmp_path / "realnews.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("realnews/realnews.jsonl")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return {"wikipedia": [str(tmp_path / "train-*.parquet")], "news": [str(tmp_path / "realnews.tar.gz")]}


def test_hub_corpus_draws_with_replacement_from_arrow(published):
    settings = dict(
        datasets=published, train_documents=100, validation_documents=10, min_news_tokens=22, tokenizer=Words()
    )
    found = corpus.hub_corpus(**settings)
    assert (len(found.train), len(found.validation)) == (100, 10)
    assert [d.source for d in found.train[:2]] == ["wikipedia", "news"] and not isinstance(found.train, list)
    news = [d for d in found.train if d.source == "news"]
    assert all(len(d.text.split()) >= 20 for d in news) and all(d.title == "" for d in news)
    assert len({d.id for d in news}) < len(news) == 50  # with replacement
    assert not {d.id for d in found.train} & {d.id for d in found.validation}
    assert digest(corpus.hub_corpus(**settings).train) == digest(found.train)


def test_hub_corpus_says_what_is_wrong(published, tmp_path):
    settings = dict(train_documents=10, validation_documents=4, tokenizer=Words())
    with pytest.raises(ValueError, match="news: 0 usable documents"):
        corpus.hub_corpus(datasets=published, min_news_tokens=1200, **settings)
    with pytest.raises(ValueError, match=r"x\.csv: expected a file ending in"):
        corpus.hub_corpus(datasets={**published, "news": ["x.csv"]}, **settings)
    with pytest.raises(ValueError, match="realnews.tar.gz is missing"):
        corpus.hub_corpus(datasets={**published, "news": [str(tmp_path / "no/realnews.tar.gz")]}, **settings)
