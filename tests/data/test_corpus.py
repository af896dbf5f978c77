"""The distillation corpus: shares, order, and what never gets in."""

import json

import pytest

from lib.config.schema import CorpusSettings, TaskSettings
from lib.data import corpus, dataset_folder, task_files
from lib.data.dataset_folder import Documents

SIZES = {"order": "shuffled", "train_documents": 24, "validation_documents": 6, "seed": 42}


@pytest.fixture
def root(tmp_path, write):
    """Letters and diaries, 60 of each, with a task on ten letters that are validated or tested."""
    letters = ({"id": n, "text": f"letter {n}", "title": f"T{n}"} for n in range(60))
    write(tmp_path / "letters/documents.jsonl", *letters)
    diaries = ({"id": n, "text": "dear " * (n + 1)} for n in range(60))
    write(tmp_path / "diaries/documents.jsonl.xz", *diaries)
    write(tmp_path / "cards/documents.jsonl", *({"id": n, "text": f"card {n}"} for n in range(8)))
    splits = {"train": range(6), "validation": range(6, 10), "test": range(10, 16)}
    for split, rows in splits.items():
        examples = ({"id": n, "label": "ab"[n % 2]} for n in rows)
        write(tmp_path / f"letters/tasks/mood/{split}.jsonl", *examples)
    return tmp_path


def draw(root, *folders, **settings):
    section = CorpusSettings(folders=folders, **SIZES | settings)
    documents = Documents(*(root / name for name in section.names))
    tasks = TaskSettings(folders={"mood": "letters/mood"}, limit=100, seed=42)
    held_out = task_files.held_out_contents(task_files.read_tasks([root], tasks))
    count = lambda texts: [len(text.split()) + 2 for text in texts]  # noqa: E731
    drawn = corpus.draw(section, documents, held_out, count)
    parts = (documents[drawn[part]] for part in ("train", "validation"))
    return corpus.Corpus(*parts, json.loads(str(drawn["left_out"])))


def test_shares_hold_in_every_prefix_and_nothing_is_drawn_twice(root):
    folders = [{"folder": "letters", "share": 0.25}, {"folder": "diaries", "share": 0.75}]
    drawn = draw(root, *folders)
    assert (len(drawn.train), len(drawn.validation)) == (24, 6)
    everything = [*drawn.validation, *drawn.train]
    sources = [document.source for document in everything]
    assert all(abs(sources[:n].count("letters") - n / 4) <= 1 for n in range(31))
    contents = [dataset_folder.content(document.text) for document in drawn.train]
    assert drawn.train.contents.tolist() == contents and len({d.text for d in everything}) == 30
    again, other = draw(root, *folders), draw(root, *folders, seed=43)
    assert [*again.train] == [*drawn.train] != [*other.train]


def test_where_a_folder_is_too_short_the_others_fill_up(root):
    drawn = draw(root, "letters", "cards")
    assert [d.source for d in drawn.validation].count("cards") == 3
    assert [d.source for d in drawn.train[:10]].count("cards") == 5, "shares hold until it runs out"
    assert [d.source for d in drawn.train].count("cards") == 5
    with pytest.raises(ValueError, match=r"^8 of 30 documents, .*; lower corpus.train"):
        draw(root, "cards")


def test_no_validation_or_test_document_and_no_copy_is_in_it(root, write):
    """The same text under another id, in another folder, in another case is a copy."""
    copies = [{"id": f"x{n}", "text": f"Letter,\n  {n} "} for n in range(20)]
    new = [{"id": f"own {text!r}", "text": text} for text in ("own", " own", "\u200b", " ")]
    write(root / "copies/documents.jsonl", *copies, *new)
    drawn = draw(root, "letters", "copies", order="listed")
    everything = (*drawn.train, *drawn.validation)
    texts = [" ".join(d.text.lower().replace(",", "").split()) for d in everything]
    assert len(set(texts)) == len(texts)
    assert not {f"letter {n}" for n in range(6, 16)} & set(texts)
    assert {"letter 0", "letter 16", "own"} <= set(texts)
    assert drawn.left_out == {
        "letters": {"without text": 0, "in a test": 10, "copies": 0, "too short": 0},
        "copies": {"without text": 2, "in a test": 10, "copies": 11, "too short": 0},
    }
    (root / "letters/tasks/mood/validation.jsonl").unlink()
    folded = draw(root, "letters")
    assert folded.left_out["letters"]["in a test"] == 12, "folds test all examples in turn"


def test_short_documents_are_left_out_by_tokens(root):
    drawn = draw(root, {"folder": "diaries", "min_tokens": 22}, "letters", order="listed")
    diaries = [d for d in (*drawn.validation, *drawn.train) if d.source == "diaries"]
    assert min(len(d.text.split()) for d in diaries) == 20
    assert drawn.left_out["diaries"]["too short"] == 19
