"""Which code and packages made something: for the provenance of figures and the cards of models."""

import functools
import platform
import subprocess
from importlib import metadata
from typing import Any

from lib.config import paths

PACKAGES = "torch transformers sentence-transformers gensim numpy scipy".split()
PACKAGES += "scikit-learn pandas matplotlib seaborn".split()


def commit() -> dict[str, Any]:
    """Return the commit, and whether files differ from it; None without git or a checkout."""
    if not (paths.ROOT / ".git").exists():  # installed, perhaps inside somebody else's checkout
        return {"commit": None, "dirty": None}
    command = ["git", "status", "--porcelain=v2", "--branch"]
    try:
        lines = subprocess.check_output(
            command, cwd=paths.ROOT, stderr=subprocess.DEVNULL, text=True
        ).splitlines()
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
    # Lines about the branch begin with #, and the first of them ends with the commit.
    return {"commit": lines[0].split()[-1], "dirty": not lines[-1].startswith("#")}


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python, the system and `PACKAGES`."""
    installed = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **installed}
