"""What is in a person's folder, what is wrong with it, and the sizes that follow."""

import pytest

from lib.data import check
from lib.experiments.bench import Bench


def halve(rows):
    return [{"id": n, "label": n % 2} for n in rows]


@pytest.fixture
def root(tmp_path, write):
    """Forty letters, every fourth in two copies; a task of 24."""
    rows = ({"id": n, "text": f"a letter of day {n - n % 4 // 3}"} for n in range(40))
    write(tmp_path / "root/letters/documents.jsonl", *rows)
    write(tmp_path / "root/letters/tasks/mood/train.jsonl", *halve(range(16)))
    write(tmp_path / "root/letters/tasks/mood/test.jsonl", *halve(range(16, 24)))
    events = ({"id": n, "label": n // 2} for n in range(24, 40))
    write(tmp_path / "root/letters/tasks/events/clusters.jsonl", *events)
    return tmp_path / "root"


def test_sizes_make_a_profile_whose_corpus_is_what_was_counted(root):
    for path in (root, root / "letters"):
        changes, told = check.suggested(path)
        bench = Bench.load("lab", overrides=changes)
        train, validation = bench.corpus.train, bench.corpus.validation
        assert bench.profile.training.documents == bench.profile.final.documents == len(train)
        assert list(bench.tasks) == ["letters/mood"], "a clustering's documents are trained on"
        assert f"train on {len(train)} of 40 documents" in told
        assert len(validation) == (kept := len(train) + len(validation)) // 5
        assert kept + sum(bench.corpus.left_out["letters"].values()) == 40


def test_tasks_are_named_or_none_and_some_documents_must_be_left(root, write):
    changes, told = check.suggested(root, [])
    assert not changes["tasks.folders"] and "judge by 0 tasks" in told
    assert changes["corpus.train_documents"] == 24
    with pytest.raises(ValueError, match="unknown task 'letters/moods'; nearest: letters/mood"):
        check.suggested(root, ["letters/moods"])
    write(root / "letters/tasks/mood/test.jsonl", *halve(range(6, 40)))
    write(root / "letters/tasks/mood/train.jsonl", *halve(range(6)))
    with pytest.raises(ValueError, match="5 of 40 documents can be trained on"):
        check.suggested(root)


def test_a_report_counts_what_is_there_and_goes_on_after_an_error(root, write, capsys):
    rows = [{"id": n, "text": f"{n}", "group": "NA"} for n in range(1100)]
    write(root / "diaries/documents.jsonl", *rows[:-1], rows[-1] | {"Label": 2, "group": "na"})
    write(root.parent / "linked/documents.jsonl", {"id": 1, "text": "a", "group": "na"})
    (root / "notes").symlink_to(root.parent / "linked", target_is_directory=True)
    (root / "diaries/more.txt").touch()
    write(root / "poems/texts.jsonl", *rows)
    assert check.main([str(root)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "diaries: 1100 documents, 1100 with a group",
        "diaries: note: the group NA counts like any other",
        "diaries: note: the groups NA and na are different ones",
        "diaries: note: fields that are not read: ['Label']",
        "letters: 40 documents, 0 with a group",
        "letters: note: 10 documents are blank or repeat others",
        "notes: 1 documents, 1 with a group",
        "letters/events: clustering of 16 documents, {'clusters': 16}",
        "letters/mood: classification of 24 documents, {'train': 16, 'test': 8}",
        "root: note: 1 groups are in several folders: each is one",
        "root: note: 2 files not read: ['diaries/more.txt', 'poems/texts.jsonl']",
    ]
    write(root / "letters/tasks/mood/test.jsonl", {"id": "99", "label": 0})
    write(root / "diaries/documents.jsonl", "{")
    write(root / "letters/tasks/q", "notes")
    assert check.main([str(root)]) == 2
    errors = [line for line in capsys.readouterr().out.splitlines() if ": error: " in line]
    places = ("cannot parse line 1", "test.jsonl:1: expected", "tasks/q: expected")
    assert all(place in line for place, line in zip(places, errors, strict=True))
    with pytest.raises(SystemExit, match="2"):
        check.main([str(root / "nowhere")])
