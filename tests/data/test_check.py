"""What is in a person's folder, what is wrong with it, and the sizes that follow."""

import re

import numpy as np
import pytest

from lib.config import profiles
from lib.data import check, corpus, sources, task_files
from lib.data.dataset_folder import Documents
from lib.data.examples import group_examples, make_folds

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


def run_check(capsys, path):
    code = check.main([str(path)])
    output = capsys.readouterr()
    return code, (output.out + output.err).splitlines()


def draw_suggested(path, tasks=None):
    """The profile `lab` with the suggested changes, its tasks and its corpus."""
    changes, told = check.suggested(path, tasks)
    profile = profiles.load("lab", overrides=changes)
    roots = sources.find_roots(profile.build, profile.data_roots, path)
    read = task_files.read_tasks(roots, profile.tasks)
    documents = [Documents(sources.find_dataset(roots, name)) for name in profile.corpus.names]
    held_out = task_files.held_out_contents(read)
    drawn = corpus.draw(profile.corpus, documents, held_out)
    return profile, read, corpus.Corpus.read(drawn, documents), told


def test_sizes_make_a_profile_whose_corpus_is_what_was_counted(folder):
    root = folder(**MOODS)
    for path in (root, root / "letters"):
        profile, _, drawn, told = draw_suggested(path)
        assert profile.training.documents == profile.final.documents == len(drawn.train)
        assert profile.student.language_model is None, "own documents are too few for one"
        assert profile.tasks.names == ("letters/mood",)
        reasons = drawn.left_out["letters"]
        counts = f"{reasons['in a test']} in tests, {reasons['copies']} without text or repeating"
        assert f"train on {len(drawn.train)} documents" in told and counts in told
        kept = len(drawn.train) + len(drawn.validation)
        assert len(drawn.validation) == kept // 5
        assert kept + reasons["in a test"] + reasons["copies"] == 40


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


def test_what_is_there_is_counted_and_noted(folder, capsys):
    texts = [LETTER.format(n) for n in range(20)]
    code, lines = run_check(capsys, folder([*texts, texts[0], "", "word " * 5000, "a \u200b"]))
    text = "\n".join(lines)
    assert code == 0 and "24 documents of 0 to 5000 words, half of them up to 18" in text
    assert "letters: note: 1 document without text, left out: 21\n" in text
    assert "letters: note: 1 document with the text of an earlier one, taken once: 20\n" in text
    assert "letters: note: 1 document of one word, so without halves to judge by: 23\n" in text
    assert re.search(r"note: 1 document longer than some \d+ words, .*: 22\n", text)
    assert "suggested: train on 18 documents, hold out 4 " in text
    embedded = "\n".join(check.findings(folder(texts), training=False))
    assert "longer" not in embedded


def halves(rows):
    return [(n, n % 2) for n in rows]


# What `check` refuses, and what it lets pass: texts, groups and splits.
FOLDERS = {
    "no task": ({}, ""),
    "a task": (MOODS, ""),
    "folds": ({"train": halves(range(16))}, ""),
    "a rare class in folds": ({"train": [(n, "rare" if n < 3 else n % 2) for n in range(20)]}, ""),
    "six groups": ({"groups": [n % 6 for n in range(40)], "train": halves(range(20))}, ""),
    "one text": ({"texts": ["the same"] * 20}, "1 of 20 .*: 19 without text or repeating"),
    "all in folds": (
        {"train": halves(range(40))},
        r"0 of 40 documents can be trained on, .* 40 in tests\): give the task a small test",
    ),
    "a class of one": (
        {"train": [(n, min(n, 1)) for n in range(16)], "test": [(20, 0)]},
        "add validation.jsonl",
    ),
    "an unknown document": ({"train": halves(range(16)), "test": [("x", 0)]}, "id 'x' is no"),
    "one group": ({"groups": ["all"] * 40, "train": halves(range(20))}, "fewer .* 1 for 5"),
    "a class in one group": (
        {"groups": [n % 5 for n in range(40)], "train": [(n, int(n % 5 == 0)) for n in range(20)]},
        "only one class",
    ),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_what_passes_can_be_drawn_and_judged_and_the_rest_is_one_line(folder, capsys, case):
    options, message = FOLDERS[case]
    root = folder(**options)
    code, lines = run_check(capsys, root)
    if message:
        with pytest.raises(ValueError, match=message) as error:
            check.suggested(root)
        assert "\n" not in str(error.value)
        assert code == 2 and len([line for line in lines if re.search(message, line)]) == 1
        return
    assert code == 0 and not [line for line in lines if ": error: " in line]
    profile, tasks, drawn, _ = draw_suggested(root)
    assert len(drawn.train) == profile.training.documents
    tested = {task.texts[text_id] for task in tasks.values() for text_id in task.held_out()}
    assert tested.isdisjoint(document.text for document in drawn.train)
    for task in tasks.values():
        if task.folds:
            groups = group_examples(task, "train")
            for train, test in make_folds(task.labels["train"], task.folds, groups):
                assert len(test) and len(np.unique(task.labels["train"][train])) > 1


def test_errors_and_notes_of_each_file(folder, write, capsys):
    root = folder(**MOODS)
    diaries = [{"id": 1, "text": "a"}, {"id": 2, "groups": "", "text": "b"}]
    write(root / "diaries/documents.jsonl", *diaries)
    mood = root / "letters/tasks/mood"
    odd = [{"id": n, "label": n % 2, "weight": 1} for n in range(16)]
    write(mood / "train.jsonl", *odd, {"id": 24, "label": "odd"}, {"id": 25, "label": "odd"})
    write(mood / "validation.jsonl", {"id": 26, "label": 0}, {"id": 28, "label": 1})
    write(root / "letters/tasks/reply/relevant.json", {"0": ["1"], "2": ["5"]})
    unread = ("memo/document.jsonl", "letters/document.jsonl", "letters/documents/a.jsonl")
    for place in (*unread, "letters/tasks/mood/val.jsonl", ".DS_Store", "letters/.git/config"):
        write(root / place, "not ours")
    code, lines = run_check(capsys, root)
    assert code == 0
    assert {line for line in lines if "not read" in line or " alone" in line} == {
        "root: note: not read: without documents 'memo'",
        "diaries: note: not read: fields 'groups'",
        "letters: note: not read: files 'document.jsonl'",
        "letters: note: not read: files 'a.jsonl'",
        "letters/mood: note: not read: files 'val.jsonl'",
        "letters/mood: note: not read: fields 'weight'",
        "letters/mood: note: 1 class in train alone: 'odd'",
    }
    assert "letters/reply: retrieval of 40 documents, 2 sources" in lines
    write(mood / "test.jsonl", {"id": "99", "label": 0})
    write(root / "diaries/documents.jsonl", "{")
    write(root / "letters/tasks/q", "notes")
    code, lines = run_check(capsys, root)
    errors = [line for line in lines if ": error: " in line]
    named = [line.split(":")[0] for line in errors]
    assert code == 2 and named == ["diaries", "letters/mood", "letters/q"]
    assert "documents.jsonl:1: not JSON" in errors[0] and "test.jsonl:1: id '99'" in errors[1]
    assert errors[2].endswith("found none of them")
    assert lines[-1] == "suggested: first fix the errors"
    for name, told in (("nowhere", "no such folder"), ("letters/tasks/reply", "no documents.js")):
        code, lines = run_check(capsys, root / name)
        assert code == 2 and len(lines) == 1 and told in lines[0]
