"""Pictures to play with: sliders in JupyterLab, one still picture where nobody can move them."""

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from IPython import get_ipython
from IPython.display import display


def offer(draw: Callable[..., Any], **controls: tuple | list) -> None:
    """Show what `draw` returns, with a control for each of its arguments.

    Where a program runs the notebook (papermill, nbconvert, the site) or ipywidgets is not
    installed, only `draw()` is shown, so that a copy without a kernel has a picture too.

    `controls` are the (lowest, highest, step) of a slider, or a list of choices. Any other argument
    gets what suits its default, where controls start: a text box, a check box, a slider.
    """

    @functools.wraps(draw)
    def show(**values: Any) -> None:
        from matplotlib import figure, pyplot

        shown = draw(**values)
        if isinstance(shown, figure.Figure):  # pyplot would show it again at the end of the cell
            pyplot.close(shown)
        display(shown)

    kernel = getattr(get_ipython(), "kernel", None)  # it takes input only if a person runs the cell
    if not getattr(kernel, "_allow_stdin", False) or find_spec("ipywidgets") is None:
        return show()
    import ipywidgets

    box = ipywidgets.interactive(show, **controls)
    for control in box.children[:-1]:
        control.style.description_width = "initial"  # else long names are cut
        if isinstance(control, ipywidgets.Text):  # draw after the last letter, not after each
            control.continuous_update = False
    display(box)
