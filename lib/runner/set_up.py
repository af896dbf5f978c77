"""Run Python arguments in an environment that holds the pinned packages; make it in `.venv` if there is none.

`set_up.py [--look] -m lib.runner.run_all ...`, with the standard library alone. `MARK` tells a `.venv` of ours from
somebody's own, and is empty until everything is installed, so a set-up that was killed is done again.
"""

import os
import shutil
import subprocess
import sys
import time
from importlib import metadata, util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
MARK = VENV / ".made_by_run_all"
# Runs a module, and kills its own process group as soon as nobody holds the other end of its standard input.
GUARDED = """
import os, runpy, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os.killpg(0, 9)), daemon=True).start()
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def say(text: str) -> None:
    """Tell the person; standard output belongs to the result."""
    print(text, file=sys.stderr, flush=True)


def lacking() -> str:
    """Why the Python that runs this cannot be used, in a few words; empty if it can."""
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        name, _, pinned = line.split("#")[0].strip().partition("==")
        try:
            version = metadata.version(name) if pinned else ""
        except metadata.PackageNotFoundError:
            version = "(none)"
        if version.split("+")[0] != pinned:  # a local tag such as +cpu names a build, not a version
            return f"it has {name} {version}, {LOCK.name} says {pinned}"
    lib = util.find_spec("lib")
    other = lib and lib.origin and Path(lib.origin).resolve() != ROOT / "lib" / "__init__.py"
    return f"its lib belongs to another clone, {lib.origin}" if other else ""


def unfit(python: Path) -> str:
    """Why another Python cannot be used; empty if it can."""
    try:
        return subprocess.check_output([python, "-I", __file__, "--lacking"], stderr=subprocess.DEVNULL, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "its Python does not run"


def ready() -> Path | None:
    """A Python that can be used as it is: the active environment's, this one, or that of `.venv`."""
    active, own = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX"), VENV / "bin" / "python"
    if active and Path(active).resolve() != VENV:
        if not (reason := unfit(Path(active, "bin", "python"))):
            return Path(active, "bin", "python")
        say(f"not using the active environment ({active}): {reason}")
    elif not active and not lacking():
        return Path(sys.executable)
    whole = not MARK.exists() or MARK.read_text(encoding="utf-8") == recipe()
    return own if whole and not unfit(own) else None


def recipe() -> str:
    """What `.venv` is made from: another lock file, or another place, needs another `.venv`."""
    return f"{ROOT}\n{LOCK.read_text(encoding='utf-8')}"


def make() -> Path:
    """Make `.venv`, unless another set-up has just done so; `SystemExit` with one line if that fails."""
    import fcntl  # not on Windows, which `main` refuses

    with open(ROOT / ".venv.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is at work, waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if (python := ready()) is not None:
            return python
        python = VENV / "bin" / "python"
        if VENV.exists() and not MARK.exists():
            raise SystemExit(f"{VENV} is not ours and cannot be used: {unfit(python)}; remove it and run again")
        VENV.mkdir(exist_ok=True)
        MARK.write_text("", encoding="utf-8")
        for path in VENV.iterdir():
            if path != MARK:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        log = ROOT / (os.environ.get("THESIS_ARTIFACTS") or "artifacts") / "setup.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        say(f"making {VENV} from {LOCK.name}, some minutes and 2 GB (log: {log})")
        guarded([sys.executable, "venv", str(VENV)], log, lock)
        options = ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "-r", str(LOCK)]
        guarded([str(python), "pip", "install", *options], log, lock)
        (site,) = VENV.glob("lib/python3*/site-packages")
        (site / "thesis_companion.pth").write_text(f"{ROOT}\n", encoding="utf-8")  # `import lib`, in Jupyter too
        if reason := unfit(python):
            raise SystemExit(f"set-up failed: {reason}; see {log}")
        MARK.write_text(recipe(), encoding="utf-8")
        return python


def guarded(command: list[str], log: Path, lock) -> None:
    """Run a Python's module to its end. It dies with us and with whoever started us, and holds the lock until then."""
    begin, parent = time.monotonic(), os.getppid()
    with open(log, "a", encoding="utf-8") as output:
        process = subprocess.Popen(
            [command[0], "-I", "-c", GUARDED, *command[1:]], stdin=subprocess.PIPE, stdout=output, stderr=output,
            start_new_session=True, pass_fds=[lock.fileno()], env={**os.environ, "TMPDIR": str(VENV)},
        )  # fmt: skip
    while process.poll() is None:
        time.sleep(0.2)
        if os.getppid() != parent:
            raise SystemExit("set-up stopped: what started it has ended")
        if time.monotonic() - begin > 30:
            begin += 30
            say(f"  {command[1]} is at work")
    if process.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower()] or lines or ["no output"]
        raise SystemExit(f"set-up failed: {errors[-1].strip()}; see {log}")


def main(words: list[str]) -> None:
    """Become `python <words>` in a Python that fits; with `--look` nothing is made."""
    if sys.platform == "win32":
        raise SystemExit("set-up failed: Linux or macOS is needed (file locks, process groups); on Windows use WSL")
    if words == ["--lacking"]:
        return print(lacking(), end="")
    try:
        python = ready()
        if python is None and words[0] == "--look":
            return print("would set up first: no environment holds the pinned packages (./run_all.sh --setup does)")
        python = python or make()
    except OSError as error:
        raise SystemExit(f"set-up failed: {error.strerror}: {error.filename}") from None
    except KeyboardInterrupt:
        raise SystemExit("set-up stopped; the next call starts it again") from None
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    words = words[1:] if words[0] == "--look" else words
    # -P keeps the caller's folder off the import path: another clone's lib may lie there.
    os.execve(python, [python, "-P", *words], {**os.environ, "PYTHONPATH": path})


if __name__ == "__main__":
    main(sys.argv[1:])
