"""The process that a command runs in: its variables, its versions, its commit."""

import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from lib.config import paths

# 1 and 2 threads give different bits; jobs run in parallel as processes. By default, MKL chooses
# kernels by the alignment of the data; with AUTO, a row does not depend on the rows around it.
_VARIABLES = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_VARIABLES |= {"MKL_CBWR": "AUTO", "TOKENIZERS_PARALLELISM": "false"}
# Freed arrays are kept, because clearing pages for new ones takes time (docs/speed.md).
_VARIABLES |= {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
# Kernels for few shapes are cached, because they take memory (docs/speed.md).
_VARIABLES |= dict.fromkeys(("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"), "128")
OFFLINE = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")
PACKAGES = "torch transformers sentence-transformers gensim numpy scipy scikit-learn pandas".split()


def process_variables(*, offline: bool) -> dict[str, str]:
    """The variables of a process that computes; `offline` keeps Hugging Face off the network."""
    variables = _VARIABLES | (OFFLINE if offline else {})
    # On every processor with AVX2, the same kernels of OpenBLAS: gensim's Paragraph Vectors from
    # sums in another order differ as if they had another seed. Its products are short for AVX-512.
    processor = Path("/proc/cpuinfo")
    if processor.exists() and {"avx2", "fma"} <= {*processor.read_text().split()}:
        variables["OPENBLAS_CORETYPE"] = "Haswell"
    return variables


def set_process_environment(*, offline: bool) -> None:
    """Set `process_variables` here, before NumPy and torch are imported, and for children."""
    os.environ.update(process_variables(offline=offline))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def versions() -> dict[str, str]:
    """The versions of Python, the system and `PACKAGES`."""
    installed = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **installed}


def commit() -> dict[str, str | bool | None]:
    """The commit, and whether files differ from it; None without git or a checkout."""
    lines = []
    if (paths.ROOT / ".git").exists() and shutil.which("git"):  # else perhaps in others' checkout
        command = ["git", "-C", str(paths.ROOT), "status", "--porcelain=v2", "--branch"]
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    # Lines about the branch begin with #, and the first of them ends with the commit.
    dirty = not lines[-1].startswith("#") if lines else None
    return {"commit": lines[0].split()[-1] if lines else None, "dirty": dirty}
