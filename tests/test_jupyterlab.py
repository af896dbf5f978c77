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
SETTINGS = {  # cells out of sight stay in the page and can be counted
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
# The numbers of the cells, `*` for one that waits or works.
PROMPTS = """[...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')]
    .map(prompt => prompt.innerText).join(' ')"""
RANKING = "document.querySelector('.jupyter-widgets .jp-RenderedHTMLCommon')?.innerText"
OUTPUT = ".jp-OutputArea-output"


class Lab:
    """JupyterLab with one notebook, in one tab of the browser."""

    def __init__(self, page, address: str, token: str, server: int) -> None:
        self.page, self.address, self.token, self.server = page, address, token, server

    def open(self, name: str, profile: str) -> None:
        """Open a notebook alone, after all other kernels have ended, and choose a profile."""
        token = f"token={self.token}"
        for kernel in self.page.request.get(f"{self.address}/api/kernels?{token}").json():
            self.page.request.delete(f"{self.address}/api/kernels/{kernel['id']}?{token}")
        self.page.goto(f"{self.address}/lab/workspaces/{name}/tree/notebooks/{name}.ipynb?{token}")
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        self.set_profile(profile)

    def set_profile(self, name: str) -> None:
        """Type into the parameters cell, the first cell of code."""
        editor = self.page.locator(".jp-Notebook .jp-CodeCell .cm-content").first
        text = editor.inner_text()
        assert text.startswith("profile = "), text
        editor.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(re.sub('"[^"]*"', f'"{name}"', text, count=1))

    def begin(self) -> None:
        """Run All Cells, without waiting for their end."""
        before = self.page.evaluate(PROMPTS)
        for text in ("Run", "Run All Cells"):
            self.page.get_by_role("menuitem", name=text, exact=True).click()
        self.page.wait_for_function(f"before => before !== {PROMPTS}", arg=before)

    def wait(self) -> list[str]:
        """Wait until no cell works; all that is on the page as an error or a warning."""
        self.page.wait_for_function(f"() => !{PROMPTS}.includes('*')")
        told = self.page.locator(f'{OUTPUT}[data-mime-type="application/vnd.jupyter.stderr"]')
        return [text.strip() for text in told.all_inner_texts() if text.strip()]

    def workers(self) -> list[psutil.Process]:
        below = psutil.Process(self.server).children(recursive=True)
        return [process for process in below if "LokyProcess" in read_command(process)]

    def check_end(self, name: str) -> None:
        """The notebook came to its end, and every figure that it promises can be looked at."""
        assert self.wait() == []
        cells = self.page.locator(".jp-Notebook .jp-Cell")
        assert f"notebook complete: {name}" in cells.last.inner_text()
        promised = manifest.promised(manifest.load(), name).values()
        images = self.page.locator(f"{OUTPUT} img")
        figures = [entry for entry in promised if entry.kind in ("figure", "drawing")]
        assert len(figures) <= images.count()
        for place in range(images.count()):
            image = images.nth(place)
            image.scroll_into_view_if_needed()
            box, size = image.bounding_box(), self.page.viewport_size
            assert 300 < box["width"] < size["width"] and box["height"] > 100, (place, box)
            assert image.evaluate("image => image.complete && image.naturalWidth") > 300, place


def read_command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def find_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout: JupyterLab saves what is typed, and figures go where notebooks
    are."""
    root = tmp_path_factory.mktemp("jupyterlab") / "checkout"
    left_out = shutil.ignore_patterns(".*", "artifacts", "tests", "__pycache__")
    shutil.copytree(paths.ROOT, root, ignore=left_out)
    return root


@pytest.fixture(scope="module")
def lab(checkout):
    """`./run_all.sh --lab notebooks/00_start_here.ipynb`, and a browser that can reach it."""
    config, token, port = checkout.parent / "config", secrets.token_hex(), find_port()
    for name, settings in SETTINGS.items():
        file = config / f"lab/user-settings/@jupyterlab/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(settings))
    ours = ("THESIS_", "JUPYTER", "IPYTHON", "PYTHONPATH", "MPLBACKEND")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    variables |= {"VIRTUAL_ENV": sys.prefix, "JUPYTER_CONFIG_DIR": str(config), "THESIS_JOBS": "2"}
    variables |= {"JUPYTER_DATA_DIR": str(config / "data"), "IPYTHONDIR": str(config / "ipython")}
    words = ["--lab", "notebooks/00_start_here.ipynb", "--no-browser", "--allow-root"]
    words += ["--IdentityProvider.token", token, f"--ServerApp.port={port}"]
    log = checkout.parent / "server.log"
    with open(log, "w", encoding="utf-8") as file:
        server = subprocess.Popen(
            [checkout / "run_all.sh", *words], cwd=checkout, env=variables, stdout=file, stderr=file
        )
    address = f"http://127.0.0.1:{port}"
    try:
        while not answers(f"{address}/api?token={token}"):
            assert server.poll() is None, log.read_text()
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1300, "height": 900})
            page.set_default_timeout(HOUR)
            yield Lab(page, address, token, server.pid)
            browser.close()
    finally:
        below = psutil.Process(server.pid).children(recursive=True) if not server.poll() else []
        for process in [*below, server]:
            process.kill()
        server.wait()


def answers(address: str) -> bool:
    time.sleep(0.2)
    try:
        return not urllib.request.urlopen(address, timeout=5).close()
    except OSError:
        return False


def test_a_wrong_parameter_is_one_line_and_corrected_the_notebook_runs(lab):
    lab.open("00_start_here", "smok")
    lab.begin()
    assert lab.wait() == ["ParameterError: unknown profile 'smok'; nearest: smoke"]
    lab.set_profile("smoke")
    lab.begin()
    lab.check_end("00_start_here")
    before = lab.page.evaluate(RANKING)  # of the question box, by a teacher that reads 48 tokens
    lab.page.locator(".jupyter-widgets select").select_option("256")
    lab.page.wait_for_function(f"before => {RANKING} && {RANKING} !== before", arg=before)
    assert lab.wait() == []


def test_interrupt_ends_the_workers_with_one_line_and_run_all_goes_on(lab, checkout):
    store = checkout / "artifacts/store/student"
    kept = {*store.glob("*.npz")}  # of the notebook before
    lab.open("03_composite_analysis", "smoke")
    lab.begin()
    while not {*store.glob("*.npz")} - kept:
        lab.page.wait_for_timeout(50)
    assert len(lab.workers()) == 2
    lab.page.get_by_title("Interrupt the kernel").click()
    errors = lab.wait()
    assert len(errors) == 1 and errors[0].startswith("Interrupted: the workers have ended"), errors
    assert not psutil.wait_procs(lab.workers(), timeout=HOUR / 1000)[1]
    written = {file: file.stat().st_mtime_ns for file in store.glob("*.npz")}
    lab.begin()
    while not {*store.glob("*.npz")} - {*written}:
        assert "*" in lab.page.evaluate(PROMPTS), lab.wait()
        lab.page.wait_for_timeout(50)
    assert {file: file.stat().st_mtime_ns for file in written} == written
