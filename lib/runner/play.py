"""Pictures to play with: sliders in JupyterLab, one still picture where nobody can move them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from IPython import get_ipython
from IPython.display import display

if TYPE_CHECKING:
    import ipywidgets


def offer(draw: Callable[..., Any], **controls: tuple | list) -> None:
    """Show what `draw` returns, with a control for each of its arguments.

    Where a program runs the notebook (papermill, nbconvert, the site) or ipywidgets is not
    installed, only `draw()` is shown, so that a copy without a kernel has a picture too.

    Parameters
    ----------
    draw : callable
        Called again whenever a control moves. It returns what is shown: a figure, a table,
        Markdown. Each argument needs a default, which is where its control starts.
    **controls : tuple or list
        For an argument, the (lowest, highest, step) of a slider, or a list of choices. Any other
        argument gets the control that suits its default: a text box, a check box, a slider.
    """

    @functools.wraps(draw)
    def show(**values: Any) -> None:
        shown = draw(**values)
        _forget_figure(shown)
        display(shown)

    if _can_be_moved():
        display(make_controls(show, **controls))
    else:
        show()


def make_controls(show: Callable[..., None], **controls: tuple | list) -> ipywidgets.VBox:
    """The controls of `offer` in rows, and below them what `show` displays."""
    import ipywidgets

    *moved, picture = ipywidgets.interactive(show, **controls).children
    for control in moved:
        control.description = control.description.replace("_", " ")
        control.style.description_width = "initial"
        if isinstance(control, ipywidgets.Text):  # draw after the last letter, not after each
            control.continuous_update = False
            control.layout.width = "32em"
    row = ipywidgets.Layout(flex_flow="row wrap")
    return ipywidgets.VBox([ipywidgets.Box(moved, layout=row), picture])


def _can_be_moved() -> bool:
    """Whether a person runs this cell. Programs that run notebooks do not allow input."""
    kernel = getattr(get_ipython(), "kernel", None)
    return getattr(kernel, "_allow_stdin", False) and find_spec("ipywidgets") is not None


def _forget_figure(shown: Any) -> None:
    """Close a figure in pyplot, which would otherwise show it again at the end of the cell."""
    from matplotlib import figure, pyplot

    if isinstance(shown, figure.Figure):
        pyplot.close(shown)
