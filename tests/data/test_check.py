"""What is in a person's folder, what is wrong with it, and the sizes that follow."""

import re

import pytest

from lib.config import profiles
from lib.data import check, corpus, sources, task_files
from lib.data.dataset_folder import Documents

LETTER = "the court of the town and the people in it were heard by a judge on day {}"
MOODS = {"train": [(n, n % 2) for n in range(16)], "test": [(n, n % 2) for n in range(16, 24)]}


@pytest.fixture
def folder(tmp_path, write):
    """Forty letters, every fourth in two copies unless grouped; a task with the given splits."""

    def make(texts=None, groups=(), **splits):
        numbers = [n if groups else n - n % 4 // 3 for n in range(40)]
        texts = texts or list(map(LETTER.format, numbers))
        rows = [{"id": n, "text": text} for n, text in enumerate(texts)]
        rows = [row | {"group": groups[n]} if groups else row for n, row in enumerate(rows)]
        write(tmp_path / "root/letters/documents.jsonl", *rows)
        for split, examples in splits.items():
            labelled = ({"id": name, "label": label} for name, label in examples)
            write(tmp_path / f"root/letters/tasks/mood/{split}.jsonl", *labelled)
        return tmp_path / "root"

    return make


def test_sizes_make_a_profile_whose_corpus_is_what_was_counted(folder):
    root = folder(**MOODS)
    for path in (root, root / "letters"):
        changes, told = check.suggested(path)
        profile = profiles.load("lab", overrides=changes)
        roots = sources.find_roots(profile.build, profile.data_roots, path)
        tasks = task_files.read_tasks(roots, profile.tasks)
        documents = [Documents(sources.find_dataset(roots, name)) for name in profile.corpus.names]
        held_out = task_files.held_out_contents(tasks)
        selection = corpus.draw(profile.corpus, documents, held_out, len)
        drawn = corpus.Corpus.read(selection, documents)
        assert profile.training.documents == profile.final.documents == len(drawn.train)
        assert profile.tasks.names == ("letters/mood",)
        assert f"train on {len(drawn.train)} of 40 documents" in told
        kept = len(drawn.train) + len(drawn.validation)
        assert len(drawn.validation) == kept // 5
        assert kept + sum(drawn.left_out["letters"].values()) == 40


def test_tasks_are_named_or_none_and_clusterings_are_left_out(folder, write):
    root = folder(**MOODS)
    events = ({"id": n, "label": n // 2} for n in range(24, 40))
    write(root / "letters/tasks/events/clusters.jsonl", *events)
    assert [*check.suggested(root)[0]["tasks.folders"]] == ["letters/mood"]
    for none in ([], ["letters/events"]):
        changes, told = check.suggested(root, none)
        assert not changes["tasks.folders"] and "judge by 0 tasks" in told
        assert changes["corpus.train_documents"] == 24
    with pytest.raises(ValueError, match="unknown task 'letters/moods'; nearest: letters/mood"):
        check.suggested(root, ["letters/moods"])


def halves(rows):
    return [(n, n % 2) for n in rows]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": ["the same"] * 20}, "1 of 20 documents can be trained on"),
        ({"train": halves(range(40))}, "0 of 40 documents can be trained on"),
    ],
)
def test_too_little_to_train_on_is_one_line(folder, options, message):
    with pytest.raises(ValueError, match=message) as error:
        check.suggested(folder(**options))
    assert "\n" not in str(error.value)


def test_a_report_counts_what_is_there_and_names_what_is_not_read(folder, write, capsys):
    texts = [LETTER.format(n) for n in range(38)]
    train = [*MOODS["train"], (16, "odd"), (17, "odd")]
    splits = {"train": train, "validation": halves((18, 19)), "test": halves(range(20, 24))}
    root = folder([*texts, texts[0], ""], **splits)
    write(root / "letters/tasks/reply/relevant.json", {"0": ["1"], "2": ["5"]})
    write(root / "diaries/documents.jsonl", {"id": 1, "groups": "", "text": "a"})
    for place in ("letters/document.jsonl", "letters/tasks/mood/val.jsonl", ".DS_Store"):
        write(root / place, "not ours")
    assert check.main([str(root)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "diaries: documents: 1; words: 1 to 1, median 1; with a group: 0",
        "diaries: note: fields not read: 'groups'",
        "letters: documents: 40; words: 0 to 18, median 18; with a group: 0",
        "letters: note: without text, left out: 1, such as 39",
        "letters: note: copies: 1, such as 38",
        "letters: note: files not read: 'document.jsonl'",
        "letters/mood: classification; documents: 24; sources: 0",
        "letters/mood: train: 18; classes: 3, such as 0 8, 1 8, odd 2",
        "letters/mood: note: classes in train alone: 1, such as odd",
        "letters/mood: validation: 2; classes: 2, such as 0 1, 1 1",
        "letters/mood: test: 4; classes: 2, such as 0 2, 1 2",
        "letters/mood: note: files not read: 'val.jsonl'",
        "letters/reply: retrieval; documents: 39; sources: 2",
    ]


def test_every_folder_and_task_with_an_error_is_named(folder, write, capsys):
    root = folder(**MOODS)
    write(root / "letters/tasks/mood/test.jsonl", {"id": "99", "label": 0})
    write(root / "diaries/documents.jsonl", "{")
    write(root / "letters/tasks/q", "notes")
    assert check.main([str(root)]) == 2
    errors = re.findall("^(.*): error: (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert [name for name, _ in errors] == ["diaries", "letters/mood", "letters/q"]
    assert "documents.jsonl:1: not JSON" in errors[0][1] and "test.jsonl:1: id '99'" in errors[1][1]
    for name, told in (("nowhere", "no such folder"), ("letters/tasks/reply", "no such folder")):
        assert check.main([str(root / name)]) == 2
        assert told in capsys.readouterr().err
