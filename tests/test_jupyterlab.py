"""The notebooks in JupyterLab, in a real browser, opened and used as the README says: at smoke
scale, two workers.

It needs Debian's Chromium and playwright (the extra `browser`); `tests/run.sh` installs both.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import psutil
import pytest

from lib.config import manifest, paths

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
playwright = pytest.importorskip(
    "playwright.sync_api", reason='no playwright here: see "browser" in pyproject.toml'
)

MINUTES = 60  # a whole notebook may take, where other work goes on
SETTINGS = {
    "notebook-extension/tracker": {
        "windowingMode": "none"
    },  # cells out of sight stay in the page and can be counted
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
# The numbers of the cells, `*` for one that waits or works; and what the one at work shows, a text
# for each output.
PROMPTS = """[...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')]
    .map(prompt => prompt.innerText).join(' ')"""
AT_WORK = """[...document.querySelectorAll('.jp-Notebook .jp-CodeCell')]
    .filter(cell => cell.querySelector('.jp-InputPrompt').innerText.includes('*')).slice(0, 1)
    .flatMap(cell => [...cell.querySelectorAll('.jp-OutputArea-output')])
    .map(output => output.innerText)"""
RANKING = "document.querySelector('.jupyter-widgets .jp-RenderedHTMLCommon')?.innerText"
# Notes at each change of the page what the cell at work shows, as a bar may stand for a moment.
WATCH = f"""() => {{
    window.watcher?.disconnect();
    window.shown = [];
    const note = () => shown.push(...{AT_WORK}.filter(text => !shown.includes(text)));
    window.watcher = new MutationObserver(note);
    watcher.observe(document.body, {{subtree: true, childList: true, characterData: true}});
}}"""
DONE = f"""until => !{PROMPTS}.includes('*')
    || (until && shown.some(text => RegExp(until).test(text)))"""


class Lab:
    """JupyterLab with one notebook, in one tab of the browser."""

    def __init__(self, page, address: str, token: str, server: int) -> None:
        self.page, self.address, self.token, self.server = page, address, token, server

    def open(self, name: str) -> None:
        """Open a notebook alone: in a workspace of its own, after all other kernels have ended."""
        token = f"token={self.token}"
        for kernel in self.page.request.get(f"{self.address}/api/kernels?{token}").json():
            self.page.request.delete(f"{self.address}/api/kernels/{kernel['id']}?{token}")
        self.page.goto(f"{self.address}/lab/workspaces/{name}/tree/notebooks/{name}.ipynb?{token}")
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()

    def menu(self, name: str, entry: str) -> None:
        for text in (name, entry):
            self.page.get_by_role("menuitem", name=text, exact=True).click()

    def set_profile(self, name: str) -> None:
        """Type into the parameters cell, the first cell of code."""
        editor = self.page.locator(".jp-Notebook .jp-CodeCell .cm-content").first
        text = editor.inner_text()
        assert text.startswith("profile = "), text
        editor.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(re.sub('"[^"]*"', f'"{name}"', text, count=1))

    def run_all(self, until: str = "") -> list[str]:
        """Run All Cells; the texts that a cell at work has shown, until one matches `until` or all
        cells are done."""
        before = self.page.evaluate(PROMPTS)
        self.page.evaluate(WATCH)
        self.menu("Run", "Run All Cells")
        self.page.wait_for_function(f"before => before !== {PROMPTS}", arg=before)
        self.wait_until_done(until)
        return self.page.evaluate("shown")

    def wait_until_done(self, until: str = "") -> None:
        self.page.wait_for_function(DONE, arg=until)

    def errors(self) -> list[str]:
        """All that is on the page as an error or a warning."""
        texts = self.page.locator(
            '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'
        )
        return [text.strip() for text in texts.all_inner_texts() if text.strip()]

    def workers(self) -> list[psutil.Process]:
        below = psutil.Process(self.server).children(recursive=True)
        return [process for process in below if "LokyProcess" in " ".join(command(process))]

    def check_end(self, name: str) -> None:
        """The notebook came to its end without a warning, and every figure that it promises can be
        looked at."""
        assert self.errors() == []
        cells = self.page.locator(".jp-Notebook .jp-Cell")
        assert f"notebook complete: {name}" in cells.last.inner_text()
        assert not self.page.get_by_text("PosixPath").count(), "a path says nothing to a reader"
        promised = manifest.promised(manifest.load(), name).values()
        figures = [entry for entry in promised if entry.kind in ("figure", "drawing")]
        images = self.page.locator(".jp-OutputArea-output img")
        assert len(figures) <= images.count()
        for place in range(images.count()):
            image = images.nth(place)
            image.scroll_into_view_if_needed()
            box, size = image.bounding_box(), self.page.viewport_size
            assert 300 < box["width"] < size["width"] and box["height"] > 100, (place, box)
            assert box["y"] < size["height"] and box["y"] + box["height"] > 0, (place, box)
            assert image.evaluate("image => image.complete && image.naturalWidth") > 300, place


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout: JupyterLab saves what is typed, and figures go where the notebooks
    are."""
    root = tmp_path_factory.mktemp("jupyterlab") / "checkout"
    left_out = shutil.ignore_patterns(".*", "artifacts", "tests", "__pycache__")
    shutil.copytree(paths.ROOT, root, ignore=left_out)
    return root


@pytest.fixture(scope="module")
def lab(checkout):
    """`./run_all.sh --lab notebooks/00_start_here.ipynb`, and a browser with a fresh profile that
    can reach it."""
    config, token, port = checkout.parent / "config", secrets.token_hex(), free_port()
    for name, settings in SETTINGS.items():
        file = config / f"lab/user-settings/@jupyterlab/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(settings))
    ours = ("THESIS_", "JUPYTER", "IPYTHON", "PYTHONPATH", "MPLBACKEND")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    variables |= {"VIRTUAL_ENV": sys.prefix, "JUPYTER_CONFIG_DIR": str(config), "THESIS_JOBS": "2"}
    variables |= {"JUPYTER_DATA_DIR": str(config / "data"), "IPYTHONDIR": str(config / "ipython")}
    words = [
        "--lab",
        "notebooks/00_start_here.ipynb",
        "--no-browser",
        "--allow-root",
        "--IdentityProvider.token",
        token,
    ]
    words += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    with open(checkout.parent / "server.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [checkout / "run_all.sh", *words], cwd=checkout, env=variables, stdout=log, stderr=log
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/api?token={token}", server, checkout.parent / "server.log")
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1300, "height": 900})
            page.set_default_timeout(60_000 * MINUTES)
            yield Lab(page, address, token, server.pid)
            browser.close()
    finally:
        processes = (
            [*psutil.Process(server.pid).children(recursive=True), server]
            if server.poll() is None
            else []
        )
        for process in processes:
            process.kill()
        server.wait()


def wait_for(address: str, server: subprocess.Popen, log) -> None:
    while True:
        try:
            return urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)


def check_calm(shown: list[str]) -> None:
    """Progress moved, and stood in one line at any time."""
    bars = [text for text in shown if re.search(r"\d+/\d+ \[", text)]
    assert len(bars) > 5, shown
    assert [text for text in bars if len(text.strip().splitlines()) > 1] == []


def test_a_wrong_parameter_is_one_line_and_corrected_the_notebook_runs(lab):
    lab.open("00_start_here")
    lab.set_profile("smok")
    lab.run_all()
    assert lab.errors() == ["ParameterError: unknown profile 'smok'; nearest: smoke"]
    lab.set_profile("smoke")
    lab.run_all()
    lab.check_end("00_start_here")
    before = lab.page.evaluate(RANKING)  # of the question box, by a teacher that reads 48 tokens
    lab.page.locator(".jupyter-widgets select").select_option("256")
    lab.page.wait_for_function(f"before => {RANKING} && {RANKING} !== before", arg=before)
    assert lab.errors() == []


def test_a_slider_that_is_moved_draws_the_picture_again(lab, checkout):
    """That of 03, whose first cells are toys."""
    toys = nbformat.read(paths.NOTEBOOKS / "03_composite_analysis.ipynb", 4)
    offered = next(place for place, cell in enumerate(toys.cells) if "nb.offer" in cell.source)
    toys.cells = toys.cells[: offered + 1]
    nbformat.write(toys, checkout / "notebooks/toys.ipynb")
    lab.open("toys")
    lab.run_all()
    image = lab.page.locator(".jp-OutputArea-output img")
    before = image.get_attribute("src")
    lab.page.get_by_role("slider").first.press("ArrowRight")
    lab.page.wait_for_function(
        "before => [...document.images].some(({src}) => src.startsWith('data') && src !== before)",
        arg=before,
    )
    assert image.count() == 1, "the new picture takes the place of the old one"
    assert lab.errors() == []


def test_interrupt_ends_the_workers_with_one_line_and_run_all_goes_on(lab, checkout):
    lab.open("03_composite_analysis")
    lab.set_profile("smoke")
    shown = lab.run_all(until=r"models: .*\| [3-9]/\d+ \[")  # students among them
    assert len(lab.workers()) == 2
    lab.page.get_by_title("Interrupt the kernel").click()
    lab.wait_until_done()
    deadline = time.monotonic() + 60 * MINUTES
    while lab.workers():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    errors = lab.errors()
    assert len(errors) == 1, errors
    wanted = "Interrupted: the workers have ended; what was computed is kept, .*"
    assert re.fullmatch(wanted, errors[0])
    store = checkout / "artifacts/store/student"
    trained = {file: file.stat().st_mtime_ns for file in store.glob("*.npz")}
    assert trained
    shown += lab.run_all()
    lab.check_end("03_composite_analysis")
    check_calm(shown)
    assert all(file.stat().st_mtime_ns == written for file, written in trained.items())


def test_a_notebook_with_many_figures_shows_them_all(lab):
    lab.open("01_data_stats")
    lab.set_profile("smoke")
    lab.run_all()
    lab.check_end("01_data_stats")


def test_links_lead_out_of_the_folder_of_notebooks(lab, checkout):
    links = nbformat.read(paths.NOTEBOOKS / "00_start_here.ipynb", 4)  # for its kernel
    links.cells = [nbformat.v4.new_markdown_cell("[Read](../README.md)")]
    nbformat.write(links, checkout / "notebooks/links.ipynb")
    lab.open("links")
    lab.page.get_by_role("link", name="Read").click()
    lab.page.get_by_role("tab", name="README.md").wait_for()
