"""A notebook in JupyterLab, in a real browser, used as the README says, at smoke scale.

It needs Debian's Chromium and playwright (the extra `browser`); `tests/run.sh` installs both.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import psutil
import pytest

from lib.config import manifest, paths

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
playwright = pytest.importorskip(
    "playwright.sync_api", reason='no playwright here: see "browser" in pyproject.toml'
)

HOUR = 3_600_000  # milliseconds; a whole notebook may take it, where other work goes on
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
# The numbers of the cells, `*` for one that waits or works.
CELLS = "[...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')]"
PROMPTS = f"{CELLS}.map(prompt => prompt.innerText).join(' ')"
RANKING = "document.querySelector('.jupyter-widgets .jp-RenderedHTMLCommon')?.innerText"
STDERR = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'


@pytest.fixture
def address(tmp_path):
    """Of `./run_all.sh --lab` in a copy of the checkout, since JupyterLab saves what is typed."""
    checkout, log = tmp_path / "checkout", tmp_path / "server.log"
    left_out = shutil.ignore_patterns(".*", "artifacts", "tests", "__pycache__")
    shutil.copytree(paths.ROOT, checkout, ignore=left_out)
    settings = tmp_path / "lab/user-settings/@jupyterlab/notebook-extension"
    settings.mkdir(parents=True)
    whole = {"windowingMode": "none"}  # cells out of sight stay in the page and can be counted
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps(whole))
    ours = ("THESIS_", "JUPYTER", "IPYTHON", "PYTHONPATH", "MPLBACKEND")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    variables |= {"VIRTUAL_ENV": sys.prefix, "JUPYTER_CONFIG_DIR": str(tmp_path)}
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = ["--lab", "notebooks/00_start_here.ipynb", "--no-browser", "--allow-root"]
    words += ["--IdentityProvider.token", "secret", f"--ServerApp.port={port}"]
    with open(log, "w", encoding="utf-8") as file:
        command = [checkout / "run_all.sh", *words]
        process = subprocess.Popen(command, cwd=checkout, env=variables, stdout=file, stderr=file)
    try:
        while "is running at" not in log.read_text():
            assert process.poll() is None, log.read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            each.kill()
        process.wait()


@pytest.fixture
def page(address):
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.set_default_timeout(HOUR)
        page.goto(f"{address}/lab/tree/notebooks/00_start_here.ipynb?token=secret")
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        yield page
        browser.close()


def run_all_cells(page, profile):
    """Type a profile into the parameters cell, the first cell of code; then Run All Cells."""
    editor = page.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    text, before = editor.inner_text(), page.evaluate(PROMPTS)
    editor.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(re.sub('^profile = "[^"]*"', f'profile = "{profile}"', text))
    for name in ("Run", "Run All Cells"):
        page.get_by_role("menuitem", name=name, exact=True).click()
    page.wait_for_function(f"before => before !== {PROMPTS}", arg=before)
    return wait(page)


def wait(page):
    """Wait until no cell works; all that is on the page as an error or a warning."""
    page.wait_for_function(f"() => !{PROMPTS}.includes('*')")
    return [text.strip() for text in page.locator(STDERR).all_inner_texts() if text.strip()]


def test_a_wrong_parameter_is_one_line_and_corrected_the_notebook_runs(page):
    assert run_all_cells(page, "smok") == ["ParameterError: unknown profile 'smok'; nearest: smoke"]
    assert run_all_cells(page, "smoke") == []
    last = page.locator(".jp-Notebook .jp-Cell").last.inner_text()
    assert "notebook complete: 00_start_here" in last
    promised = manifest.promised(manifest.load(), "00_start_here").values()
    images = page.locator(".jp-OutputArea-output img").all()
    assert len(images) >= sum(entry.kind in ("figure", "drawing") for entry in promised) > 0
    assert all(image.evaluate("image => image.naturalWidth") > 300 for image in images)
    before = page.evaluate(RANKING)  # of the question box, by a teacher that reads 24 tokens
    page.locator(".jupyter-widgets select").select_option("256")
    page.wait_for_function(f"before => {RANKING} && {RANKING} !== before", arg=before)
    assert wait(page) == []
