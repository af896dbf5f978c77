"""One still picture where a program runs the notebook, controls that redraw it for a person."""

from __future__ import annotations

import os

import pytest
from jupyter_client.manager import start_new_kernel

from lib.config import paths, profiles
from lib.runner import notebook

WIDGET = "application/vnd.jupyter.widget-view+json"
CELL = """
import matplotlib.pyplot as plt
from lib.config import profiles
from lib.runner import notebook

nb = notebook.Notebook("02_structural_loss", profiles.load("mini"))

def draw(scale=2, word="apple"):
    figure, axis = plt.subplots()
    axis.plot([0, scale])
    return figure

nb.offer(draw, scale=(1, 4, 1))
"""


def test_outside_a_notebook_the_defaults_are_shown_once(capsys):
    nb = notebook.Notebook("02_structural_loss", profiles.load("mini"))
    nb.offer(lambda word="apple", times=1: word * times, times=(1, 3, 1))
    assert capsys.readouterr().out == "apple\n"


@pytest.mark.smoke
@pytest.mark.parametrize("person", [True, False])
def test_a_kernel_shows_controls_to_a_person_and_one_picture_to_a_program(person):
    environment = {**os.environ, "PYTHONPATH": str(paths.ROOT)}
    environment.pop("MPLBACKEND", None)  # of the tests; a kernel shows pictures in the notebook
    manager, client = start_new_kernel(env=environment)
    seen = []
    try:
        reply = client.execute_interactive(
            CELL, allow_stdin=person, output_hook=seen.append, timeout=300
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", reply
    shown = [part["content"]["data"] for part in seen if part["msg_type"] == "display_data"]
    pictures = [data for data in shown if "image/png" in data]
    assert len(pictures) == 1  # inside the widget, where there is one
    assert any(WIDGET in data for data in shown) == person
