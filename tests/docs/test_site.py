"""The site builds without a warning, links lead somewhere, and copies of executed notebooks hold
nothing of one run.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys

import nbformat
import papermill
import pytest

from docs import publish
from lib.config import paths
from lib.runner.execute import PATIENCE

SOURCE = f"""
import sys
import pandas as pd
from IPython.display import display
print("half " + "done", file=sys.stderr)
print("{paths.ROOT}/figures is where they are")
display(pd.DataFrame({{'loss': [1.0]}}))
"""
TEXT = "# 42 · A trial\n\nSee [itself](42_trial.ipynb), [more](own.ipynb), [words](../docs/log.md)."
PAGES = [paths.ROOT / name for name in ("README.md", "CONTRIBUTING.md", "lib/README.md")]
PAGES += sorted(paths.ROOT.glob("docs/**/*.md"))


@pytest.mark.smoke
def test_a_copy_has_results_and_nothing_of_the_run(tmp_path):
    cells = [
        nbformat.v4.new_markdown_cell(TEXT),
        nbformat.v4.new_code_cell('profile = "mini"', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(SOURCE),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    source, executed = tmp_path / "42_trial.ipynb", tmp_path / "executed.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), source)
    papermill.execute_notebook(source, executed, {"seeds": None}, progress_bar=False, **PATIENCE)
    text = publish.clean(executed)
    nbformat.validate(json.loads(text))
    for trace in ("papermill", "half done", str(paths.ROOT), "start_time", "iopub", "injected"):
        assert trace not in text, trace
    for result in ("./figures is where they are", "loss"):
        assert result in text, result
    for target in ("(42_trial.ipynb)", "(../../notebooks/own.ipynb)", "(../../docs/log.md)"):
        assert target in text, target


@pytest.mark.parametrize("missing", ["count", "success"])
def test_an_unfinished_run_is_not_copied(missing, tmp_path):
    cell = nbformat.v4.new_code_cell("1 + 1", execution_count=None if missing == "count" else 1)
    if missing == "success":
        cell.outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="no")]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "00.ipynb")
    with pytest.raises(ValueError, match="failed or did not run"):
        publish.clean(tmp_path / "00.ipynb")


@pytest.mark.smoke
@pytest.mark.skipif(not importlib.util.find_spec("myst_nb"), reason="pip install .[docs]")
def test_the_site_builds_from_the_checkout_without_a_network(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", str(paths.ROOT / "docs"), str(tmp_path)]
    environment = os.environ | {"THESIS_REPOSITORY": "https://example.org/me/thesis"}
    subprocess.run(command, env=environment, check=True)
    pages = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert {"index", "results", "contributing", "code", "search"} <= pages.keys()
    assert len(pages["code"]) > len(pages["index"])  # the file that the page shows
    assert "example.org" in pages["code"]
    assert not re.search('<script[^>]* src="http', "".join(pages.values()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_link_of_a_document_is_broken(page):
    """Files and headings; CHANGELOG.md links to files of its time."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        file, _, heading = target.partition("#")
        linked = page.parent / file if file else page
        assert linked.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.M)
            slugs = [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings]
            assert heading in slugs, target
