"""A profile of a person's own: two folders, own names, one classification task; no Wikipedia, no news, no roles."""

import numpy as np
import pytest

from lib import tasks
from lib.data import check, sources
from lib.experiments import accuracies, runs, text_sets


@pytest.fixture
def profile(tmp_path, monkeypatch, write, own):
    monkeypatch.setenv("THESIS_DATA", str(tmp_path))
    moods = ("glad", "sad")
    rows = (
        {"id": n, "text": f"{moods[n % 2]} letter {n}", "group": f"writer {n // 4}"}
        for n in range(80)
    )
    write(tmp_path / "letters/documents.jsonl", *rows)
    write(
        tmp_path / "diaries/documents.jsonl", *({"id": n, "text": f"diary {n}"} for n in range(40))
    )
    write(
        tmp_path / "letters/tasks/mood/train.jsonl",
        *({"id": n, "label": moods[n % 2]} for n in range(40)),
    )
    write(
        tmp_path / "letters/tasks/mood/test.jsonl",
        *({"id": n, "label": moods[n % 2]} for n in range(40, 60)),
    )
    return own(["letters", "diaries"], {"mood": "letters/mood"})


def test_corpus_and_tasks_are_there_under_their_own_names(profile):
    documents = text_sets.corpus(profile)
    assert {d.source for d in documents.train} == {"letters", "diaries"} and len(
        documents.train
    ) == 24
    assert tasks.classification_names(profile) == ("mood",) and tasks.retrieval_names(profile) == ()
    arrays = text_sets.task("mood", profile)
    assert arrays["classes"].tolist() == ["glad", "sad"] and set(
        np.bincount(arrays["labels_test"])
    ) == {10}
    texts = text_sets.texts("all_tasks", profile)
    assert len(texts) == 60 and len(text_sets.texts("tasks", profile)) == 40
    assert not {d.text for d in documents.train} & {
        texts[row] for row in arrays["inputs_test"][:, 0]
    }
    writers = [
        {text_sets.texts("all_tasks", profile)[row] for row in arrays[f"inputs_{s}"][:, 0]}
        for s in ("train", "validation")
    ]
    writers = [{int(text.split()[-1]) // 4 for text in texts} for texts in writers]
    assert all(writers) and not writers[0] & writers[1], (
        "validation taken from train cuts no writer's letters"
    )


def test_runs_take_the_profiles_tasks(profile, monkeypatch):
    """S4: with fixed names a profile without PAN died after 24 minutes."""
    asked = []
    monkeypatch.setattr(runs, "embed", lambda *rest: None)
    monkeypatch.setattr(
        runs.keys,
        "record",
        lambda variant, seed, task, *rest: asked.append(task) or {"kind": "records"},
    )
    monkeypatch.setattr(runs, "_evaluate", lambda *rest: None)
    with pytest.raises(LookupError):  # nothing was evaluated
        runs.run(["SBERT"], profile=profile, seeds=[0])
    assert asked == ["mood"]
    assert runs.retrieve(["SBERT"], profile=profile, seeds=[0]).empty


def test_without_a_classification_there_is_nothing_to_train_heads_on(
    profile, own, tmp_path, write, monkeypatch
):
    write(tmp_path / "letters/tasks/pairs/relevant.json", {"0": ["1"]})
    alone = own(["diaries"], {"pairs": "letters/pairs"})
    monkeypatch.setattr(runs, "embed", lambda *rest: None)
    with pytest.raises(
        ValueError, match="tasks.folders names no classification .* `retrieve` judges by retrievals"
    ):
        runs.run(["SBERT"], profile=alone, seeds=[0])


def test_folds_of_a_task_with_groups_cut_none(profile, own):
    folded = own(["diaries"], {"mood": {"folder": "letters/mood", "folds": 4}})
    arrays = text_sets.task("mood", folded)
    assert int(arrays["folds"]) == 4 and arrays["groups_train"].tolist() == [
        n // 4 for n in range(40)
    ]
    parts = accuracies._parts(arrays, "validation", 10_000, None)[2]
    for train, test in parts:
        assert not set(arrays["groups_train"][train]) & set(arrays["groups_train"][test])
    assert sorted(np.concatenate([test for _, test in parts]).tolist()) == list(range(40))


def test_a_role_of_the_thesis_needs_its_kind(profile, own):
    with pytest.raises(
        ValueError, match="tasks.folders.WINES is a classification task, and WINES is a retrieval"
    ):
        tasks.read(own(["diaries"], {"WINES": "letters/mood"}))


def test_the_content_names_the_files_and_a_readme_does_not_count(profile, tmp_path, write):
    def named():
        return sources.fingerprint(profile, sources.corpus_datasets(profile))

    first = named()
    (tmp_path / "letters/README.md").write_text("mine")
    write(tmp_path / "letters/tasks/other/train.jsonl", {"id": 1, "label": "new"})
    assert named() == first, "a task that no profile names"
    (tmp_path / "letters/tasks/mood/validation.jsonl").touch()
    assert named() != first, "a task that this one names"
    (tmp_path / "letters/tasks/mood/validation.jsonl").unlink()
    assert named() == first
    write(
        tmp_path / "diaries/documents.jsonl", *({"id": n, "text": f"diary {n}!"} for n in range(40))
    )
    assert named() != first and sources.task_datasets(profile) == {"letters"}


def test_the_check_lists_what_is_there_and_finds_errors(profile, tmp_path, capsys, write):
    assert check.main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == [
        "diaries: 40 documents of 2 to 2 words, half of them up to 2; 0 with a group",
        "letters: 80 documents of 3 to 3 words, half of them up to 3; 80 with a group",
    ]
    assert "letters/mood: test: 20 examples, 2 classes: glad 10, sad 10" in printed
    write(tmp_path / "letters/tasks/mood/test.jsonl", {"id": "99", "label": "glad"})
    write(
        tmp_path / "diaries/documents.jsonl",
        {"id": 1, "text": ""},
        {"id": 2, "text": "a b"},
        {"id": 3, "text": "a  b"},
    )
    assert check.main([str(tmp_path)]) == 2
    printed = capsys.readouterr().out
    assert "letters/mood: error: " in printed and "test.jsonl:1: id '99' is no document" in printed
    assert "diaries: note: 1 document without text, left out: 1\n" in printed
    assert "diaries: note: 1 document with the text of an earlier one, taken once: 3\n" in printed
    write(tmp_path / "letters/documents.jsonl", "{")
    assert (
        check.main([str(tmp_path / "letters")]) == 2
        and capsys.readouterr().out.count("error: ") == 1
    )
    write(tmp_path / "diaries/documents.jsonl", "{")
    assert (
        check.main([str(tmp_path / "diaries")]) == 2
        and "documents.jsonl:1: not JSON" in capsys.readouterr().out
    )
    (tmp_path / "nothing").mkdir()
    for path, told in (("nowhere", "no such folder"), ("nothing", "neither a dataset folder nor")):
        assert check.main([str(tmp_path / path)]) == 2 and told in capsys.readouterr().err


def test_the_check_names_what_is_not_read_and_what_one_split_alone_has(
    profile, tmp_path, capsys, write
):
    assert check.main([str(tmp_path)]) == 0 and "not read" not in capsys.readouterr().out
    write(
        tmp_path / "diaries/documents.jsonl",
        {"id": 1, "text": "a"},
        {"id": 2, "text": "b", "groups": "b"},
    )
    write(tmp_path / "diaries/task/notes", "mine")
    mood = tmp_path / "letters/tasks/mood"
    write(mood / "val.jsonl", {"id": 1, "label": "glad"})
    write(
        mood / "train.jsonl",
        *({"id": n, "label": ["glad", "sad", "odd"][min(n % 30, 2)]} for n in range(40)),
    )
    write(mood / "validation.jsonl", *({"id": n, "label": "glad"} for n in range(60, 64)))
    write(tmp_path / "letters/tasks/reply/relevant.json", {"0": ["1"], "2": ["3"]})
    (tmp_path / "letters/tasks/reply/relevance.json").touch()
    assert check.main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert {line for line in printed if "not read" in line or " alone" in line} == {
        "diaries: note: field 'groups' is not read; nearest: group",
        "diaries: note: 'task' is not read; nearest: tasks",
        "letters/mood: note: 'val.jsonl' is not read; nearest: validation.jsonl",
        "letters/mood: note: 1 class in train alone: odd",
        "letters/reply: note: 'relevance.json' is not read; nearest: relevant.json",
    }
    assert "letters/reply: retrieval of 80 documents, 2 sources" in printed
    (mood / "train.jsonl").rename(mood / "train.csv")
    assert check.main([str(tmp_path)]) == 2, "what cannot be read has its notes too"
    assert (
        "letters/mood: note: 'train.csv' is not read; nearest: train.jsonl"
        in capsys.readouterr().out.splitlines()
    )
