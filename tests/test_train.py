"""`python -m lib.train`: a failure is one line and exit code 1 or 2, and no student is lost."""

from __future__ import annotations

import json
import random
import re
import shutil
from types import SimpleNamespace

import pytest

from lib import train
from lib.config import paths
from lib.data import check
from lib.distillation import training
from lib.experiments import Bench, models
from lib.store import owned_folder
from lib.student import Student, export

SMOKE = ["--profile", "smoke"]
OWN = [*SMOKE, "--set", "student.language_model=null"]  # as `lab` has it
INTERRUPTED = "interrupted; the same command continues from what was kept\n"
SMALL = ["--profile", "smoke", "--set", "training.documents=12"]


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
        (["cosin"], "unknown model 'cosin'; nearest: cosine\n"),
        (["max-margin"], "unknown model 'max-margin'; nearest: max-margin;{distance};γ={gamma}\n"),
        (["SBERT"], "'SBERT' cannot be saved as a student"),
        (["cosine", "--profile", "minni"], "unknown profile 'minni'; nearest: mini"),
        (["cosine", "--set", "training.document=3"], "unknown key; nearest: training.documents"),
        (["cosine", "--set", "training.documents"], "expected key=value"),
        (["cosine", "--seed", "-1"], "seeds.0: expected greater than or equal to 0, got -1"),
        (["cosine", "--out", "{tmp}/file"], "file is a file or a symbolic link"),
        (
            ["cosine", "--out", "{tmp}/file/below"],
            "below cannot be written: [Errno 17] File exists",
        ),
        (["cosine", "--out", "{tmp}/notes"], "notes holds files that this project did not write"),
        (["cosine", "--out", "{tmp}/link"], "link is a file or a symbolic link"),
    ],
)
def test_a_bad_request_is_refused_before_any_work(untrained, capsys, tmp_path, arguments, message):
    (tmp_path / "file").write_text("work")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "config.json").write_text("{}")
    (tmp_path / "link").symlink_to("notes")
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "out")]
    assert message in refused(capsys, [*arguments, *out])
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "config.json",
        "file",
        "link",
        "notes",
    ]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyboardInterrupt("the workers have ended"), INTERRUPTED),
        (OSError(28, "No space left on device", "/x"), "No space left on device"),
        (FileNotFoundError("no corpus\nhere"), "no corpus here"),
        (FloatingPointError("loss is nan at update 3 of 9"), "loss is nan"),
        (
            RuntimeError("not enough memory: you tried to allocate 9 bytes"),
            "lower training.batch_size",
        ),
        (
            RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer"),
            "a process of this training",
        ),
        (
            RuntimeError("Timed out after 601 seconds waiting for clients. 1/2 clients joined."),
            "a process of this training has ended",
        ),
        (
            RuntimeError("The client socket has timed out after 600000ms"),
            "a process of this training has ended",
        ),
        (MemoryError(), "MemoryError"),
    ],
)
def test_what_fails_on_the_way_is_one_line(monkeypatch, capsys, tmp_path, error, message):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(train, "_train", fail)
    assert message in refused(capsys, ["cosine", "--out", str(tmp_path / "out")], code=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("corpus.folders=[nowhere]", "nowhere: no such dataset folder"),
        ("tasks.folders={MINE: nowhere/mine}", "nowhere: no such dataset folder"),
        (
            "tasks.folders={MINE: own/mine}",
            "own/tasks/mine: expected a folder with train.jsonl and test.jsonl",
        ),
        ("data_roots=[nowhere]", "the data root 'nowhere' is not a folder"),
    ],
)
def test_missing_data_is_refused_before_any_work(
    untrained, capsys, tmp_path, monkeypatch, change, message
):
    monkeypatch.delenv("THESIS_DATA", raising=False)
    (tmp_path / "own/tasks/topic").mkdir(parents=True)
    (tmp_path / "own/documents.jsonl").write_text('{"id": "1", "text": "a"}')
    (tmp_path / "own/tasks/topic/train.jsonl").write_text("")
    folders = [
        "corpus.folders=[own]",
        "tasks.folders={MINE: own/topic}",
        f"data_roots=[{tmp_path}]",
    ]
    arguments = [
        "cosine",
        "--profile",
        "smoke",
        "--out",
        str(tmp_path / "out"),
        "--set",
        "build=null",
        *folders,
    ]
    with pytest.raises(AssertionError, match="before any work"):
        train.main(arguments)
    assert message in refused(capsys, [*arguments, change])


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
    command = ["cosine", *SMALL, "--out", str(tmp_path / "out")]

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export, "save_file", full_disk)
        with pytest.raises(SystemExit, match="1"):
            train.main(command)
    error = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'out'}" in error[-1]
    assert "No space left on device" in error[-1]
    assert "loss " in "".join(error[:-1])  # the bar, then one line
    assert not (tmp_path / "out").exists()
    train.main(command)
    assert len(updates) == 1
    assert updates[0]
    assert "100%" in capsys.readouterr().err, "a bar that never moved ends at its total"
    assert Student.load(tmp_path / "out").dim == 384
    assert owned_folder.check_target(tmp_path / "out")  # may be replaced by the next one


def test_an_interrupted_training_goes_on_from_its_checkpoint(filled, monkeypatch, capsys, tmp_path):
    distill, made = training.distill, []

    def stop(update):
        made.append(update.number)
        if len(made) == 2:
            raise KeyboardInterrupt

    def interrupted(*arguments, callbacks=(), **keywords):
        keywords["checkpoint_every"] = 1
        return distill(*arguments, callbacks=[*callbacks, stop], **keywords)

    monkeypatch.setattr(training, "distill", interrupted)
    command = ["cosine", *SMOKE, "--set", "training.documents=18", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="1"):
        train.main(command)
    assert capsys.readouterr().err.endswith(f"python -m lib.train: {INTERRUPTED}")
    train.main(command)
    assert made == [1, 2, 2, 3]
    assert not list(filled.rglob("*.checkpoint"))


@pytest.mark.parametrize("wanted", [True, False])
def test_the_profile_decides_on_gradient_checkpointing(filled, monkeypatch, wanted):
    from lib.config import profiles
    from lib.distillation import variants
    from lib.experiments import students

    seen = []

    def look(student, *arguments, **keywords):
        seen.append(student.gradient_checkpointing)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "distill", look)
    settings = {"training.documents": 12, "training.gradient_checkpointing": wanted}
    bench = Bench(profiles.load("smoke", overrides=settings))
    for label in ("cosine", "cosine;[CLS]"):
        with pytest.raises(KeyboardInterrupt):
            students.train_student(bench.lesson(variants.parse(label), 0))
    assert seen == [wanted, wanted]


@pytest.fixture
def notes(artifacts, monkeypatch):
    """Forty short texts of two kinds and a blank one, with a task; THESIS_DATA, another place, does
    not count."""
    monkeypatch.setenv("THESIS_DATA", str(artifacts))
    task = artifacts.parent / "notes/tasks/kind"
    task.mkdir(parents=True)
    subjects = ("the river carries water past the boats", "the court heard the judge of the trial")
    texts = [f"{subjects[n % 2]} and then {subjects[n % 2]} in note {n}" for n in range(40)]
    rows = [json.dumps({"id": n, "text": text}) for n, text in enumerate([*texts, " "])]
    (artifacts.parent / "notes/documents.jsonl").write_text("\n".join(rows))
    for split, numbers in (("train", (*range(20), 40)), ("test", range(20, 40))):
        (task / f"{split}.jsonl").write_text(
            "\n".join(json.dumps({"id": n, "label": n % 2}) for n in numbers)
        )
    return artifacts.parent / "notes"


def test_documents_of_ones_own_end_with_a_table_and_an_export(notes, capsys, tmp_path, updates):
    """No file is edited, sizes follow the data, the student is trained once and judged."""
    train.main(["MSE", "--data", str(notes), *OWN, "--out", str(tmp_path / "out"), "--export"])
    printed, bar = capsys.readouterr()
    assert "train on 15 documents, hold out 3" in printed
    assert "1 document without text, left out: 40" in printed, "what lib.data.check notes"
    assert "3 that fill no batch" in printed
    assert "token/s" in bar
    assert "100%" in bar
    for measure in ("halves of documents MRR", "notes/kind accuracy"):
        rows = re.findall(rf"{measure} +\d+ +(\D.*?) +[01]\.\d{{3}}\b", printed)
        assert rows == ["base", "teacher, cut", "teacher, chunks", "TF-IDF", "student (MSE)"]
    assert [len(each) for each in updates] == [2], "15 documents in batches of 6, once"
    assert (tmp_path / "out/modules.json").is_file()
    assert Student.load(tmp_path / "out").dim == 384
    card = (tmp_path / "out/README.md").read_text()
    for fact in ("MSE, of documents from notes", "texts read in training: 12", "updates: 2"):
        assert fact in card
    row = r"\| halves of documents MRR \| \d+ \| student \(MSE\) \| (\d\.\d{3} \[.*?\]) \|"
    (score,) = re.findall(row, card)
    assert score in re.sub(" +", " ", printed), "the card has the table's scores"
    assert str(notes) not in card
    assert str(tmp_path) not in card


HAN = "北京市政府今天宣布新的交通计划将在明年开始实施"
TITLED = "第{}号公告\n"


def draw_texts(kind):
    source = random.Random(0)
    if kind == "a title, then a language without spaces":
        return [TITLED.format(n) + "".join(source.choices(HAN, k=80)) for n in range(20)]
    if kind == "characters between spaces":
        return [" ".join(source.choices(HAN, k=30)) for _ in range(20)]
    if kind == "stop words alone":
        words = "the of and to in that is was for it with as his on be at by this had not".split()
        return [" ".join(source.choices(words, k=30)) for _ in range(20)]
    texts = [f"the long letter number {n} about rain in town {7 * n}" for n in range(40)]
    return [f"Untitled{n} \u200b" if n % 2 else text for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("kind", "lost", "line"),
    [
        ("a title, then a language without spaces", None, None),
        ("characters between spaces", None, None),
        ("stop words alone", "TF-IDF", "TF-IDF could not be judged"),
        ("halves of no width", None, "documents without two halves are left out"),
    ],
)
def test_a_text_of_any_kind_costs_no_more_than_its_own_row(
    artifacts, monkeypatch, capsys, tmp_path, kind, lost, line
):
    """What `lib.data.check` passes ends with a table, of all models that can read it."""
    (tmp_path / "notes").mkdir()
    rows = [json.dumps({"id": n, "text": text}) for n, text in enumerate(draw_texts(kind))]
    (tmp_path / "notes/documents.jsonl").write_text("\n".join(rows))
    assert check.main([str(tmp_path / "notes")]) == 0
    capsys.readouterr()
    command = ["MSE", "--data", str(tmp_path / "notes"), *OWN, "--out", str(tmp_path / "out")]
    train.main(command)
    printed = capsys.readouterr().out
    models = re.findall(r"halves of documents MRR +\d+ +(\D.*?) +[01]\.\d{3}\b", printed)
    wanted = ["base", "teacher, cut", "teacher, chunks", "TF-IDF", "student (MSE)"]
    assert models == [name for name in wanted if name != lost]
    told = [each for each in printed.splitlines() if " judged: " in each or "left out" in each[20:]]
    assert line is None or any(line in each for each in told)
    assert Student.load(tmp_path / "out").dim == 384


NAMES = "a=b|[x]|2023|{y}|a b|a,b|a.b|true|null|ü|*|#1|'q'|\"q\"".split("|")


@pytest.mark.parametrize("name", NAMES)
def test_folders_and_tasks_have_any_name(notes, monkeypatch, tmp_path, name):
    """Names go through settings, whose values are YAML, and through patterns of files."""
    seen = []

    def look(bench, *_):
        seen.append([*bench.tasks] + [document.text for document in bench.open_documents(name)])

    monkeypatch.setattr(train, "_train", look)
    folder = notes.rename(notes.parent / name)
    (folder / "tasks/kind").rename(folder / "tasks" / name)
    assert check.main([str(folder)]) == 0
    for task in ([], ["--task", f"{name}/{name}"]):
        train.main(["MSE", "--data", str(folder), *task, *SMOKE, "--out", str(tmp_path / "out")])
    assert [each[0] for each in seen] == [f"{name}/{name}"] * 2
    assert {len(each) for each in seen} == {1 + 41}


def test_where_pages_put_a_student_git_does_not_look():
    """Else the card of every later one would call the checkout dirty."""
    commands = re.findall(
        r"--out (\w+)/\w+", (paths.ROOT / "docs/own_documents.md").read_text(encoding="utf-8")
    )
    ignored = (paths.ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert commands and {f"/{folder}/" for folder in commands} <= {*ignored}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "{tmp}/nowhere"], "nowhere: no such folder"),
        (
            ["--data", "{tmp}/notes", "--task", "notes/kinds"],
            "unknown task 'notes/kinds'; nearest: notes/kind",
        ),
        (
            ["--data", "{tmp}/notes", "--set", "training.document=3"],
            "unknown key; nearest: training.documents",
        ),
        (
            ["--data", "{tmp}/notes", "--set", "data_roots=[/nowhere]"],
            "the data root '/nowhere' is not a folder",
        ),
    ],
)
def test_bad_requests_for_documents_of_ones_own(
    notes, untrained, capsys, tmp_path, arguments, message
):
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    assert message in refused(capsys, ["MSE", "--out", str(tmp_path / "out"), *arguments])


@pytest.mark.parametrize("place", ["", "store", "data/mine"])
def test_a_student_is_not_saved_among_what_is_kept(
    notes, untrained, artifacts, capsys, monkeypatch, place
):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(artifacts / "new"))
    out = artifacts / "new" / place
    assert f"{out} is where the store and data are kept" in refused(
        capsys, ["MSE", "--out", str(out)]
    )


def test_what_a_disk_or_a_launcher_cannot_do_is_said_before_any_work(
    notes, untrained, capsys, monkeypatch, tmp_path
):
    command = ["MSE", "--out", str(tmp_path / "out"), "--data", str(notes)]
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=10**8))
        assert " MB are needed, 100 MB are free" in refused(capsys, command)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "--data trains in one process" in refused(capsys, command)


@pytest.mark.parametrize("launched", [["WORLD_SIZE"], ["MASTER_ADDR", "MASTER_PORT"]])
def test_half_a_launcher_is_refused_before_any_work(
    artifacts, capsys, monkeypatch, tmp_path, launched
):
    """WORLD_SIZE without torchrun would wait for ever; `accelerate launch --cpu` starts one
    process, however asked."""
    names = ["LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"]
    for name in names:
        monkeypatch.setenv(name, "2") if name in launched else monkeypatch.delenv(
            name, raising=False
        )
    message = refused(capsys, ["cosine", *SMOKE, "--out", str(tmp_path / "out")], code=1)
    rest = ", ".join(name for name in names if name not in launched)
    assert (
        f"{', '.join(launched)} set without {rest}: start several processes by torchrun" in message
    )
    assert not list(artifacts.rglob("*.npz"))


def test_what_it_waits_for_is_said(artifacts, capsys, monkeypatch, tmp_path):
    """A process whose peers were never started waits for them, half an hour by default."""
    for name, value in {
        "LOCAL_RANK": 0,
        "RANK": 0,
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "n1",
        "MASTER_PORT": 29,
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(Bench, "lesson", lambda *_: 1 / 0)
    with pytest.raises(SystemExit):
        train.main(["cosine", *SMOKE, "--out", str(tmp_path / "out")])
    assert "n1:29\n" in capsys.readouterr().out


def test_each_process_has_its_own_gpu(monkeypatch, tmp_path):
    import torch

    taken = []
    monkeypatch.setattr(models, "_DRIVER", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for rank in ("0", "1"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert models.find_device.__wrapped__() == "cuda"
    assert taken == [0, 1]
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(
        ValueError, match="process 2 of this machine has no GPU, because there are only 2"
    ):
        models.find_device.__wrapped__()


@pytest.mark.parametrize("place", ["artifacts/data", "notes"])
def test_no_permission_is_one_line(notes, untrained, capsys, monkeypatch, tmp_path, place):
    """Of the artifact root it says how another is named."""

    def forbidden(*arguments, **keywords):
        raise PermissionError(13, "Permission denied", str(tmp_path / place))

    # for root may write everywhere
    monkeypatch.setattr("lib.data.written_once.FileLock", forbidden)
    command = ["MSE", "--out", str(tmp_path / "out"), "--data", str(notes)]
    message = refused(capsys, command)
    assert f"[Errno 13] Permission denied: '{tmp_path / place}'" in message
    assert ("set THESIS_ARTIFACTS to keep results" in message) == (place != "notes")


def test_bfloat16_only_where_the_processor_has_it(notes, monkeypatch, tmp_path):
    import torch

    seen = []
    monkeypatch.setattr(train, "_train", lambda bench, *_: seen.append(bench.profile))
    monkeypatch.setattr(models, "find_device", lambda: "cpu")
    for there in ({"avx512_bf16": True}, {"avx512_f": True, "avx512_bf16": False}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda there=there: there)
        train.main(["cosine", "--data", str(notes), "--out", str(tmp_path / "out"), "--task"])
    assert [profile.training.precision for profile in seen] == ["bf16", "fp32"]
    assert {profile.name for profile in seen} == {"lab"}
    assert seen[0].tasks.folders == {}


def test_a_table_that_fails_loses_no_student(notes, monkeypatch, capsys, tmp_path):
    from lib.ledger import own_student

    def fail(*arguments):
        raise ValueError("no table today")

    monkeypatch.setattr(own_student, "compare_student", fail)
    command = ["MSE", "--data", str(notes), *OWN, "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="1"):
        train.main(command)
    assert capsys.readouterr().err.splitlines()[-1] == "python -m lib.train: no table today"
    assert Student.load(tmp_path / "out").dim == 384


def test_a_table_that_is_interrupted_trains_nothing_again(
    notes, monkeypatch, capsys, tmp_path, updates
):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    command = ["MSE", "--data", str(notes), *OWN, "--out", str(tmp_path / "out"), "--export"]
    with monkeypatch.context() as patch:
        patch.setattr(Bench, "_judge", interrupt)
        with pytest.raises(SystemExit, match="1"):
            train.main(command)
    assert capsys.readouterr().err.endswith(f"python -m lib.train: {INTERRUPTED}")
    assert not (tmp_path / "out").exists()
    train.main(command)
    assert [len(each) for each in updates] == [2]
    assert "- notes/kind accuracy: " in (tmp_path / "out/README.md").read_text()
