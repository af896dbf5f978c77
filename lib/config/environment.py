"""Environment variables that make results repeatable on the same machine, and fast."""

import os
import sys
from pathlib import Path

# 1 and 2 threads give different bits; jobs run in parallel as processes. By default, MKL chooses
# kernels by the alignment of the data; with AUTO, a row does not depend on the rows around it.
_REPEATABLE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_REPEATABLE |= {"MKL_CBWR": "AUTO", "TOKENIZERS_PARALLELISM": "false"}
# glibc returns large arrays to the system, and clearing pages for new ones takes 5% of a training.
# With these limits, processes keep arrays of up to 32 MB, the largest size that every glibc allows.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
# oneDNN and PyTorch's wrapper each cache kernels for 1,024 shapes: a gigabyte in bfloat16, where
# every number of tokens is a shape of its own.
_MEMORY |= dict.fromkeys(("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"), "128")
OFFLINE = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")


def process_variables(*, offline: bool) -> dict[str, str]:
    """The variables of a process that computes; `offline` keeps Hugging Face off the network."""
    variables = _REPEATABLE | _MEMORY | (OFFLINE if offline else {})
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
