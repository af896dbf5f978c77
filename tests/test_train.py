"""`python -m lib.train`: a failure is one line and exit code 1, and no student is lost."""

from __future__ import annotations

import re
import shutil

import pytest

from lib import train
from lib.distillation import training
from lib.experiments.bench import Bench
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


@pytest.fixture
def updates(monkeypatch):
    """The updates that trainings make, by training; `stop_at` in the first one is Ctrl-C."""

    class Made(list):
        stop_at = 0

    made, distill = Made(), training.distill

    def count(*arguments, callbacks=(), **keywords):
        made.append([])

        def note(number, loss):
            made[-1].append(number)
            if len(made) == 1 and number == made.stop_at:
                raise KeyboardInterrupt

        return distill(*arguments, callbacks=[*callbacks, note], **keywords)

    monkeypatch.setattr(training, "distill", count)
    return made


def refused(capsys, arguments):
    """The one line that a command ends with."""
    with pytest.raises(SystemExit) as error:
        train.main([*arguments])
    message = capsys.readouterr().err.splitlines()[-1]
    assert error.value.code == 1 and message.startswith("python -m lib.train: ")
    return message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cosin"], "unknown model 'cosin': expected Longformer, SBERT"),
        (["SBERT"], "'SBERT' cannot be saved as a student"),
        (["cosine", "--set", "training.document=3"], "training.documents"),
        (["cosine", "--out", "{tmp}/notes"], "did not write there"),
        (["cosine", "--data", "{tmp}/nowhere"], "nowhere: no such folder"),
        (["cosine", "--data", "{tmp}/own", "--task", "own/kinds"], "nearest: own/kind"),
    ],
)
def test_a_bad_request_is_refused_before_any_work(
    artifacts, monkeypatch, capsys, tmp_path, arguments, message
):
    monkeypatch.setattr(Bench, "model", lambda *_: pytest.fail("this is work"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/config.json").write_text("{}")
    write_lines(tmp_path / "own/documents.jsonl", draw_coins(1))
    rows = [{"id": row["id"], "label": row["label"]} for row in draw_coins(1)]
    write_lines(tmp_path / "own/tasks/kind/train.jsonl", rows)
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "out")]
    assert message in refused(capsys, [*arguments, *SMOKE, *out])
    assert {path.name for path in tmp_path.iterdir()} <= {"notes", "own", "artifacts"}
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["config.json"]


def test_half_a_launcher_is_refused_before_any_work(artifacts, capsys, monkeypatch, tmp_path):
    """WORLD_SIZE without torchrun would wait for ever."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    message = refused(capsys, ["cosine", *SMOKE, "--out", str(tmp_path / "out")])
    assert "WORLD_SIZE is set without LOCAL_RANK" in message
    assert not list(artifacts.rglob("*.npz"))


def test_a_student_that_cannot_be_saved_is_not_trained_again(
    filled, monkeypatch, capsys, tmp_path, updates
):
    """Ctrl-C, then a full disk after the training; the last try has nothing left to train."""
    changes = ["--set", "training.documents=18", "training.checkpoint_every=1"]
    command = ["cosine", *SMOKE, *changes, "--out", str(tmp_path / "out")]

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    updates.stop_at = 2
    assert INTERRUPTED in refused(capsys, command)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", full_disk)
        assert "No space left on device" in refused(capsys, command)
    assert not (tmp_path / "out").exists()
    train.main(command)
    assert updates == [[1, 2], [2, 3]]
    assert not list(filled.rglob("*.checkpoint"))
    assert Student.load(tmp_path / "out").dim == 384
    assert check_target(tmp_path / "out", "student")  # may be replaced by the next one


@pytest.fixture(params=["notes", "a=b", "[x]", "2023", "a,b.c", "true", "ü", "'q'"])
def notes(artifacts, monkeypatch, request):
    """Forty short texts of two kinds and a blank one, with a task; THESIS_DATA, another place, does
    not count. Names go through settings, whose values are YAML, and through patterns of files."""
    monkeypatch.setenv("THESIS_DATA", str(artifacts))
    folder = artifacts.parent / request.param
    subjects = ("the river carries water past the boats", "the court heard the judge of the trial")
    texts = [f"{subjects[n % 2]} and then {subjects[n % 2]} in note {n}" for n in range(40)]
    rows = [{"id": n, "text": text} for n, text in enumerate([*texts, " "])]
    write_lines(folder / "documents.jsonl", rows)
    for split, numbers in (("train", (*range(20), 40)), ("test", range(20, 40))):
        examples = [{"id": n, "label": n % 2} for n in numbers]
        write_lines(folder / f"tasks/{request.param}/{split}.jsonl", examples)
    return folder


def test_folders_and_tasks_have_any_name(notes, monkeypatch, tmp_path, capsys):
    def stop(bench, *_):
        raise ValueError([*bench.tasks])

    monkeypatch.setattr(Bench, "model", stop)
    name = f"{notes.name}/{notes.name}"
    for task in ([], ["--task", name]):
        command = ["MSE", "--data", str(notes), *task, *SMOKE, "--out", str(tmp_path / "out")]
        assert refused(capsys, command).endswith(f": {[name]}")


@pytest.mark.parametrize("notes", ["notes"], indirect=True)
def test_documents_of_ones_own_end_with_a_table_and_an_export(
    notes, monkeypatch, capsys, tmp_path, updates
):
    """Sizes follow the data, the student is trained once, judged, and saved without a table too."""
    command = ["MSE", "--data", str(notes), *OWN, "--out", str(tmp_path / "out")]

    def fail(*_):
        raise ValueError("no table today")

    with monkeypatch.context() as patch:
        patch.setattr(train, "compare_student", fail)
        assert "no table today" in refused(capsys, command)
    assert Student.load(tmp_path / "out").dim == 384
    train.main([*command, "--export"])
    printed = capsys.readouterr().out
    assert "train on 15 of 41 documents, hold out 3" in printed
    card = (tmp_path / "out/README.md").read_text()
    for measure in ("halves of documents MRR", "notes/notes accuracy"):
        rows = re.findall(rf"{measure} +\d+ +[01]\.\d{{3}} +(\D.*?) +([01]\.\d{{3}})", printed)
        assert [model for model, _ in rows] == MODELS
        cells = re.findall(rf"\| {measure} \| \d+ \| [\d.]+ \| (.*?) \| ([\d.]+) ", card)
        assert cells == rows, "the card has the table's scores"
    assert [len(each) for each in updates] == [2], "15 documents in batches of 6, once"
    assert (tmp_path / "out/modules.json").is_file()
    assert "MSE, of documents from notes" in card and "updates: 2" in card
    assert str(notes) not in card and str(tmp_path) not in card
