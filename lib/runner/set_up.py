"""Run Python arguments in an environment that holds the pinned packages; make it in `.venv` if there is none.

`set_up.py [--look] -m lib.runner.run_all ...`, with the standard library alone. `MARK` tells a `.venv` of ours from
somebody's own, and is empty until everything is installed, so a set-up that was killed is done again.
"""

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
MARK = VENV / ".made_by_run_all"


def check() -> None:
    """End with the reason why the Python that runs this cannot be used, if there is one."""
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        name, _, pinned = line.split("#")[0].strip().partition("==")
        version = metadata.version(name) if name else ""
        if version.split("+")[0] != pinned:  # a local tag such as +cpu names a build, not a version
            raise SystemExit(f"it has {name} {version}, {LOCK.name} says {pinned}")


def unfit(python: Path) -> str:
    """Why a Python cannot be used; empty if it can."""
    if not python.is_file():
        return "it has no Python"
    done = subprocess.run([python, "-I", __file__, "--check"], capture_output=True, text=True)
    return (
        (done.stderr.strip() or "it cannot run").splitlines()[-1].split("Error: ")[-1]
        if done.returncode
        else ""
    )


def ready() -> Path | None:
    """A Python that can be used as it is: the active environment's, or that of `.venv`."""
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    other, own = (
        Path(active, "bin", "python") if active else Path(sys.executable),
        VENV / "bin" / "python",
    )
    if not (reason := unfit(other)) and other != own:
        return other
    if active and reason:
        print(f"not using the active environment ({active}): {reason}", file=sys.stderr)
    whole = not MARK.exists() or MARK.read_text(encoding="utf-8") == str(
        ROOT
    )  # scripts in it name their place
    return own if whole and not unfit(own) else None


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have this process end as soon as its parent does (Linux); 0 takes it back."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG of linux/prctl.h


def make() -> None:
    """Make `.venv`, unless another set-up has just done so; pip ends with this process and holds the lock."""
    with open(ROOT / ".venv.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another set-up is at work, waiting", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if ready():
            return
        if VENV.exists() and not MARK.exists():
            raise SystemExit(f"{VENV} is not ours and cannot be used; remove it and run again")
        print(f"making {VENV} from {LOCK.name}, some minutes and 2 GB", file=sys.stderr)
        VENV.mkdir(exist_ok=True)
        MARK.write_text("", encoding="utf-8")
        subprocess.run(
            ["find", VENV, "-mindepth", "1", "!", "-name", MARK.name, "-delete"], check=True
        )
        pip = ["pip", "install", "--disable-pip-version-check", "--no-input", "-r", LOCK]
        for python, words in ((sys.executable, ["venv", VENV]), (VENV / "bin" / "python", pip)):
            environment = {**os.environ, "TMPDIR": str(VENV)}  # what is left half done goes with it
            held = {"pass_fds": [lock.fileno()], "preexec_fn": end_with_parent}
            if subprocess.run(
                [python, "-I", "-m", *words], env=environment, stdout=sys.stderr, **held
            ).returncode:
                raise SystemExit(
                    f"set-up failed: {words[0]} says above why; the next call tries again"
                )
        (site,) = VENV.glob("lib/python3*/site-packages")
        (site / "thesis_companion.pth").write_text(
            f"{ROOT}\n", encoding="utf-8"
        )  # `import lib`, in Jupyter too
        MARK.write_text(str(ROOT), encoding="utf-8")


def main(words: list[str]) -> None:
    """Become `python <words>` in a Python that fits; with `--look` nothing is made."""
    if words == ["--check"]:
        return check()
    python = ready()
    if python is None and words[0] == "--look":
        return print(
            "would set up first: no environment holds the pinned packages (./run_all.sh --setup does)"
        )
    if python is None:
        end_with_parent()
        make()
        end_with_parent(0)
        python = VENV / "bin" / "python"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    words = words[1:] if words[0] == "--look" else words
    # -P keeps the caller's folder off the import path: another clone's lib may lie there.
    os.execve(python, [python, "-P", *words], {**os.environ, "PYTHONPATH": path})


if __name__ == "__main__":
    sys.tracebacklimit = 0  # an error is one line
    main(sys.argv[1:])
