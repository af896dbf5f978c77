"""What a process needs in its environment so that one machine repeats itself."""

import os
import sys
from pathlib import Path

# 1 and 2 threads give different bits; parallelism is processes. MKL picks its kernels by the
# alignment of the data unless told otherwise: with AUTO a row's result does not depend on what
# stands beside it, at no cost in time.
_REPEATABLE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_REPEATABLE |= {"MKL_CBWR": "AUTO", "TOKENIZERS_PARALLELISM": "false"}
# glibc gives large arrays back to the system when they are freed and asks for them again, pages
# that have to be cleared each time: a twentieth of a training's time. With this, processes keep
# arrays of up to 32 MB, the most that any glibc allows.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
# oneDNN and PyTorch's wrapper of it each keep a kernel for 1,024 shapes, a gigabyte in bfloat16,
# where every number of tokens is a shape.
_MEMORY |= dict.fromkeys(("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"), "128")
OFFLINE = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")


def process_variables(*, offline: bool) -> dict[str, str]:
    """The variables of a process that computes, whatever its caller has set.

    Parameters
    ----------
    offline : bool
        Whether Hugging Face's libraries must not look for a network.
    """
    return _REPEATABLE | _openblas() | _MEMORY | (OFFLINE if offline else {})


def set_process_environment(*, offline: bool) -> None:
    """Set them for this process and those it starts, before NumPy and torch are imported."""
    os.environ.update(process_variables(offline=offline))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _openblas() -> dict[str, str]:
    """OpenBLAS's kernels for AVX2, where a processor has it.

    gensim multiplies with OpenBLAS, and a Paragraph Vector whose sums are added up in another order
    is another run of itself. With AVX-512 the choice costs no time: these products are short.
    """
    processor = Path("/proc/cpuinfo")
    if processor.exists() and {"avx2", "fma"} <= {*processor.read_text().split()}:
        return {"OPENBLAS_CORETYPE": "Haswell"}
    return {}
