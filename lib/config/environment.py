"""What every process must have in its environment before NumPy and torch load, so that numbers repeat."""

import os
import sys
import warnings
from pathlib import Path

# 1 and 2 threads give different bits; parallelism is processes. MKL picks its kernels by the alignment of the data
# unless told otherwise: with AUTO a row's result no longer depends on what stands beside it, at no cost in time.
_REPEATABLE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_REPEATABLE |= {"MKL_CBWR": "AUTO", "TOKENIZERS_PARALLELISM": "false"}
# Libraries take other kernels with AVX-512 than with AVX2 alone, which add up in another order, and a Paragraph Vector
# is then another run of itself. Those for AVX2 run on both. KERNELS has, for a library that chooses when it is loaded,
# the variable and its value: OpenBLAS, with which gensim and NumPy multiply, and PyTorch itself. MKL chooses at its
# first product, on an AMD processor always as with AUTO.
KERNELS = {"numpy": ("OPENBLAS_CORETYPE", "Haswell"), "torch": ("ATEN_CPU_CAPABILITY", "avx2")}
_PROCESSOR = Path("/proc/cpuinfo")
if _PROCESSOR.exists() and {"avx2", "fma"} <= {*_PROCESSOR.read_text().split()}:
    _REPEATABLE |= {**dict(KERNELS.values()), "MKL_CBWR": "AVX2"}
# glibc gives large arrays back to the system when they are freed and asks for them again, pages that have to be cleared
# each time: a twentieth of a training's time. Processes that start with this keep arrays of up to 32 MB, the most that
# any glibc allows, and workers give back what a job has left.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
# oneDNN and PyTorch's wrapper of it each keep a kernel for 1,024 shapes: a gigabyte, as every number of tokens is one.
_MEMORY |= dict.fromkeys(("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"), "128")
OFFLINE = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")


def process_variables(*, offline: bool) -> dict[str, str]:
    """The variables of a process that computes, whatever its caller has set. offline: no network is looked for."""
    return _REPEATABLE | _MEMORY | (OFFLINE if offline else {})


def set_process_environment(*, offline: bool) -> None:
    """Set them for this process and those it starts; every door (notebooks, workers, tests, train) calls it first."""
    wanted = process_variables(offline=offline)
    late = {
        name: wanted[name]
        for library, (name, _) in KERNELS.items()
        if library in sys.modules and name in wanted
    }
    if not late.items() <= os.environ.items():
        told = "NumPy or torch was loaded before its kernels were chosen, so last bits may differ"
        warnings.warn(f"{told}: restart, and run this first", stacklevel=3)
    os.environ.update(wanted)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
