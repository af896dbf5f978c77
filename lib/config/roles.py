"""The thesis' tasks and rounds, in its order.

A profile's task has the role of the thesis' task with the same name. Others come after them.
"""

from collections.abc import Collection, Iterable, Mapping

# Sections 4.2 and 5.2.1, as the boxplots count them.
CLASSIFICATION = ("ARXIV", "IMDB", "OC", "AAN", "S2ORC", "PAN")
RETRIEVAL = ("WINES", "GAMES")  # Section 5.2.2
ROLES = dict.fromkeys(CLASSIFICATION, "classification") | dict.fromkeys(RETRIEVAL, "retrieval")
# Section 5.3.1: numbers of labelled examples, in the order of Figure 5.3.
ROUNDS = {"1k": 1000, "10k": 10000, "all": None}
# The columns of Chapter 5's scores.
TABLE_5_7 = ("ARXIV", "IMDB", "AAN", "OC", "PAN", "S2ORC", "GAMES", "WINES")


def ordered(names: Iterable[str], order: Collection[str] = tuple(ROLES)) -> list[str]:
    """Sort names without repetition: first those of `order`, in its order, then alphabetically."""
    return sorted(set(names), key=lambda name: ([*order, name].index(name), name))


def printed_rounds(rounds: Mapping[str, float | None]) -> dict[str, str]:
    """Round -> its name: "1k" with as many examples as the thesis, else "25 (1k)" or "25% (1k)"."""
    names = dict(zip(rounds, rounds, strict=True))
    for name, size in rounds.items():
        if ROUNDS.get(name, size) != size:
            told = f"{size:.0%}" if size and size < 1 else size or "all"
            names[name] = f"{told} ({name})"
    return names
