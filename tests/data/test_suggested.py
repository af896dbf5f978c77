"""Sizes that follow from a person's folder, and what must be said of it: one line, or a counted note."""

import json
import re
import subprocess
import sys

import pytest

from lib.config import paths, profiles
from lib.data import check
from lib.experiments import text_sets

ENGLISH = "the court of the town and the people in it were heard on the second day by a judge who had been there {}"
CZECH = "soud ve městě a lidé v něm byli druhého rána vyslechnuti soudcem který tam už předtím několikrát byl a odešel {}"


@pytest.fixture
def folder(tmp_path, write):
    """Forty letters, every fourth in two copies; a task tested on eight of them."""

    def make(texts=None, **splits):
        texts = texts or [ENGLISH.format(n - n % 4 // 3) for n in range(40)]
        write(
            tmp_path / "root/letters/documents.jsonl",
            *({"id": n, "text": text} for n, text in enumerate(texts)),
        )
        for split, rows in splits.items():
            labelled = ({"id": name, "label": label} for name, label in rows)
            write(tmp_path / f"root/letters/tasks/mood/{split}.jsonl", *labelled)
        return tmp_path / "root"

    return make


MOODS = {"train": [(n, n % 2) for n in range(16)], "test": [(n, n % 2) for n in range(16, 24)]}


def printed(capsys, path):
    code = check.main([str(path)])
    output = capsys.readouterr()
    return code, output.out + output.err


def test_sizes_make_a_profile_whose_corpus_is_what_was_counted(folder, monkeypatch):
    monkeypatch.delenv("THESIS_DATA", raising=False)
    root = folder(**MOODS)
    for path in (root, root / "letters"):
        changes, told, size = check.suggested(path)
        profile = profiles.load("lab", overrides=changes)
        corpus = text_sets.corpus(profile)
        # 30 different texts, of which the test has 6 and validation, taken from train, at least 2
        held_out = len(
            {
                text
                for task in [text_sets.task("letters/mood", profile)]
                for text in [*task["inputs_validation"].ravel()]
            }
        )
        assert len(corpus.train) + len(corpus.validation) == 30 - 6 - held_out
        assert len(corpus.validation) == (24 - held_out) // 5
        assert profile.training.documents == profile.final.documents == len(corpus.train)
        assert profile.tasks.names == ("letters/mood",) and size > 3e8
        sizes = f"train on {len(corpus.train)} documents, hold out {len(corpus.validation)}"
        reasons = corpus.left_out["letters"]
        told_of = f"{reasons['in a test']} in tests, {reasons['copies']} without text or repeating another"
        assert told.startswith(
            f"{sizes} (left out: {told_of}), judge by 1 task: some 1 minute of a core, "
        )
        assert (
            len(corpus.train) + len(corpus.validation) + reasons["in a test"] + reasons["copies"]
            == 40
        )


def test_tasks_are_named_or_none(folder):
    root = folder(**MOODS)
    assert check.suggested(root, [])[0]["tasks.folders"] == {}
    assert check.suggested(root, [])[0]["corpus.train_documents"] == 24
    assert [*check.suggested(root, ["letters/mood"])[0]["tasks.folders"]] == ["letters/mood"]
    with pytest.raises(ValueError, match="unknown task 'letters/moods'; nearest: letters/mood"):
        check.suggested(root, ["letters/moods"])


def test_a_profile_without_tasks_has_texts_to_train_on(folder):
    profile = profiles.load("lab", overrides=check.suggested(folder(), [])[0])
    assert profile.tasks.names == () and len(text_sets.texts("halves", profile)) == 12


def test_long_documents_are_fewer_and_cost_more(folder):
    short = check.suggested(folder())
    long = check.suggested(folder([f"{n} " + "word " * 900_000 for n in range(12)]))  # 4.5 MB each
    assert long[0]["training.documents"] == 10 and long[2] > short[2]
    many = check.suggested(folder([f"{n} " + "word " * 2999 for n in range(500)]))
    assert many[0]["training.documents"] == 333, "a million words"
    assert many[1].startswith(
        "train on 333 documents, hold out 100 (left out: 67 beyond 1,000,000 words), judge by"
    )
    assert (
        int(many[1].split("some ")[1].split()[0]) > 10 > int(short[1].split("some ")[1].split()[0])
    )


def test_what_is_there_is_counted_and_noted(folder, capsys):
    texts = [ENGLISH.format(n) for n in range(20)] + [CZECH.format(n) for n in range(3)]
    code, lines = printed(capsys, folder([*texts, texts[0], "", "word " * 4000]))
    assert (
        code == 0
        and "26 documents of 0 to 4000 words, half of them up to 24; 0 with a group" in lines
    )
    assert (
        "letters: note: 1 document without text, left out: 24\n" in lines
        and "letters: note: 1 document with the text of" in lines
    )
    assert (
        "letters: note: 1 document longer than some 3000 words, where a student of `lab` stops reading: 25\n"
        in lines
    )
    told = "letters: note: 4 documents with hardly a word like 'the'; `lab` knows English alone: 20, 21, 22\n"
    assert told in lines, "Czech, and the one word; the first three ids"
    left_out = "(left out: 2 without text or repeating another)"
    assert f"suggested: train on 20 documents, hold out 4 {left_out}, judge by 0 tasks" in lines


@pytest.mark.parametrize(
    ("texts", "splits", "message"),
    [
        (["only one text"], {}, r"1 of 1 documents can be trained on, expected 8 \(left out: none\)$"),
        ([" "] * 20, {}, "0 of 20 documents can be trained on, expected 8"),
        (["the same"] * 20, {}, r"1 of 20 documents can be trained on, .*: 19 without text or repeating another\)$"),
        (
            None,
            {"train": [(n, n % 2) for n in range(40)]},
            r"0 of 40 documents can be trained on, expected 8 \(left out: 40 in tests\): "
            r"give the task a small test.jsonl, or judge by others \(`--task <names>`\) or without labels \(",
        ),
        (None, {"train": [(n, "glad") for n in range(16)], "test": [(20, "glad")]}, "expected at least two classes"),
        (
            None,
            {"train": [(n, min(n, 1)) for n in range(16)], "test": [(20, 0)]},
            "add validation.jsonl, or label a second example where a class has one$",
        ),
        (None, {"train": [(n, n) for n in range(16)], "test": [(20, 20)]}, "label '20' does not occur in train.jsonl"),
        (None, {"train": [(n, n % 2) for n in range(16)], "test": [("x", 0)]}, "id 'x' is no document of this folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_on_is_one_line(folder, capsys, texts, splits, message):
    root = folder(texts, **splits)
    with pytest.raises(ValueError, match=message) as error:
        check.suggested(root)
    assert "\n" not in str(error.value)
    code, lines = printed(capsys, root)
    start = "suggested: nothing, " if "can be trained on" in message else "letters/mood: error: "
    assert code == 2
    assert (
        sum(
            bool(line.startswith(start) and re.search(message, line)) for line in lines.splitlines()
        )
        == 1
    )


def test_a_folder_without_documents_is_one_line(tmp_path):
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/mine.txt").write_text(json.dumps({"text": "a"}))
    with pytest.raises(ValueError, match="expected one of documents.jsonl"):
        check.suggested(tmp_path)
    with pytest.raises(
        ValueError, match=r"neither a dataset folder nor a folder of them: .*\(see README\)"
    ):
        check.suggested(tmp_path / "documents")


def test_minutes_are_those_of_a_run_that_was_measured(folder):
    """250 film reviews of 200 words, a task with 60 to train on and 60 to test: 110 s of a core, imports included."""
    labels = {
        "train": [(n, n % 2) for n in range(60)],
        "test": [(n, n % 2) for n in range(60, 120)],
    }
    told = check.suggested(folder([f"{n} " + "word " * 199 for n in range(250)], **labels))[1]
    assert ": some 2 minutes of a core" in told
    # What a student does not read the teacher's chunks do: 27,000 words more of 120 texts of the task, and once more of
    # the 60 that are tested and the 38 held out.
    minutes = []
    for count in (3000, 30_000):
        told = check.suggested(
            folder([f"{n} " + "word " * (count - 1) for n in range(250)], **labels)
        )[1]
        minutes.append(int(re.search(r"some (\d+) minutes", told)[1]))
    assert minutes[1] - minutes[0] == pytest.approx(1.35 * 27_000 * 218 / 3000 / 60, abs=1)


def test_train_alone_is_tested_by_folds_and_small_classes_are_named(folder, capsys):
    root = folder(**{"train": [(n, "rare" if n < 3 else n % 2) for n in range(20)]})
    code, lines = printed(capsys, root)
    assert (
        code == 0
        and "letters/mood: classification of 20 documents: no test.jsonl, so five folds of train serve"
        in lines
    )
    assert (
        "letters/mood: note: 1 class with fewer examples than folds: rare\n" in lines
        and "in the profile" not in lines
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(n, f"kind {n}") for n in range(20)], "the smallest class, 'kind 0', has 1 example:"),
        ([(n, n % 4) for n in range(11)], "the smallest class, '3', has 2 examples:"),
    ],
)
def test_classes_that_are_too_small_for_folds_are_said_before_training(
    folder, write, capsys, rows, message
):
    """As scikit-learn would say after it; one class of five is enough for it. The other task goes on by its name."""
    root = folder(train=rows)
    good = ({"id": n, "label": n % 2} for n in range(20, 32))
    write(root / "letters/tasks/good/train.jsonl", *good)
    code, lines = printed(capsys, root)
    start = f"suggested: nothing, letters/mood: no class has 5 examples, one for each fold, {message} give the task a small"
    assert (
        code == 2
        and start in lines
        and "judge by others (`--task <names>`) or without labels (`--task` alone)" in lines
    )
    assert [*check.suggested(root, ["letters/good"])[0]["tasks.folders"]] == ["letters/good"]
    assert check.suggested(root, [])[0]["tasks.folders"] == {}
    write(
        root / "letters/tasks/mood/train.jsonl", *({"id": n, "label": max(n, 4)} for n in range(12))
    )
    assert ", judge by 2 tasks: " in check.suggested(root)[1]


def test_a_clustering_is_left_out_and_its_documents_are_trained_on(folder, write, capsys):
    root = folder(**MOODS)
    alone = check.suggested(root)
    write(
        root / "letters/tasks/events/clusters.jsonl",
        *({"id": n, "label": n % 3} for n in range(24, 40)),
    )
    changes, told, _ = check.suggested(root)
    assert changes == alone[0] and told == alone[1].replace(
        "1 task", "1 task, not the clustering letters/events"
    )
    named = check.suggested(root, ["letters/events"])
    assert (
        named[0]["tasks.folders"] == {}
        and "judge by 0 tasks, not the clustering letters/events: " in named[1]
    )


def test_a_task_that_needs_a_document_without_text_says_what_it_leaves_out(folder, capsys):
    texts = [ENGLISH.format(n) if n != 5 else " " for n in range(40)]
    code, lines = printed(capsys, folder(texts, **MOODS))
    assert (
        code == 0
        and "letters/mood: note: train.jsonl: 1 examples left out: a document without text\n"
        in lines
    )


@pytest.mark.parametrize("module", ["lib.data.check", "lib.train"])
def test_a_python_without_the_packages_is_one_line(module, tmp_path):
    command = [sys.executable, "-S", "-m", module, "cosine", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)
    assert (
        done.returncode == 1
        and done.stderr.startswith("No module named ")
        and done.stderr.count("\n") == 1
    )
    assert "run ./run_all.sh --setup once, then . .venv/bin/activate" in done.stderr
