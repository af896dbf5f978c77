"""The tasks of the thesis, in its order: the roles that a profile's tasks may play. Tasks of other names come after."""

from __future__ import annotations

from collections.abc import Iterable

CLASSIFICATION = ("ARXIV", "IMDB", "OC", "AAN", "S2ORC", "PAN")  # Sections 4.2 and 5.2.1, as the boxplots count them
RETRIEVAL = ("WINES", "GAMES")  # Section 5.2.2
ROLES = dict.fromkeys(CLASSIFICATION, "classification") | dict.fromkeys(RETRIEVAL, "retrieval")
TABLE_5_7 = ("ARXIV", "IMDB", "AAN", "OC", "PAN", "S2ORC", "GAMES", "WINES")  # the columns of Chapter 5's scores


def ordered(tasks: Iterable[str], order: Iterable[str] = tuple(ROLES)) -> list[str]:
    """Each task once: those of `order` first, as it has them, then the others by name."""
    places = {task: place for place, task in enumerate(order)}
    return sorted(set(tasks), key=lambda task: (places.get(task, len(places)), task))
