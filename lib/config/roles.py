"""The roles of the thesis' eight tasks (Section 5.2.1), in the order in which they are listed everywhere.

A profile's task that bears one of these names plays that role in the thesis' figures and tables; any other task appears
under its own name.
"""

from __future__ import annotations

from collections.abc import Iterable

ROLES = {
    "ARXIV": "single",
    "IMDB": "single",
    "OC": "pair",
    "AAN": "pair",
    "S2ORC": "pair",
    "PAN": "pair",
    "WINES": "retrieval",
    "GAMES": "retrieval",
}
CLASSIFICATIONS = tuple(name for name, kind in ROLES.items() if kind in ("single", "pair"))
RETRIEVALS = tuple(name for name, kind in ROLES.items() if kind == "retrieval")


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """The names, roles first and in their order, then the others by alphabet: whatever order a profile lists them in,
    texts get the same rows."""
    names = set(names)
    return (*(name for name in ROLES if name in names), *sorted(names - ROLES.keys()))
