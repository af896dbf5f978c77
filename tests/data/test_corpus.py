"""The distillation corpus: shares, order, and what never gets in."""

import pytest

from lib.config import profiles
from lib.data import corpus, dataset_folder


class Words:
    """A tokenizer of words, with two special tokens."""

    def __call__(self, texts, add_special_tokens=True, **settings):
        return {"input_ids": [[0] * (len(text.split()) + 2 * add_special_tokens) for text in texts]}


@pytest.fixture
def folders(tmp_path, monkeypatch, write):
    """Letters and diaries, 60 of each, with a task on ten letters that are validated or tested."""
    monkeypatch.setenv("THESIS_DATA", str(tmp_path))
    write(
        tmp_path / "letters/documents.jsonl",
        *({"id": n, "text": f"letter {n}", "title": f"T{n}"} for n in range(60)),
    )
    write(
        tmp_path / "diaries/documents.jsonl.xz",
        *({"id": n, "text": "dear " * (n + 1)} for n in range(60)),
    )
    write(tmp_path / "cards/documents.jsonl", *({"id": n, "text": f"card {n}"} for n in range(8)))
    task = tmp_path / "letters/tasks/mood"
    for split, start in (("train", 0), ("validation", 6), ("test", 10)):
        write(
            task / f"{split}.jsonl",
            *({"id": n, "label": "ab"[n % 2]} for n in range(start, start + 6)[:6]),
        )
    write(task / "validation.jsonl", *({"id": n, "label": "ab"[n % 2]} for n in range(6, 10)))
    return tmp_path


HALVES = [{"folder": "letters", "share": 0.5}, {"folder": "diaries", "share": 0.5}]
MOOD = {"mood": "letters/mood"}
LISTED = {"corpus.order": "listed"}


def sources(documents):
    return [document.source for document in documents]


def test_shares_hold_in_every_prefix_and_nothing_is_drawn_twice(folders, own):
    found = corpus.read(own(HALVES, MOOD))
    assert (len(found.train), len(found.validation)) == (24, 6)
    for n in range(1, 25):
        assert abs(sources(found.train[:n]).count("letters") - n / 2) <= 1
    everything = [*found.train, *found.validation]
    assert len({(d.source, d.id) for d in everything}) == 30
    assert next(d for d in found.train if d.source == "letters").title.startswith("T")
    assert [d.id for d in corpus.read(own(HALVES, MOOD)).train] == [d.id for d in found.train]
    other = corpus.read(own(HALVES, MOOD, **{"corpus.seed": 43}))
    assert [d.id for d in other.train] != [d.id for d in found.train]


@pytest.mark.parametrize(
    "weights, expected", [((3, 1), "aaba" * 3), ((1, 1, 1), "abc" * 4), ((2, 1), "aba" * 4)]
)
def test_unequal_shares_by_hand(weights, expected):
    """Webster's rule: the next is the folder whose (taken + 1/2) / share is least."""
    picks = corpus._interleaved([iter(range(99)) for _ in weights], list(weights), 12)
    assert "".join("abc"[folder] for folder, _ in picks) == expected


def test_listed_order_is_the_files_and_validation_comes_first(folders, own):
    found = corpus.read(own([{"folder": "diaries"}], MOOD, **LISTED))
    assert [d.id for d in found.validation] == [str(n) for n in range(6)]
    assert [d.id for d in found.train] == [str(n) for n in range(6, 30)]


def test_where_a_folder_is_too_short_the_others_fill_up(folders, own):
    found = corpus.read(own(["letters", "cards"], MOOD))
    assert (
        sources(found.validation).count("cards") == 3 and sources(found.train).count("cards") == 5
    )
    assert sources(found.train[:10]).count("cards") == 5, "the shares hold until it runs out"
    with pytest.raises(
        ValueError,
        match=r"^8 of 30 documents .0 without text, 0 in a test, 0 copies, 0 too short left out.: lower corpus",
    ):
        corpus.read(own(["cards"], MOOD))


def test_no_validation_or_test_document_and_no_copy_is_in_it(folders, own, write):
    """O2. The same text under another id, in another folder and with other spaces is the same document."""
    again = [{"id": f"x{n}", "text": f"letter\n  {n} "} for n in range(20)]
    write(
        folders / "copies/documents.jsonl",
        *again,
        {"id": "own", "text": "own"},
        {"id": "own 2", "text": " own"},
    )
    profile = own(["letters", "copies"], MOOD, **LISTED)
    found = corpus.read(profile)
    texts = [" ".join(d.text.split()) for d in (*found.train, *found.validation)]
    tested = {f"letter {n}" for n in range(6, 16)}
    assert (
        len(set(texts)) == len(texts)
        and not tested & set(texts)
        and {"letter 0", "letter 16", "own"} <= set(texts)
    )
    assert found.left_out == {
        "letters": {"without text": 0, "in a test": 10, "copies": 0, "too short": 0},
        "copies": {"without text": 0, "in a test": 10, "copies": 11, "too short": 0},
    }
    everything = own(["letters"], {"mood": {"folder": "letters/mood", "folds": 2}})
    (folders / "letters/tasks/mood/validation.jsonl").unlink()
    assert corpus.read(everything).left_out["letters"]["in a test"] == 12, (
        "folds test all training documents in turn"
    )


def test_short_documents_are_left_out_by_tokens(folders, own):
    profile = own([{"folder": "diaries", "min_tokens": 22}, "letters"], MOOD, **LISTED)
    selection = corpus.select(profile, tokenizer=Words)
    found = corpus.read(profile, selection)
    assert min(len(d.text.split()) for d in found.train if d.source == "diaries") >= 20
    assert found.left_out["diaries"]["too short"] == 19


def test_documents_without_a_token_are_left_out_and_counted(folders, own, write):
    """One of them in the task's train, one in its test; they are no copies of each other."""
    rows = [{"id": n, "text": "\u200b" if n in (4, 12, 50) else f"t {n}"} for n in range(60)]
    write(folders / "letters/documents.jsonl", *rows)
    found = corpus.read(own(["letters"], MOOD))
    assert found.left_out == {
        "letters": {"without text": 3, "in a test": 9, "copies": 0, "too short": 0}
    }
    assert (len(found.train), len(found.validation)) == (24, 6)
    assert all(document.text.startswith("t ") for document in [*found.train, *found.validation])


def test_a_corpus_is_never_held(folders, own, monkeypatch):
    """Reading it again opens no text; only asking for a document does."""
    profile = own(HALVES, MOOD)
    selection = corpus.select(profile)
    monkeypatch.setattr(dataset_folder, "_write_arrow", None)
    monkeypatch.setattr(dataset_folder.Documents, "__iter__", None)
    found = corpus.read(profile, selection)
    assert found.train[3].text and [d.id for d in found.train[:4]] == [
        found.train[n].id for n in range(4)
    ]


def test_the_lab_profile_holds_what_its_final_students_need():
    profile = profiles.load("lab")
    assert profile.final.documents <= profile.corpus.train_documents
