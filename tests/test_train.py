"""`python -m lib.train`: a failure is one line and exit code 1 or 2, and no student is lost."""

from __future__ import annotations

import re
import shutil

import pytest

from lib import train
from lib.data import check
from lib.distillation import training
from lib.store import check_target
from lib.student import Student, checkpoint
from tests.vectors.conftest import draw_coins, write_lines

SMOKE = ["--profile", "smoke"]
OWN = [*SMOKE, "--set", "student.language_model=null"]  # as `lab` has it
INTERRUPTED = "interrupted; the same command continues from what was kept\n"
MODELS = ["base", "teacher, cut", "teacher, chunks", "TF-IDF", "student (MSE)"]


@pytest.fixture
def artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    return tmp_path / "artifacts"


@pytest.fixture
def filled(artifacts, filled_store):
    """The artifact root, with what students of smoke share: base, token ids, teacher's rows."""
    shutil.copytree(filled_store, artifacts / "store")
    return artifacts


@pytest.fixture
def untrained(monkeypatch, artifacts):
    """Whatever reaches the training, the corpus or a teacher is an error of its own."""

    def never(*arguments, **keywords):
        raise AssertionError("this should have been refused before any work")

    monkeypatch.setattr(train, "_train", never)


def refused(capsys, arguments, code=2):
    """The one line that a command ends with."""
    with pytest.raises(SystemExit) as error:
        train.main(arguments)
    message = capsys.readouterr().err
    assert error.value.code == code
    assert message.count("\n") == 1
    assert message.startswith("python -m lib.train: ")
    return message


def test_without_losses_nothing_is_trained(untrained, capsys, tmp_path):
    train.main(["--data", str(tmp_path), "--out", str(tmp_path / "out")])
    assert "lib.embed" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cosin"], "unknown model 'cosin': expected Longformer, SBERT"),
        (["SBERT"], "'SBERT' cannot be saved as a student"),
        (["cosine", "--profile", "minni"], "minni"),
        (["cosine", "--set", "training.document=3"], "training.documents"),
        (["cosine", "--set", "corpus.folders=[nowhere]"], "nowhere"),
        (["cosine", "--out", "{tmp}/notes"], "did not write there"),
        (["cosine", "--data", "{tmp}/nowhere"], "nowhere: no such folder"),
        (["cosine", "--data", "{tmp}/own", "--task", "own/kinds"], "nearest: own/kind"),
    ],
)
def test_a_bad_request_is_refused_before_any_work(untrained, capsys, tmp_path, arguments, message):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/config.json").write_text("{}")
    write_lines(tmp_path / "own/documents.jsonl", draw_coins(1))
    rows = [{"id": row["id"], "label": row["label"]} for row in draw_coins(1)]
    write_lines(tmp_path / "own/tasks/kind/train.jsonl", rows)
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "out")]
    profile = [] if "--profile" in arguments else SMOKE
    assert message in refused(capsys, [*arguments, *profile, *out])
    assert {path.name for path in tmp_path.iterdir()} <= {"notes", "own", "artifacts"}
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyboardInterrupt("the workers have ended"), INTERRUPTED),
        (OSError(28, "No space left on device", "/x"), "No space left on device"),
        (FileNotFoundError("no corpus\nhere"), "no corpus here"),
        (FloatingPointError("loss is nan at update 3 of 9"), "loss is nan"),
        (RuntimeError("not enough memory: you tried"), "lower training.batch_size"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_what_fails_on_the_way_is_one_line(
    artifacts, monkeypatch, capsys, tmp_path, error, message
):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(train, "_train", fail)
    assert message in refused(capsys, ["cosine", "--out", str(tmp_path / "out")], code=1)


@pytest.fixture
def updates(monkeypatch):
    """The updates that trainings make, by training."""
    made, distill = [], training.distill

    def count(*arguments, callbacks=(), **keywords):
        made.append([])
        return distill(
            *arguments, callbacks=[*callbacks, lambda update: made[-1].append(update)], **keywords
        )

    monkeypatch.setattr(training, "distill", count)
    return made


def test_a_student_that_cannot_be_saved_is_not_trained_again(
    filled, monkeypatch, capsys, tmp_path, updates
):
    """The disk is full after the training; the next try has nothing left to train."""
    command = ["cosine", *SMOKE, "--set", "training.documents=12", "--out", str(tmp_path / "out")]

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", full_disk)
        with pytest.raises(SystemExit, match="1"):
            train.main(command)
    assert "No space left on device" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    train.main(command)
    assert len(updates) == 1 and updates[0]
    assert "100%" in capsys.readouterr().err, "a bar that never moved ends at its total"
    assert Student.load(tmp_path / "out").dim == 384
    assert check_target(tmp_path / "out", "student")  # may be replaced by the next one


def test_an_interrupted_training_goes_on_from_its_checkpoint(filled, monkeypatch, capsys, tmp_path):
    made, whole = [], training.distill

    def stop(update):
        made.append(update.number)
        if len(made) == 2:
            raise KeyboardInterrupt

    def interrupted(*arguments, callbacks=(), **keywords):
        return whole(*arguments, callbacks=[*callbacks, stop], **keywords)

    monkeypatch.setattr(training, "distill", interrupted)
    changes = ["--set", "training.documents=18", "training.checkpoint_every=1"]
    command = ["cosine", *SMOKE, *changes, "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="1"):
        train.main(command)
    assert capsys.readouterr().err.endswith(f"python -m lib.train: {INTERRUPTED}")
    train.main(command)
    assert made == [1, 2, 2, 3]
    assert not list(filled.rglob("*.checkpoint"))


def test_half_a_launcher_is_refused_before_any_work(artifacts, capsys, monkeypatch, tmp_path):
    """WORLD_SIZE without torchrun would wait for ever."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    message = refused(capsys, ["cosine", *SMOKE, "--out", str(tmp_path / "out")], code=1)
    assert "WORLD_SIZE is set without LOCAL_RANK" in message
    assert not list(artifacts.rglob("*.npz"))


# ---- documents of one's own ---------------------------------------------------------------------


@pytest.fixture
def notes(artifacts, monkeypatch):
    """Forty short texts of two kinds and a blank one, with a task; THESIS_DATA, another place, does
    not count."""
    monkeypatch.setenv("THESIS_DATA", str(artifacts))
    folder = artifacts.parent / "notes"
    subjects = ("the river carries water past the boats", "the court heard the judge of the trial")
    texts = [f"{subjects[n % 2]} and then {subjects[n % 2]} in note {n}" for n in range(40)]
    rows = [{"id": n, "text": text} for n, text in enumerate([*texts, " "])]
    write_lines(folder / "documents.jsonl", rows)
    for split, numbers in (("train", (*range(20), 40)), ("test", range(20, 40))):
        examples = [{"id": n, "label": n % 2} for n in numbers]
        write_lines(folder / f"tasks/kind/{split}.jsonl", examples)
    return folder


def test_documents_of_ones_own_end_with_a_table_and_an_export(notes, capsys, tmp_path, updates):
    """No file is edited, sizes follow the data, the student is trained once and judged."""
    train.main(["MSE", "--data", str(notes), *OWN, "--out", str(tmp_path / "out"), "--export"])
    printed = capsys.readouterr().out
    assert "train on 15 documents, hold out 3" in printed
    for measure in ("halves of documents MRR", "notes/kind accuracy"):
        rows = re.findall(rf"{measure} +\d+ +(\D.*?) +[01]\.\d{{3}}\b", printed)
        assert rows == MODELS
    assert [len(each) for each in updates] == [2], "15 documents in batches of 6, once"
    assert (tmp_path / "out/modules.json").is_file()
    assert Student.load(tmp_path / "out").dim == 384
    card = (tmp_path / "out/README.md").read_text()
    for fact in ("MSE, of documents from notes", "texts read in training: 12", "updates: 2"):
        assert fact in card
    row = r"\| halves of documents MRR \| \d+ \| student \(MSE\) \| (\d\.\d{3}.*?) \|"
    (score,) = re.findall(row, card)
    assert score in re.sub(" +", " ", printed), "the card has the table's scores"
    assert str(notes) not in card and str(tmp_path) not in card


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_labels_of_a_coin_are_not_foretold(artifacts, capsys, tmp_path, copies):
    rows = draw_coins(copies, spaced=True)
    write_lines(tmp_path / "coin/documents.jsonl", [{**row, "label": 0} for row in rows])
    labelled = [row for row in rows if int(row["id"].split("-")[0]) < 40]
    examples = [{"id": row["id"], "label": row["label"]} for row in labelled]
    write_lines(tmp_path / "coin/tasks/label/train.jsonl", examples)
    train.main(["MSE", "--data", str(tmp_path / "coin"), *OWN, "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    values = re.findall(r"label accuracy +\d+ +\D.*? +([01]\.\d{3}) \[([01]\.\d{3}),", printed)
    assert len(values) == len(MODELS), printed
    assert all(float(value) < 0.75 and float(low) < 0.6 for value, low in values), printed
    assert "Over all measures: use base" in printed


TEXTS = {
    "stop words alone": [f"{'the of and to ' * (3 + n)}it" for n in range(20)],
    "a script without spaces": [
        f"第{n}号\n" + "北京市政府今天宣布"[n % 7 :] * n for n in range(5, 25)
    ],
    "one word each": [f"Untitled{n}" for n in range(20)],
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_of_any_kind_costs_no_more_than_its_own_rows(artifacts, capsys, tmp_path, kind):
    rows = [{"id": n, "text": text} for n, text in enumerate(TEXTS[kind])]
    write_lines(tmp_path / "notes/documents.jsonl", rows)
    assert check.main([str(tmp_path / "notes")]) == 0
    command = ["MSE", "--data", str(tmp_path / "notes"), *OWN, "--out", str(tmp_path / "out")]
    if kind == "one word each":
        assert "fewer than two documents have halves" in refused_late(capsys, command)
    else:
        train.main(command)
        printed = capsys.readouterr().out
        models = re.findall(r"halves of documents MRR +\d+ +(\D.*?) +[01]\.\d{3}\b", printed)
        lost = "TF-IDF" if kind == "stop words alone" else ""
        assert models == [name for name in MODELS if name != lost]
    assert Student.load(tmp_path / "out").dim == 384, "no student is lost"


def refused_late(capsys, command):
    with pytest.raises(SystemExit, match="1"):
        train.main(command)
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", ["a=b", "[x]", "2023", "{y}", "a,b.c", "true", "ü", "*", "'q'"])
def test_folders_and_tasks_have_any_name(notes, monkeypatch, tmp_path, name):
    """Names go through settings, whose values are YAML, and through patterns of files."""
    seen = []
    monkeypatch.setattr(train, "_train", lambda bench, *_: seen.append([*bench.tasks]))
    folder = notes.rename(notes.parent / name)
    (folder / "tasks/kind").rename(folder / "tasks" / name)
    for task in ([], ["--task", f"{name}/{name}"]):
        train.main(["MSE", "--data", str(folder), *task, *SMOKE, "--out", str(tmp_path / "out")])
    assert seen == [[f"{name}/{name}"]] * 2


@pytest.mark.parametrize("error", [ValueError("no table today"), KeyboardInterrupt()])
def test_a_table_that_fails_loses_no_student(notes, monkeypatch, capsys, tmp_path, updates, error):
    def fail(*arguments):
        raise error

    command = ["MSE", "--data", str(notes), *OWN, "--out", str(tmp_path / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(train, "compare_student", fail)
        with pytest.raises(SystemExit, match="1"):
            train.main(command)
    assert (tmp_path / "out").exists() == isinstance(error, ValueError)
    train.main([*command, "--export"])
    assert [len(each) for each in updates] == [2]
    assert "- notes/kind accuracy: " in (tmp_path / "out/README.md").read_text()
