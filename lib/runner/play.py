"""Pictures to play with: sliders in JupyterLab, one still picture where nobody can move them."""

import functools
from collections.abc import Callable
from typing import Any

import ipywidgets
from IPython import get_ipython
from IPython.display import display


def offer(draw: Callable[..., Any], **controls: tuple | list) -> None:
    """Show what `draw` returns, with a control for each of its arguments.

    `controls` are as for `ipywidgets.interact`: (lowest, highest, step), or a list of choices. They
    start at the defaults of `draw`, with which it is called where a program runs the notebook.
    """

    @functools.wraps(draw)
    def show(**values: Any) -> None:
        from matplotlib import figure, pyplot

        shown = draw(**values)
        if isinstance(shown, figure.Figure):  # pyplot would show it again at the end of the cell
            pyplot.close(shown)
        display(shown)

    kernel = getattr(get_ipython(), "kernel", None)
    if not getattr(kernel, "_allow_stdin", False):  # only a person could answer a question
        return show()
    box = ipywidgets.interactive(show, **controls)
    for control in box.children[:-1]:
        control.style.description_width = "initial"  # else long names are cut
        if isinstance(control, ipywidgets.Text):  # draw after the last letter, not after each
            control.continuous_update = False
    display(box)
