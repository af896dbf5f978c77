"""Times of things that do the same, each measured in turns with the others.

Turns, so that a busy machine slows all alike; the least of the rounds, because whatever else a
machine does only adds time.
"""

import time
from collections.abc import Callable, Mapping


def least_seconds(
    works: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Name -> least seconds of a call, of so many rounds; the first round is not counted.

    clock: CPU seconds of this process, unless given.
    """
    least = dict.fromkeys(works, float("inf"))
    for turn in range(rounds + 1):
        for name, work in works.items():
            started = clock()
            work()
            if turn:
                least[name] = min(least[name], clock() - started)
    return least


def tabulate(rates: Mapping[str, float], of: str) -> str:
    """A line of a Markdown table: each rate, and in brackets its ratio to that named `of`."""
    cells = [f"{name} {rate:,.0f} ({rate / rates[of]:.2f})" for name, rate in rates.items()]
    return f"| {' | '.join(cells)} |"
