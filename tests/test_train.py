"""`python -m lib.train`: what fails is one line and exit code 1 or 2, and a trained student is never lost."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from lib import train
from lib.config import paths
from lib.distillation import training
from lib.experiments import models, runs, student_training
from lib.store import executors, owned_folder
from lib.student import Student, export

SMOKE = ["--profile", "smoke"]
INTERRUPTED = (
    "interrupted; the same command goes on from what is kept, a training from its checkpoint\n"
)
SMALL = ["--profile", "smoke", "--set", "training.documents=12"]


@pytest.fixture
def artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    return tmp_path / "artifacts"


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
    assert (
        error.value.code == code
        and message.count("\n") == 1
        and message.startswith("python -m lib.train: ")
    )
    return message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cosin"], "unknown model 'cosin'; nearest: cosine\n"),
        (["max-margin"], "unknown model 'max-margin'; nearest: max-margin;{distance};γ={gamma}\n"),
        (["SBERT"], "'SBERT' is no student that can be saved"),
        (["cosine", "--profile", "minni"], "unknown profile 'minni'; nearest: mini"),
        (["cosine", "--set", "training.document=3"], "unknown key; nearest: training.documents"),
        (["cosine", "--set", "training.documents"], "expected key=value"),
        (["cosine", "--seed", "-1"], "seeds.0: expected greater than or equal to 0, got -1"),
        (["cosine", "--out", "{tmp}/file"], "file is a file or a symbolic link"),
        (
            ["cosine", "--out", "{tmp}/file/below"],
            "below cannot be written: [Errno 17] File exists",
        ),
        (
            ["cosine", "--out", "{tmp}/notes"],
            "notes holds config.json and was not saved by this project",
        ),
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
            "ended or never came",
        ),
        (RuntimeError("The client socket has timed out after 600000ms"), "ended or never came"),
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
        (
            "tasks.folders={MINE: nowhere/mine}",
            "nowhere/tasks/mine: expected a folder with train.jsonl",
        ),
        (
            "tasks.folders={MINE: own/mine}",
            "own/tasks/mine: expected a folder with train.jsonl and test.jsonl",
        ),
        ("data_root=nowhere", "the data root 'nowhere' is not a folder"),
    ],
)
def test_missing_data_is_refused_before_any_work(
    untrained, capsys, tmp_path, monkeypatch, change, message
):
    monkeypatch.delenv("THESIS_DATA", raising=False)
    (tmp_path / "own/tasks/topic").mkdir(parents=True)
    (tmp_path / "own/documents.jsonl").write_text('{"id": "1", "text": "a"}')
    (tmp_path / "own/tasks/topic/train.jsonl").write_text("")
    folders = ["corpus.folders=[own]", "tasks.folders={MINE: own/topic}", f"data_root={tmp_path}"]
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


def test_a_student_that_cannot_be_saved_is_not_lost(artifacts, monkeypatch, capsys, tmp_path):
    """The disk is full after the training; the next try has nothing left to train, and then the checkpoint goes."""
    command = ["cosine", *SMALL, "--out", str(tmp_path / "out")]
    updates = []
    distill = training.distill

    def counted(*arguments, on_update, **keywords):
        updates.append(0)

        def count(*values):
            updates[-1] += 1
            on_update(*values)

        return distill(*arguments, on_update=count, **keywords)

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(training, "distill", counted)
    with monkeypatch.context() as patch:
        patch.setattr(export, "save_file", full_disk)
        with pytest.raises(SystemExit, match="1"):
            train.main(command)
    error = capsys.readouterr().err.splitlines()
    assert (
        f"cannot write {tmp_path / 'out'}: OSError: [Errno 28] No space left on device" in error[-1]
    )
    assert "loss " in "".join(error[:-1])  # the bar, then one line
    assert len(list(artifacts.rglob("*.pt"))) == 1 and not (tmp_path / "out").exists()
    train.main(command)
    assert updates[0] > 0 and updates[1] == 0
    assert "100%" in capsys.readouterr().err, "a bar that never moved ends at its total"
    assert Student.load(tmp_path / "out").dim == 384 and not list(artifacts.rglob("*.pt"))
    assert owned_folder.check_target(tmp_path / "out")  # may be replaced by the next one


@pytest.mark.parametrize("done", [0, 2])
def test_an_interrupted_training_is_told_how_to_go_on_and_keeps_its_checkpoint(
    artifacts, monkeypatch, capsys, done
):
    distill = training.distill

    def interrupted(*arguments, on_update, **keywords):
        def stop(update, *rest):
            if update == done:
                raise KeyboardInterrupt
            on_update(update, *rest)

        if not done:
            raise KeyboardInterrupt
        return distill(*arguments, on_update=stop, **keywords | {"checkpoint_every": 1})

    monkeypatch.setattr(training, "distill", interrupted)
    with pytest.raises(SystemExit, match="1"):
        train.main(["cosine", *SMALL, "--out", str(artifacts / "out")])
    assert capsys.readouterr().err.endswith(f"python -m lib.train: {INTERRUPTED}")
    assert bool(list(artifacts.rglob("*.pt"))) == bool(done)


def test_the_profile_decides_on_gradient_checkpointing(artifacts, monkeypatch):
    """`training.gradient_checkpointing` reaches both students."""
    from lib.config import profiles
    from lib.distillation import variants

    seen = []

    def look(student, *arguments, **keywords):
        seen.append(student.gradient_checkpointing)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "distill", look)
    for wanted in (True, False):
        settings = {"training.documents": 12, "training.gradient_checkpointing": wanted}
        profile = profiles.load("smoke", overrides=settings)
        for label in ("cosine", "cosine;[CLS]"):
            with pytest.raises(KeyboardInterrupt):
                student_training.train_student(variants.parse(label), 0, profile)
    assert seen == [True, True, False, False]


@pytest.fixture
def notes(artifacts, monkeypatch):
    """Forty short texts of two kinds and a blank one, with a task; THESIS_DATA, another place, does not count."""
    executors.end_workers()  # those of an earlier test have its artifact root
    monkeypatch.setenv("THESIS_DATA", str(artifacts))
    monkeypatch.setenv("THESIS_JOBS", "1")
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


def test_documents_of_ones_own_end_with_a_table_and_an_export(
    notes, artifacts, monkeypatch, capsys, tmp_path
):
    """O1: no file is edited, sizes follow the data, the student is trained once and set beside its base."""
    updates, distill = [], training.distill

    def counted(*arguments, on_update=None, **keywords):
        def count(*values):
            updates.append(values)
            if on_update:
                on_update(*values)

        return distill(*arguments, on_update=count, **keywords)

    monkeypatch.setattr(training, "distill", counted)
    train.main(["MSE", "--data", str(notes), *SMOKE, "--out", str(tmp_path / "out"), "--export"])
    printed, bar = capsys.readouterr()
    suggested = "suggested: train on 15 documents, hold out 3 (left out: 22 in tests, 1 without text or repeating another)"
    assert f"{suggested}, judge by 1 task: some 1 minute of a core, " in printed
    blank = "notes/kind: train.jsonl: 1 examples left out: a document without text"
    assert (
        f"left out: notes: 1 without text, notes: 22 in a test, {blank}, 3 that fill no batch; of"
        in printed
    )
    assert printed.startswith("notes: note: 1 document without text, left out: 40\n"), (
        "what lib.data.check notes"
    )
    assert "\ntrained; now judging it beside base, teacher and TF-IDF\n" in printed
    assert "0 at the student's 512 tokens and 0 at the teacher's 48 tokens" in printed
    assert "token/s" in bar and "100%" in bar
    for measure in ("halves of documents MRR", "notes/kind accuracy"):
        rows = re.findall(rf"{measure} +\d+ +(\D.*?) +[01]\.\d{{3}}\b", printed)
        assert rows == ["base", "teacher, cut", "teacher, chunks", "TF-IDF", "student (MSE)"]
        told = re.findall(
            rf"^{measure}: (the student is .* the base|no model is above guessing)",
            printed,
            re.MULTILINE,
        )
        assert len(told) == 1
    assert len(re.findall(r"^Over all measures: take \w", printed, re.MULTILINE)) == 1
    assert [done for done, *_ in updates] == [1, 2], "15 documents in batches of 6, once"
    assert (tmp_path / "out/modules.json").is_file() and Student.load(tmp_path / "out").dim == 384
    assert not list(artifacts.rglob("*.pt"))
    card = (tmp_path / "out/README.md").read_text()
    for told in (
        "# MSE, of documents from notes",
        "- notes: 18 documents, those held out among them",
        "- texts read in training: 12",
        "- layers: 1 of the base's 6",
        "## Verdict\n\n- One seed: the intervals are about other texts, not about other seeds.\n",
        "- halves of documents MRR: ",
        "- updates: 2",
        "- seed: 0",
        "- mse",
        "first 48 tokens",
    ):
        assert told in card, told
    row = r"\| halves of documents MRR \| \d+ \| student \(MSE\) \| (\d\.\d{3} \[.*?\]) \| ([+-]\d\.\d{3} \[.*?\]) \|"
    ((score, against),) = re.findall(row, card)
    assert f"{score} {against}" in re.sub(" +", " ", printed), (
        "the card has the table's scores and differences"
    )
    assert str(notes) not in card and str(tmp_path) not in card


def test_where_readme_puts_a_student_git_does_not_look():
    """Else the card of every later one would call the checkout dirty."""
    commands = re.findall(
        r"--out (\w+)/\w+", (paths.ROOT / "README.md").read_text(encoding="utf-8")
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
            ["--data", "{tmp}/notes", "--set", "data_root=/nowhere"],
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
        patch.setattr(train.shutil, "disk_usage", lambda place: SimpleNamespace(free=10**8))
        assert " MB are needed, 100 MB are free" in refused(capsys, command)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "--data trains in one process" in refused(capsys, command)


@pytest.mark.parametrize("launched", [["WORLD_SIZE"], ["MASTER_ADDR", "MASTER_PORT"]])
def test_half_a_launcher_is_refused_before_any_work(
    artifacts, capsys, monkeypatch, tmp_path, launched
):
    """WORLD_SIZE without torchrun would wait for ever; `accelerate launch --cpu` starts one process, however asked."""
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


def test_what_it_waits_for_is_told(artifacts, capsys, monkeypatch, tmp_path):
    """A process whose peers were never started waits for them, half an hour by default."""
    from lib.experiments import text_sets

    for name, value in {
        "LOCAL_RANK": 0,
        "RANK": 0,
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "n1",
        "MASTER_PORT": 29,
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(text_sets, "token_ids", lambda *_: 1 / 0)
    with pytest.raises(SystemExit):
        train.main(["cosine", *SMOKE, "--out", str(tmp_path / "out")])
    assert (
        "then the training begins, as soon as all 2 processes are at n1:29\n"
        in capsys.readouterr().out
    )


def test_each_process_has_its_own_gpu(monkeypatch):
    import torch

    from lib.experiments import models

    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for rank in ("0", "1"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert models.device.__wrapped__() == "cuda"
    assert taken == [0, 1]
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(
        ValueError,
        match="process 2 of this machine has no GPU, it has 2: start as many processes as",
    ):
        models.device.__wrapped__()


@pytest.mark.parametrize("place", ["artifacts/data", "notes"])
def test_no_permission_is_one_line(notes, untrained, capsys, monkeypatch, tmp_path, place):
    """Of the artifact root it says how another is named."""

    def forbidden(*arguments, **keywords):
        raise PermissionError(13, "Permission denied", str(tmp_path / place))

    monkeypatch.setattr(
        "lib.data.written_once.FileLock", forbidden
    )  # for root may write everywhere
    command = ["MSE", "--out", str(tmp_path / "out"), "--data", str(notes)]
    message = refused(capsys, command)
    assert f"[Errno 13] Permission denied: '{tmp_path / place}'" in message
    assert ("THESIS_ARTIFACTS names another folder" in message) == (place != "notes")


def test_bfloat16_only_where_the_processor_has_it(notes, monkeypatch, tmp_path):
    import torch

    seen = []
    monkeypatch.setattr(train, "_train", lambda variant, seed, profile, *_: seen.append(profile))
    monkeypatch.setattr(models, "device", lambda: "cpu")
    for there in ({"avx512_bf16": True}, {"avx512_f": True, "avx512_bf16": False}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda there=there: there)
        train.main(["cosine", "--data", str(notes), "--out", str(tmp_path / "out"), "--task"])
    assert [profile.training.precision for profile in seen] == ["bf16", "fp32"]
    assert {profile.name for profile in seen} == {"lab"} and seen[0].tasks.folders == {}
    assert seen[0].training.checkpoint_every == 5, "also a training of twenty updates is resumed"


def test_a_table_that_fails_loses_no_student(notes, monkeypatch, capsys, tmp_path):
    from lib.ledger import own_student

    def fail(*arguments):
        raise ValueError("no table today")

    monkeypatch.setattr(own_student, "compare", fail)
    command = ["MSE", "--data", str(notes), *SMOKE, "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="1"):
        train.main(command)
    assert capsys.readouterr().err.splitlines()[-1] == "python -m lib.train: no table today"
    assert Student.load(tmp_path / "out").dim == 384


@pytest.mark.parametrize("killed", [False, True])
def test_a_table_that_is_cut_off_saves_and_trains_nothing_again(
    notes, artifacts, monkeypatch, capsys, tmp_path, killed
):
    """The heads are interrupted, when embedding the texts of the task has removed the checkpoint; or killed then, when
    nothing puts it back: by the end of a terminal, of a batch system's time, of memory."""
    updates, distill = [], training.distill

    def counted(*arguments, on_update, **keywords):
        return distill(
            *arguments,
            on_update=lambda *values: (updates.append(values), on_update(*values)),
            **keywords,
        )

    def interrupt(*arguments):
        assert not list(artifacts.rglob("*.pt"))
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "distill", counted)
    command = ["MSE", "--data", str(notes), *SMOKE, "--out", str(tmp_path / "out"), "--export"]
    with monkeypatch.context() as patch:
        patch.setattr(runs, "_evaluate", interrupt)
        with pytest.raises(SystemExit, match="1"):
            train.main(command)
    assert capsys.readouterr().err.endswith(f"python -m lib.train: {INTERRUPTED}")
    assert (
        not (tmp_path / "out").exists()
        and len(list(artifacts.rglob("*.pt"))) == 1
        and len(updates) == 2
    )
    if killed:
        (checkpoint,) = artifacts.rglob("*.pt")
        checkpoint.rename(f"{checkpoint}.kept")
    train.main(command)
    assert (
        len(updates) == 2 and "- notes/kind accuracy: " in (tmp_path / "out/README.md").read_text()
    )
    assert not [path for path in artifacts.rglob("*.pt*") if path.suffix != ".lock"]
