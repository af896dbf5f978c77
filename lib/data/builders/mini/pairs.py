"""Balanced pairs: how positives are drawn and negatives are matched to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

NO, YES = "no", "yes"  # the classes of every pair task
Pair = tuple[str, str]


def balanced(
    positives: Sequence[Pair], wanted: int, related: Callable[[str, str], bool], rng: np.random.Generator
) -> list[tuple[Pair, str]]:
    """About `wanted` pairs, half of them positive, in random order.

    A negative joins the first text of one positive with the second of another, so each text occurs as often in
    negatives as in positives, on the same side: nothing can be read from one text alone. A positive whose first text
    finds no such partner is left out.

    Args:
        positives: pairs of text ids, the preferred first.
        wanted: number of pairs; fewer come back where `positives` are fewer.
        related: whether two texts are no valid negative.
        rng: of the matching and the order.
    """
    kept = list(positives[: wanted // 2])
    negatives = _rematch(kept, related, rng)
    examples = [(pair, YES) for pair, negative in zip(kept, negatives, strict=True) if negative]
    examples += [(negative, NO) for negative in negatives if negative]
    return [examples[index] for index in rng.permutation(len(examples))]


def both_orders(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs as given, then each the other way round: a head on concatenated embeddings sees two inputs."""
    return [*pairs, *((b, a) for a, b in pairs)]


def round_robin(groups: Iterable[Sequence[Pair]], rng: np.random.Generator) -> list[Pair]:
    """One pair of each group in turn, in random order within a group: a prefix is spread over all groups."""
    shuffled = [[group[index] for index in rng.permutation(len(group))] for group in groups]
    return [pair for turn in itertools.zip_longest(*shuffled) for pair in turn if pair]


def _rematch(positives: list[Pair], related: Callable[[str, str], bool], rng: np.random.Generator) -> list[Pair | None]:
    """The positives' second texts dealt anew, each to a first text it is not related to; None if impossible."""
    firsts = [a for a, _ in positives]
    seconds = [positives[index][1] for index in rng.permutation(len(positives))]

    def valid(place: int, second: str) -> bool:
        return firsts[place] != second and not related(firsts[place], second)

    for _ in range(20):  # a few sweeps of random exchanges settle all but impossible cases
        seen: set[Pair] = set()
        unsettled = []
        for place, pair in enumerate(zip(firsts, seconds, strict=True)):
            if valid(place, pair[1]) and pair not in seen:
                seen.add(pair)
            else:
                unsettled.append(place)
        for place in unsettled:
            for other in rng.permutation(len(firsts)):
                exchanged = (firsts[place], seconds[other]), (firsts[other], seconds[place])
                if valid(place, seconds[other]) and valid(other, seconds[place]) and not seen.intersection(exchanged):
                    seconds[place], seconds[other] = seconds[other], seconds[place]
                    seen.update(exchanged)
                    break
        if not unsettled:
            break
    dealt = [pair if valid(place, pair[1]) else None for place, pair in enumerate(zip(firsts, seconds, strict=True))]
    return [pair if pair not in dealt[:place] else None for place, pair in enumerate(dealt)]
