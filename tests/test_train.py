"""`python -m lib.train`: a failure is one line and exit code 1, and nothing is trained twice."""

import re
import shutil
from functools import partial
from types import SimpleNamespace

import pytest
from tqdm import tqdm

from lib import train
from lib.config import profiles
from lib.data.dataset_folder import Documents
from lib.data.files import write_lines
from lib.distillation import training
from lib.experiments.bench import Bench, Texts
from lib.experiments.models import Teacher
from lib.student import Student
from lib.vectors import judging

SMOKE = ["--profile", "smoke"]
MODELS = ["base", "teacher, cut", "student", "mean of chunks", "TF-IDF"]


@pytest.fixture
def updates(monkeypatch):
    """The updates of each training that is begun."""
    begun, distill = [], training.distill

    def count(*arguments, callbacks=(), **keywords):
        begun.append([])
        callbacks = [lambda number, _: begun[-1].append(number), *callbacks]
        return distill(*arguments, callbacks=callbacks, **keywords)

    monkeypatch.setattr(training, "distill", count)
    return begun


def refused(capsys, arguments):
    """The one line that a command ends with."""
    with pytest.raises(SystemExit) as error:
        train.main(arguments)
    message = capsys.readouterr().err.splitlines()[-1]
    assert error.value.code == 1 and message.startswith("python -m lib.train: ")
    return message


def test_a_folder_that_is_not_ours_is_refused_before_any_work(
    artifacts, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(Bench, "model", lambda *_: pytest.fail("this is work"))
    (tmp_path / "config.json").write_text("{}")
    assert "not written by" in refused(capsys, ["cosine", "--out", str(tmp_path), *SMOKE])
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_chunks_are_those_of_embed_and_a_note_counts(artifacts, tmp_path, monkeypatch, capsys):
    rows = [{"id": n, "text": f"text {n}", "group": "g"} for n in range(5)]
    write_lines(tmp_path / "documents.jsonl", rows)
    documents, made = Documents(tmp_path), {}
    bench = SimpleNamespace(base=None, store=None, model=lambda _: None, tasks={})
    bench.teacher = Teacher(None, profiles.load("lab").structural_teacher)
    bench.corpus = SimpleNamespace(train=documents, validation=documents[[0]])
    monkeypatch.setattr(judging, "judge_all", lambda *given: made.update(given[2](["a text"])))
    monkeypatch.setattr(judging, "compare_models", lambda _: {"line": "", "table": []})
    train.compare_student(bench, SimpleNamespace(documents=Texts(documents[[1, 2]])))
    assert "note: 2 training documents share groups" in capsys.readouterr().out
    assert made["mean of chunks"].model.chunk == 128
    assert {*made["mean of chunks"].documents} == {"a text", "text 1", "text 2"}


def test_half_a_launcher_is_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert "LOCAL_RANK" in refused(capsys, ["MSE", "--out", str(tmp_path / "out"), *SMOKE])


def test_a_task_without_data_and_a_cut_student_are_refused(capsys, tmp_path):
    assert "--data" in refused(capsys, ["MSE", "--out", str(tmp_path), "--task", "a/b", *SMOKE])
    assert "cannot be saved" in refused(capsys, ["MSE;cut", "--out", str(tmp_path), *SMOKE])


@pytest.mark.parametrize("name", ["a=b", "[x]", "2023", "a,b.c", "true", "'q'"])
def test_folders_and_tasks_have_any_name(artifacts, name, monkeypatch, tmp_path, capsys):
    """Names go through settings, whose values are YAML, and through patterns of files."""

    def stop(bench, *_):
        raise ValueError([*bench.tasks])

    monkeypatch.setattr(Bench, "model", stop)
    write_notes(tmp_path / name)
    for task in ([], ["--task", f"{name}/{name}"]):
        command = ["MSE", "--data", str(tmp_path / name), *task, *SMOKE, "--out", "out"]
        assert refused(capsys, command).endswith(f": {[f'{name}/{name}']}")


def write_notes(folder):
    """Forty short texts of two kinds and a blank one, with a task of the folder's name."""
    subjects = ("the river carries water past the boats", "the court heard the judge of the trial")
    texts = [f"{subjects[n % 2]} and then {subjects[n % 2]} in note {n}" for n in range(40)]
    rows = [{"id": n, "text": text} for n, text in enumerate([*texts, " "])]
    write_lines(folder / "documents.jsonl", rows)
    for split, numbers in (("train", (*range(20), 40)), ("test", range(20, 40))):
        examples = [{"id": n, "label": n % 2} for n in numbers]
        write_lines(folder / f"tasks/{folder.name}/{split}.jsonl", examples)
    return folder


def test_a_student_of_own_documents_is_trained_once_judged_and_saved(
    artifacts, filled_store, monkeypatch, capsys, tmp_path, updates
):
    """Ctrl-C after its first update, and again after the judging; then it is saved in each form."""
    shutil.copytree(filled_store, artifacts / "store")
    monkeypatch.setenv("THESIS_DATA", str(artifacts))  # another place, which does not count
    notes, out = write_notes(tmp_path / "notes"), tmp_path / "out"
    label = "MSE;100d;S:768x100;C:-"
    command = [label, "--data", str(notes), "--out", str(out), *SMOKE]
    command += ["--set", "student.language_model=null", "--set", "training.checkpoint_every=1"]
    monkeypatch.setattr(tqdm, "update", lambda *_: True)  # as whenever it is drawn again

    def interrupt(act, *given):
        act(*given)
        raise KeyboardInterrupt

    for owner, name in ((training, "save_checkpoint"), (judging, "judge_all")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, partial(interrupt, getattr(owner, name)))
            assert "the same command continues from what was kept" in refused(capsys, command)
    train.main([*command, "--export"])
    printed, card = capsys.readouterr().out, (out / "README.md").read_text()
    assert "train on 16 of 41 documents, hold out 4" in printed
    for measure in ("halves of documents MRR", "notes/notes accuracy"):
        rows = re.findall(rf"{measure} +\d+ +[01]\.\d{{3}} +(\D.*?) +([01]\.\d{{3}})", printed)
        assert [model for model, _ in rows] == MODELS
        cells = re.findall(rf"\| {measure} \| \d+ \| [\d.]+ \| (.*?) \| ([\d.]+) ", card)
        assert cells == rows, "the card has the table's scores"
    assert f"{label}, of documents from notes" in card and "updates: 2" in card
    assert str(notes) not in card and str(tmp_path) not in card
    train.main(command)  # replaces what we wrote there, now in the form that `load` reads
    assert Student.load(out).dim == 384
    assert not list(artifacts.rglob("*.checkpoint"))
    assert updates == [[1], [2]], "15 documents in batches of 6, once"
