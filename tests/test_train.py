"""`python -m lib.train`: a failure is one line and exit code 1 or 2, and no student is lost."""

from __future__ import annotations

import re
import shutil

import pytest

from lib import train
from lib.distillation import training
from lib.store import check_target
from lib.student import Student, checkpoint
from tests.vectors.conftest import draw_coins, write_lines

SMOKE = ["--profile", "smoke"]
OWN = [*SMOKE, "--set", "student.language_model=null"]  # as `lab` has it
INTERRUPTED = "interrupted; the same command continues from what was kept"
MODELS = ["base", "teacher, cut", "mean of chunks", "student", "TF-IDF"]


@pytest.fixture
def artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    return tmp_path / "artifacts"


@pytest.fixture
def filled(artifacts, filled_store):
    """The artifact root, with what students of smoke share: base, token ids, teacher's rows."""
    shutil.copytree(filled_store, artifacts / "store")
    return artifacts


class Made(list):
    stop_at = 0


@pytest.fixture
def updates(monkeypatch):
    """The updates that trainings make, by training; the one that `stop_at` names ends in Ctrl-C."""
    made, distill = Made(), training.distill

    def count(*arguments, callbacks=(), **keywords):
        made.append([])

        def note(update):
            made[-1].append(update.number)
            if len(made) == 1 and update.number == made.stop_at:
                raise KeyboardInterrupt

        return distill(*arguments, callbacks=[*callbacks, note], **keywords)

    monkeypatch.setattr(training, "distill", count)
    return made


def refused(capsys, arguments, code=2):
    """The one line that a command ends with."""
    with pytest.raises(SystemExit) as error:
        train.main([*arguments])
    message = capsys.readouterr().err.splitlines()[-1]
    assert error.value.code == code
    assert message.startswith("python -m lib.train: ")
    return message


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
def test_a_bad_request_is_refused_before_any_work(
    artifacts, monkeypatch, capsys, tmp_path, arguments, message
):
    monkeypatch.setattr(train, "_train", lambda *_: pytest.fail("this is work"))
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


def test_a_student_that_cannot_be_saved_is_not_trained_again(
    filled, monkeypatch, capsys, tmp_path, updates
):
    """The disk is full after the training; the next try has nothing left to train."""
    command = ["cosine", *SMOKE, "--set", "training.documents=12", "--out", str(tmp_path / "out")]

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", full_disk)
        assert "No space left on device" in refused(capsys, command, code=1)
    assert not (tmp_path / "out").exists()
    train.main(command)
    assert len(updates) == 1 and updates[0]
    assert Student.load(tmp_path / "out").dim == 384
    assert check_target(tmp_path / "out", "student")  # may be replaced by the next one


def test_an_interrupted_training_goes_on_from_its_checkpoint(filled, capsys, tmp_path, updates):
    changes = ["--set", "training.documents=18", "training.checkpoint_every=1"]
    command = ["cosine", *SMOKE, *changes, "--out", str(tmp_path / "out")]
    updates.stop_at = 2
    assert INTERRUPTED in refused(capsys, command, code=1)
    train.main(command)
    assert updates == [[1, 2], [2, 3]]
    assert not list(filled.rglob("*.checkpoint"))


def test_half_a_launcher_is_refused_before_any_work(artifacts, capsys, monkeypatch, tmp_path):
    """WORLD_SIZE without torchrun would wait for ever."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
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


def list_rows(printed, measure):
    """(model, value) of the rows of a measure in the table."""
    return re.findall(rf"{measure} +\d+ +[01]\.\d{{3}} +(\D.*?) +([01]\.\d{{3}})", printed)


def test_documents_of_ones_own_end_with_a_table_and_an_export(notes, capsys, tmp_path, updates):
    """No file is edited, sizes follow the data, the student is trained once and judged."""
    train.main(["MSE", "--data", str(notes), *OWN, "--out", str(tmp_path / "out"), "--export"])
    printed = capsys.readouterr().out
    assert "train on 15 of 41 documents, hold out 3" in printed
    card = (tmp_path / "out/README.md").read_text()
    for measure in ("halves of documents MRR", "notes/kind accuracy"):
        rows = list_rows(printed, measure)
        assert [model for model, _ in rows] == MODELS
        cells = re.findall(rf"\| {measure} \| \d+ \| [\d.]+ \| (.*?) \| ([\d.]+) ", card)
        assert cells == rows, "the card has the table's scores"
    assert [len(each) for each in updates] == [2], "15 documents in batches of 6, once"
    assert (tmp_path / "out/modules.json").is_file()
    assert Student.load(tmp_path / "out").dim == 384
    assert "MSE, of documents from notes" in card and "updates: 2" in card
    assert str(notes) not in card and str(tmp_path) not in card


@pytest.mark.parametrize("copies", [1, 5])
def test_labels_of_a_coin_are_not_foretold(artifacts, capsys, tmp_path, copies):
    rows = draw_coins(copies, spaced=True)
    write_lines(tmp_path / "coin/documents.jsonl", [{**row, "label": 0} for row in rows])
    labelled = [row for row in rows if int(row["id"].split("-")[0]) < 40]
    examples = [{"id": row["id"], "label": row["label"]} for row in labelled]
    write_lines(tmp_path / "coin/tasks/label/train.jsonl", examples)
    train.main(["MSE", "--data", str(tmp_path / "coin"), *OWN, "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    values = [float(value) for _, value in list_rows(printed, "coin/label accuracy")]
    assert len(values) == len(MODELS) and max(values) < 0.75, printed
    assert "VERDICT: EQUAL | base" in printed


def test_a_table_that_fails_loses_no_student(notes, monkeypatch, capsys, tmp_path, updates):
    command = ["MSE", "--data", str(notes), *OWN, "--out", str(tmp_path / "out")]

    def fail(*_):
        raise ValueError("no table today")

    with monkeypatch.context() as patch:
        patch.setattr(train, "compare_student", fail)
        assert "no table today" in refused(capsys, command, code=1)
    assert Student.load(tmp_path / "out").dim == 384
    train.main(command)
    assert [len(each) for each in updates] == [2]


@pytest.mark.parametrize("name", ["a=b", "[x]", "2023", "a,b.c", "true", "ü", "'q'"])
def test_folders_and_tasks_have_any_name(notes, monkeypatch, tmp_path, name):
    """Names go through settings, whose values are YAML, and through patterns of files."""
    seen = []
    monkeypatch.setattr(train, "_train", lambda bench, *_: seen.append([*bench.tasks]))
    folder = notes.rename(notes.parent / name)
    (folder / "tasks/kind").rename(folder / "tasks" / name)
    for task in ([], ["--task", f"{name}/{name}"]):
        train.main(["MSE", "--data", str(folder), *task, *SMOKE, "--out", str(tmp_path / "out")])
    assert seen == [[f"{name}/{name}"]] * 2
