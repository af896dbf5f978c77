"""The site builds without a warning, and copies of executed notebooks hold nothing of one run."""

import importlib.util
import json
import os
import subprocess
import sys

import nbformat
import papermill
import pytest

from lib.config import paths
from lib.runner import publish
from lib.runner.execute import PATIENCE

SOURCE = "\n".join(
    [
        "import sys",
        "import pandas as pd",
        "from IPython.display import display",
        'print("half " + "done", file=sys.stderr)',
        f'print("{paths.ROOT}/figures is where they are")',
        "display(pd.DataFrame({'loss': [1.0]}))",
        "1 + 1",
    ]
)

TEXT = "# 42 · A trial\n\nSee [itself](42_trial.ipynb), [more](own.ipynb), [words](../docs/log.md)."


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A folder with a notebook, as papermill leaves it."""
    folder = tmp_path_factory.mktemp("executed")
    cells = [
        nbformat.v4.new_markdown_cell(TEXT),
        nbformat.v4.new_code_cell('profile = "mini"', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(SOURCE),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    source = folder / "source" / "42_trial.ipynb"
    source.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), source)
    papermill.execute_notebook(
        source, folder / source.name, {"seeds": None}, progress_bar=False, **PATIENCE
    )
    return folder


@pytest.mark.smoke
def test_a_copy_has_results_and_nothing_of_the_run(executed, tmp_path):
    (copy,) = publish.publish(executed, tmp_path)
    text = copy.read_text(encoding="utf-8")
    nbformat.validate(json.loads(text))
    for trace in (
        "papermill",
        "half done",
        str(paths.ROOT),
        "start_time",
        "iopub",
        "0x7",
        "injected",
    ):
        assert trace not in text, trace
    for result in ("./figures is where they are", "loss", '"2"'):
        assert result in text, result
    for target in ("(42_trial.ipynb)", "(../../notebooks/own.ipynb)", "(../../docs/log.md)"):
        assert target in text, target
    before = copy.read_bytes()
    publish.publish(executed, tmp_path)
    assert copy.read_bytes() == before


@pytest.mark.smoke
def test_two_runs_give_the_same_bytes(executed, tmp_path):
    again = tmp_path / "42_trial.ipynb"
    papermill.execute_notebook(
        executed / "source" / again.name, again, {"seeds": None}, progress_bar=False, **PATIENCE
    )
    assert publish.clean(again) == publish.clean(executed / again.name)


@pytest.mark.parametrize("missing", ["count", "success"])
def test_an_unfinished_run_is_refused_and_nothing_is_written(missing, tmp_path):
    cell = nbformat.v4.new_code_cell("1 + 1", execution_count=1)
    if missing == "count":
        cell.execution_count = None
    elif missing == "success":
        cell.outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="no")]
    folder = tmp_path / "executed"
    folder.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "00.ipynb")
    with pytest.raises(ValueError, match="failed or did not run"):
        publish.publish(folder, tmp_path / "copies")
    assert not (tmp_path / "copies").exists()


@pytest.mark.smoke
@pytest.mark.skipif(not importlib.util.find_spec("myst_nb"), reason="pip install .[docs]")
@pytest.mark.parametrize("repository", ["", "https://example.org/me/thesis"])
def test_the_site_builds_from_the_checkout_without_a_network(repository, tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    environment = os.environ | {"THESIS_REPOSITORY": repository}
    done = subprocess.run(
        [*command, str(paths.ROOT / "docs"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert {"index", "results", "contributing", "code", "search"} <= pages.keys()
    assert len(pages["code"]) > len(pages["index"])  # the file that the page shows
    scripts = [line for text in pages.values() for line in text.split("<") if "script" in line[:7]]
    assert not [line for line in scripts if 'src="http' in line]
    assert ("example.org" in pages["code"]) == bool(repository)
