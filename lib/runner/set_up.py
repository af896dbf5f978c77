"""Find or make the Python environment that holds the pinned packages, and print the path of its Python.

Runs before anything is installed, so it imports the standard library alone. `lib/setup.sh` starts it.

An active environment serves if it holds the pinned versions and its `lib` is this checkout's. Otherwise `.venv` is
made. A set-up that was killed is done again: a file that is written last says that it reached its end. Two set-ups at
once wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
COMPLETE = VENV / ".complete"  # holds `recipe()`; written last
STARTED = VENV / ".started"  # tells a folder that this script made from one that somebody else made
# Run by the Python in question, whichever it is: what it has installed, and where its `lib` comes from.
PROBE = """
import importlib.metadata as metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        found[name] = None
try:
    origin = metadata.distribution("thesis-companion").read_text("direct_url.json")
except metadata.PackageNotFoundError:
    origin = None
print(json.dumps({"versions": found, "origin": origin, "python": list(sys.version_info[:2])}))
"""


def say(text: str) -> None:
    """Tell the person; standard output belongs to the result."""
    print(text, file=sys.stderr, flush=True)


def pins() -> dict[str, str]:
    """Direct dependency -> the version that the lock file pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    direct = {_normal(re.split(r"[^A-Za-z0-9._-]", text)[0]) for text in project["dependencies"]}
    lines = [line.split("#")[0].strip() for line in LOCK.read_text(encoding="utf-8").splitlines()]
    locked = dict(line.split("==") for line in lines if "==" in line)
    return {name: version for name, version in locked.items() if _normal(name) in direct}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def unfit(python: Path) -> str | None:
    """Why an environment cannot be used, in a few words; None if it can."""
    wanted = pins()
    try:
        answer = subprocess.run([python, "-I", "-c", PROBE, *wanted], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "its Python does not run"
    found = json.loads(answer.stdout)
    if found["python"] < [3, 11]:
        return "its Python is older than 3.11"
    for name, version in wanted.items():
        has = found["versions"][name]
        if has is None or has.split("+")[0] != version:  # a local tag such as +cpu names a build, not a version
            return f"it has {name} {has or '(none)'}, the lock says {version}"
    if found["origin"] is None:
        return None  # the runner brings its own `lib` along
    place = Path(unquote(urlparse(json.loads(found["origin"])["url"]).path))
    return None if place.resolve() == ROOT else f"its lib belongs to another clone, {place}"


def active() -> Path | None:
    """The Python of the environment that the person has activated, if any."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.environ.get(variable)
        if folder and Path(folder, "bin", "python").exists() and Path(folder).resolve() != VENV:
            return Path(folder, "bin", "python")
    found = shutil.which("python3")
    return Path(found) if found and Path(found).parent != VENV / "bin" else None


def recipe() -> str:
    """What `.venv` was made from: another lock file, or another place, needs another `.venv`."""
    content = LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes() + str(ROOT).encode()
    return hashlib.sha256(content).hexdigest()


def ready() -> bool:
    """Whether `.venv` is whole and up to date."""
    python = VENV / "bin" / "python"
    if not STARTED.exists():  # not made here: judged by what it holds
        return python.exists() and unfit(python) is None
    return COMPLETE.exists() and COMPLETE.read_text(encoding="utf-8") == recipe() and unfit(python) is None


def make() -> None:
    """Make `.venv` from the lock file; `SystemExit` with one line and the log's place if that fails."""
    if VENV.exists() and not STARTED.exists():
        why = unfit(VENV / "bin" / "python")
        raise SystemExit(f"{VENV} was not made by run_all.sh and cannot be used: {why}; remove it and run again")
    log = ROOT / (os.environ.get("THESIS_ARTIFACTS") or "artifacts") / "setup.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f"making {VENV} from {LOCK.name} (log: {log})")
    begin = time.monotonic()
    VENV.mkdir(exist_ok=True)
    STARTED.touch()
    COMPLETE.unlink(missing_ok=True)
    for old in (path for path in VENV.iterdir() if path != STARTED):  # a kill from here on leaves a .venv of ours
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    python = str(VENV / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off"]
    with open(log, "w", encoding="utf-8") as output:
        _step("creating the environment", [sys.executable, "-m", "venv", str(VENV)], output, log)
        _step("installing the pinned packages", [*pip, "-r", str(LOCK)], output, log)
        # --no-build-isolation: the build tool is in the lock file, so nothing unpinned is fetched
        own = [*pip, "--no-build-isolation", "--no-deps", "--editable", str(ROOT)]
        _step("installing lib", own, output, log)
    why = unfit(Path(python))
    if why:
        raise SystemExit(f"{VENV} is not as the lock file says: {why}; see {log}")
    COMPLETE.write_text(recipe(), encoding="utf-8")
    say(f"environment ready after {time.monotonic() - begin:.0f} s")


def _step(name: str, command: list[str], output, log: Path) -> None:
    """Run one command into the log and show that it is alive."""
    begin = shown = time.monotonic()
    terminal = sys.stderr.isatty()
    say(f"  {name} ...")
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        while process.poll() is None:
            time.sleep(0.2)
            if time.monotonic() - shown > (1 if terminal else 30):
                shown = time.monotonic()
                line = f"  {name}: {shown - begin:.0f} s, {_packages(log)}"
                print(line, end="\r" if terminal else "\n", file=sys.stderr, flush=True)
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        tail = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        errors = [line for line in tail if "ERROR" in line or "error:" in line.lower()] or tail
        raise SystemExit(f"{name} failed: {errors[-1].strip() if errors else 'no output'}; see {log}")


def _packages(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    if "Installing collected packages" in text:
        return "unpacking"
    return f"{text.count('Collecting ')} packages found"


def main() -> None:
    """Print the path of a Python that fits; make `.venv` first if there is none."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # pip must not go on alone
    python = active()
    why = unfit(python) if python else None
    if python and why is None:
        print(python)
        return
    if python and "another clone" in why:
        say(f"not using the active environment ({python.parent.parent}): {why}")
    try:
        if not ready():
            with open(ROOT / ".venv.lock", "w", encoding="utf-8") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    say("another set-up is at work, waiting")
                    fcntl.flock(lock, fcntl.LOCK_EX)
                if not ready():  # the other one may have made it
                    make()
    except OSError as error:
        raise SystemExit(f"cannot make {VENV}: {error.strerror}: {error.filename}") from None
    except KeyboardInterrupt:
        raise SystemExit("set-up stopped; the next call starts it again") from None
    print(VENV / "bin" / "python")


if __name__ == "__main__":
    main()
