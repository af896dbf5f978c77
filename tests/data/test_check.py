"""What is in a person's folder, what is wrong with it, and the sizes that follow."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from lib.config import paths, profiles
from lib.data import check, corpus, sources, task_files
from lib.data.builders.mini import gensim_files
from lib.data.dataset_folder import Documents

ENGLISH = (
    "the court of the town and the people in it were heard on the second day by a judge "
    "who had been there {}"
)
CZECH = (
    "soud ve městě a lidé v něm byli druhého rána vyslechnuti soudcem který tam už předtím "
    "několikrát byl a odešel {}"
)
MOODS = {"train": [(n, n % 2) for n in range(16)], "test": [(n, n % 2) for n in range(16, 24)]}


@pytest.fixture
def folder(tmp_path, write):
    """Forty letters, every fourth in two copies; a task with the splits that are given."""

    def make(texts=None, **splits):
        texts = texts or [ENGLISH.format(n - n % 4 // 3) for n in range(40)]
        documents = ({"id": n, "text": text} for n, text in enumerate(texts))
        write(tmp_path / "root/letters/documents.jsonl", *documents)
        for split, rows in splits.items():
            labelled = ({"id": name, "label": label} for name, label in rows)
            write(tmp_path / f"root/letters/tasks/mood/{split}.jsonl", *labelled)
        return tmp_path / "root"

    return make


def run_check(capsys, path):
    code = check.main([str(path)])
    output = capsys.readouterr()
    return code, (output.out + output.err).splitlines()


def read_minutes(told):
    return int(re.search(r"some (\d+) minute", told)[1])


def test_sizes_make_a_profile_whose_corpus_is_what_was_counted(folder):
    root = folder(**MOODS)
    for path in (root, root / "letters"):
        changes, told, size = check.suggested(path)
        profile = profiles.load("lab", overrides=changes)
        roots = sources.find_roots(profile.build, profile.data_roots, path)
        tasks = task_files.read_tasks(roots, profile.tasks)
        documents = [Documents(sources.find_dataset(roots, name)) for name in profile.corpus.names]
        held_out = task_files.held_out_contents(tasks)
        drawn = corpus.Corpus.read(corpus.draw(profile.corpus, documents, held_out), documents)
        # Of 30 different texts the test has 6, and validation, taken from train, at least 2.
        validation = {*np.ravel(tasks["letters/mood"].inputs["validation"])}
        assert len(drawn.train) + len(drawn.validation) == 30 - 6 - len(validation)
        assert len(drawn.validation) == (24 - len(validation)) // 5
        assert profile.training.documents == profile.final.documents == len(drawn.train)
        assert profile.student.language_model is None, "own documents are too few for one"
        assert profile.tasks.names == ("letters/mood",) and size > 3e8
        reasons = drawn.left_out["letters"]
        counts = f"{reasons['in a test']} in tests, {reasons['copies']} without text or repeating"
        assert f"train on {len(drawn.train)} documents" in told and counts in told
        kept = len(drawn.train) + len(drawn.validation)
        assert kept + reasons["in a test"] + reasons["copies"] == 40


def test_tasks_are_named_or_none(folder):
    root = folder(**MOODS)
    assert check.suggested(root, [])[0]["tasks.folders"] == {}
    assert check.suggested(root, [])[0]["corpus.train_documents"] == 24
    assert [*check.suggested(root, ["letters/mood"])[0]["tasks.folders"]] == ["letters/mood"]
    with pytest.raises(ValueError, match="unknown task 'letters/moods'; nearest: letters/mood"):
        check.suggested(root, ["letters/moods"])


def test_long_documents_are_fewer_and_cost_more(folder):
    short = check.suggested(folder())
    many = check.suggested(folder([f"{n} " + "word " * 2999 for n in range(600)]))
    trained = many[0]["training.documents"]
    assert trained == pytest.approx(450, abs=1), "of 3,000 tokens each"
    assert f"(left out: {500 - trained} beyond " in many[1] and many[2] > short[2]
    minutes = [read_minutes(told) for told in (short[1], many[1])]
    assert minutes[0] < 10 < minutes[1]


def test_minutes_are_those_of_a_run_that_was_measured(folder):
    """250 film reviews of 200 words, a task of 60 and 60: 110 s of a core, imports included."""
    labels = {"train": [(n, n % 2) for n in range(60)]}
    labels["test"] = [(n, n % 2) for n in range(60, 120)]
    four = "word word word, "  # tokens; reviews have as many for three words
    told = check.suggested(folder([f"{n} " + four * 66 for n in range(250)], **labels))[1]
    assert ": some 2 minutes of a core" in told
    # Where a student stops reading, the teacher's chunks go on: 12,000 tokens more of 120 texts of
    # the task, and once more of the 60 that are tested and the 38 held out.
    texts = ([f"{n} " + four * count for n in range(250)] for count in (1024, 4024))
    minutes = [read_minutes(check.suggested(folder(each, **labels))[1]) for each in texts]
    assert minutes[1] - minutes[0] == pytest.approx(12_000 * 218 / 3000 / 60, abs=1)


SCRIPTS = {
    "English": "the court of the town and the people in it were heard, on the second day. ",
    "German": "Die Donaudampfschifffahrtsgesellschaft wurde im Jahr gegründet und bestand lange. ",
    "Korean": "서울특별시는 대한민국의 수도이자 최대 도시이다. ",
    "Chinese": "北京市政府今天宣布新的交通计划。将在明年开始实施。",
    "Japanese": "東京は日本の首都であり、世界最大級の都市である。カタカナもある。",
    "Tibetan": "བོད་ཀྱི་སྐད་ཡིག་ནི་བོད་མི་རིགས་ཀྱི་སྐད་",
    "Thai": "กรุงเทพมหานคร เป็นเมืองหลวงและนคร ที่มีประชากรมากที่สุดของประเทศไทย ",
    "addresses": "https://www.example.com/articles/2023/1/some-long-title?source=feed&id=0.123 ",
    "base64": "aGVsbG8gd29ybGQ/IHRoaXMgaXMgYSB0ZXN0+IG9mIGJhc2U2NA/",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_any_script_costs_what_its_tokens_cost(folder, script):
    """Three thousand tokens cost as much in any script, though words are one or thousands."""
    tokenizer = gensim_files.tokenizer()
    unit = SCRIPTS[script]
    repeats = round(3000 / (len(tokenizer.encode(unit * 50, add_special_tokens=False)) / 50))
    texts = [f"{n} {unit * repeats}" for n in range(160)]
    expected = 30 + 6 * 3000 * 160 / check.EMBEDDED
    minutes = read_minutes(check.suggested(folder(texts))[1])
    assert minutes == pytest.approx(expected / 60, rel=0.2)


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name != "English"])
def test_the_note_on_the_language_comes_in_any_script(folder, capsys, script):
    text = SCRIPTS[script] * 30
    code, lines = run_check(capsys, folder([f"{text} {n}" for n in range(20)]))
    (note,) = (line for line in lines if "hardly a word" in line)
    assert code == 0 and "note: 20 documents" in note


def test_what_is_there_is_counted_and_noted(folder, capsys):
    texts = [ENGLISH.format(n) for n in range(20)] + [CZECH.format(n) for n in range(3)]
    code, lines = run_check(capsys, folder([*texts, texts[0], "", "word " * 4000, "a \u200b"]))
    text = "\n".join(lines)
    assert code == 0 and "27 documents of 0 to 4000 words, half of them up to 24" in text
    assert "letters: note: 1 document without text, left out: 24\n" in text
    assert "letters: note: 1 document with the text of an earlier one, taken once: 23\n" in text
    assert re.search(r"note: 1 document longer than some \d+ words, .*: 25\n", text)
    assert re.search(r"note: 4 documents with hardly a word like .*: 20, 21, 22\n", text)
    assert "suggested: train on 20 documents, hold out 5 " in text
    assert "letters: note: 1 document of one word, so without halves to judge by: 26\n" in text


@pytest.mark.parametrize(
    ("texts", "splits", "message"),
    [
        (["one text"], {}, r"1 of 1 documents can be trained on, expected 8 \(left out: none\)$"),
        ([" "] * 20, {}, "0 of 20 documents can be trained on, expected 8"),
        (["the same"] * 20, {}, r"1 of 20 documents can be trained on, .*: 19 without text or"),
        (
            None,
            {"train": [(n, n % 2) for n in range(40)]},
            r"0 of 40 documents can be trained on, .* 40 in tests\): give the task a small test",
        ),
        (
            None,
            {"train": [(n, n % 4) for n in range(11)]},
            "no class has 5 examples, one for each fold, the smallest class, '3', has 2 examples:",
        ),
        (
            None,
            {"train": [(n, "glad") for n in range(16)], "test": [(20, "glad")]},
            "expected at least two classes",
        ),
        (
            None,
            {"train": [(n, min(n, 1)) for n in range(16)], "test": [(20, 0)]},
            "add validation.jsonl, or label a second example where a class has one$",
        ),
        (
            None,
            {"train": [(n, n % 2) for n in range(16)], "test": [("x", 0)]},
            "id 'x' is no document of this folder",
        ),
    ],
)
def test_what_cannot_be_trained_on_is_one_line(folder, capsys, texts, splits, message):
    root = folder(texts, **splits)
    with pytest.raises(ValueError, match=message) as error:
        check.suggested(root)
    assert "\n" not in str(error.value)
    code, lines = run_check(capsys, root)
    assert code == 2 and len([line for line in lines if re.search(message, line)]) == 1


GROUPED = {
    "one group": (lambda n: "all", lambda n: n % 2, "fewer groups than folds, 1 for 5"),
    "four groups": (lambda n: n % 4, lambda n: n % 2, "fewer groups than folds, 4 for 5"),
    "a class in one group": (lambda n: n % 5, lambda n: int(n % 5 == 0), "only one class"),
    "six groups": (lambda n: n % 6, lambda n: n % 2, None),
    "some have none": (lambda n: n % 2 or None, lambda n: n // 2 % 2, None),
}


@pytest.mark.parametrize("case", GROUPED)
def test_folds_that_cannot_be_made_are_said_and_others_can_be_judged(write, tmp_path, capsys, case):
    """Folds never cut a group; what is passed here must be judged by every classifier later."""
    group, label, message = GROUPED[case]
    rows = [{"id": n, "text": ENGLISH.format(n), "group": group(n)} for n in range(60)]
    write(tmp_path / "notes/documents.jsonl", *rows)
    labels = [{"id": n, "label": label(n)} for n in range(30)]
    write(tmp_path / "notes/tasks/kind/train.jsonl", *labels)
    code, lines = run_check(capsys, tmp_path / "notes")
    if message:
        assert code == 2 and message in lines[-1] and "notes/kind" in lines[-1]
        assert check.suggested(tmp_path / "notes", [])[0]["tasks.folders"] == {}
        return
    assert code == 0
    task = task_files.read_task(tmp_path / "notes/tasks/kind", folds=5, seed=42)
    for train, test in task_files.make_folds(task.labels["train"], 5, task.example_groups("train")):
        assert len(test) and len(np.unique(task.labels["train"][train])) == 2


def test_one_large_class_is_enough_for_folds_and_small_ones_are_named(folder, write, capsys):
    root = folder(train=[(n, "rare" if n < 3 else n % 2) for n in range(20)])
    code, lines = run_check(capsys, root)
    assert code == 0
    assert "letters/mood: note: 1 class with fewer examples than folds: rare" in lines
    folds = "no test.jsonl, so five folds of train serve"
    assert f"letters/mood: classification of 20 documents: {folds}" in lines


def test_a_clustering_is_left_out_and_its_documents_are_trained_on(folder, write):
    root = folder(**MOODS)
    alone = check.suggested(root)
    events = ({"id": n, "label": n // 2} for n in range(24, 40))
    write(root / "letters/tasks/events/clusters.jsonl", *events)
    changes, told, _ = check.suggested(root)
    assert changes == alone[0] and "not the clustering letters/events" in told
    named = check.suggested(root, ["letters/events"])
    assert named[0]["tasks.folders"] == {} and "judge by 0 tasks, not" in named[1]


def test_errors_and_notes_of_each_file(tmp_path, folder, write, capsys):
    root = folder(**MOODS)
    diaries = [{"id": 1, "text": "a"}, {"id": 2, "groups": "", "text": "b"}]
    write(root / "diaries/documents.jsonl", *diaries)
    write(root / "diaries/task/notes", "mine")
    mood = root / "letters/tasks/mood"
    write(mood / "val.jsonl", {"id": 1, "label": 0})
    odd = [{"id": n, "label": n % 2} for n in range(16)]
    write(mood / "train.jsonl", *odd, {"id": 24, "label": "odd"}, {"id": 25, "label": "odd"})
    write(mood / "validation.jsonl", {"id": 26, "label": 0}, {"id": 27, "label": 1})
    write(root / "letters/tasks/reply/relevant.json", {"0": ["1"], "2": ["5"]})
    code, lines = run_check(capsys, root)
    assert code == 0
    assert {line for line in lines if "not read" in line or " alone" in line} == {
        "diaries: note: field 'groups' is not read; nearest: group",
        "diaries: note: 'task' is not read; nearest: tasks",
        "letters/mood: note: 'val.jsonl' is not read; nearest: validation.jsonl",
        "letters/mood: note: 1 class in train alone: odd",
    }
    assert "letters/reply: retrieval of 40 documents, 2 sources" in lines
    write(mood / "test.jsonl", {"id": "99", "label": 0})
    write(root / "diaries/documents.jsonl", "{")
    code, lines = run_check(capsys, root)
    errors = [line for line in lines if ": error: " in line]
    assert code == 2 and [line.split(":")[0] for line in errors] == ["diaries", "letters/mood"]
    assert "documents.jsonl:1: not JSON" in errors[0] and "test.jsonl:1: id '99'" in errors[1]
    assert lines[-1] == "suggested: first fix the errors"


def test_a_folder_without_documents_is_one_line(tmp_path, capsys):
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/mine.txt").write_text(json.dumps({"text": "a"}))
    with pytest.raises(ValueError, match="expected one of documents.jsonl"):
        check.suggested(tmp_path)
    for name, told in (("nowhere", "no such folder"), ("documents", "neither a dataset folder")):
        code, lines = run_check(capsys, tmp_path / name)
        assert code == 2 and len(lines) == 1 and told in lines[0]


def test_a_python_without_the_packages_is_one_line():
    command = [sys.executable, "-S", "-m", "lib.data.check", "folder"]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("No module named ") and "--setup" in done.stderr
