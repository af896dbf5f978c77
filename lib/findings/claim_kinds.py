"""What a finding of the thesis may say, and the comparisons that decide whether it is so.

Every kind becomes weighted sums of the models' mean scores, so one engine (`lib.statistics.verdicts`) judges them all:

    effect = sum_m plus_m mean_m - sum_m minus_m mean_m        positive where the finding holds

A kind with several comparisons holds only if all of them do. The models are named as printed in the claim's figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Literal

import pandas as pd
from pydantic import Field, model_validator

from lib.config.schema import Count, Settings, Text, Texts
from lib.statistics.effects import Comparison

# A name, a list of names, or shell patterns; a pattern after "!" takes models out again.
Patterns = Annotated[tuple[Text, ...], Field(strict=False, min_length=1)]


class Claim(Settings):
    """A finding of the thesis.

    section, figure: where it stands; figure is the one that shows it. finding: what it says, in our words.
    source: the figure whose numbers it is checked on, if not `figure`. metric: "accuracy", "MAP" or "MRR".
    tasks: only these; none means all. note: what a reader should know beside the verdict.
    """

    SIDES: ClassVar[tuple[str, ...]] = ()  # fields that name models

    id: Text
    kind: Text
    section: Text
    figure: Text
    finding: Text
    source: Text | None = None
    metric: Literal["accuracy", "MAP", "MRR"] = "accuracy"
    tasks: Texts = ()
    note: str = ""

    @property
    def checked_on(self) -> str:
        """The figure whose numbers decide."""
        return self.source or self.figure

    def sides(self, models: Sequence[str]) -> list[list[str]]:
        """The models that the claim names, side by side; `ValueError` if a name matches none of `models`."""
        return [resolve(getattr(self, name), models) for name in self.SIDES]

    def comparisons(self, means: pd.Series, models: Sequence[str]) -> list[Comparison]:
        """The comparisons that must all be positive. means: model -> mean score; models: the figure's, as printed."""
        raise NotImplementedError


class Beats(Claim):
    """Each of `better` has a higher mean than each of `worse`; in every one of `rounds`, where Chapter 5 has them."""

    better: Patterns
    worse: Patterns
    rounds: Texts = ()

    def sides(self, models: Sequence[str]) -> list[list[str]]:
        suffixes = [f";{name}" for name in self.rounds] or [""]
        return [resolve([p + s for p in side], models) for s in suffixes for side in (self.better, self.worse)]

    def comparisons(self, means: pd.Series, models: Sequence[str]) -> list[Comparison]:
        sides = iter(self.sides(models))
        rounds = zip(sides, sides, strict=True)
        return [_pair(a, b) for better, worse in rounds for a in better if a not in worse for b in worse]


class BeatsOnAverage(Claim):
    """The models of `better` have a higher average of means than those of `worse`."""

    SIDES = ("better", "worse")
    better: Patterns
    worse: Patterns

    def comparisons(self, means: pd.Series, models: Sequence[str]) -> list[Comparison]:
        sides = self.sides(models)
        words = [names[0] if len(names) == 1 else f"average of {len(names)} models" for names in sides]
        return [Comparison(*(dict.fromkeys(names, 1 / len(names)) for names in sides), *words)]


class CountBeating(Claim):
    """At least, at most, or exactly so many models of `group` have a higher mean than every one of `baselines`.

    The count is decided by one model: at least k beat the baselines if the k-th best of the group does, at most k if
    the one after it does not.
    """

    SIDES = ("group", "baselines")
    group: Patterns
    baselines: Patterns
    at_least: Count | None = None
    at_most: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> CountBeating:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a count needs at_least, at_most, or both")
        return self

    def comparisons(self, means: pd.Series, models: Sequence[str]) -> list[Comparison]:
        group, baselines = self.sides(models)
        best = means[baselines].idxmax()
        ranked = means[group].sort_values(ascending=False, kind="stable").index
        pairs = [] if self.at_least is None else [_pair(ranked[self.at_least - 1], best)]
        return pairs + ([] if self.at_most is None else [_pair(best, name) for name in ranked[self.at_most :][:1]])


class CountPairs(Claim):
    """In at least `at_least` of the pairs the first model has a higher mean than the second."""

    pairs: Annotated[tuple[Annotated[tuple[Text, Text], Field(strict=False)], ...], Field(strict=False, min_length=1)]
    at_least: Count

    def sides(self, models: Sequence[str]) -> list[list[str]]:
        return [resolve(pair, models) for pair in self.pairs]

    def comparisons(self, means: pd.Series, models: Sequence[str]) -> list[Comparison]:
        ranked = sorted(self.pairs, key=lambda pair: means[pair[1]] - means[pair[0]])
        return [_pair(*ranked[self.at_least - 1])]


class Spread(Claim):
    """The means of the models in `wider` have a larger standard deviation (n - 1) than those in `narrower`.

    The standard deviation is written as a weighted sum of the means, with weights (mean_m - average) / ((n - 1) sd)
    held fixed when tasks and seeds are resampled, which makes its interval a first-order one.
    """

    SIDES = ("wider", "narrower")
    wider: Patterns
    narrower: Patterns

    def comparisons(self, means: pd.Series, models: Sequence[str]) -> list[Comparison]:
        sides = [means[names] for names in self.sides(models)]
        return [Comparison(*map(_deviation, sides), *(f"sd of {len(scores)} models" for scores in sides))]


class Collapsed(Claim):
    """The model keeps less than the share `keeps` of what `reference` scores, which has not been trained at all."""

    SIDES = ("model", "reference")
    model: Text
    reference: Text
    keeps: Annotated[float, Field(gt=0, le=1)]

    def comparisons(self, means: pd.Series, models: Sequence[str]) -> list[Comparison]:
        words = f"{self.keeps:g} x {self.reference}"
        return [Comparison({self.reference: self.keeps}, {self.model: 1.0}, words, self.model)]


class EasierTask(Claim):
    """On average over all models, the raw score on one task is higher than on another. Resampled are the models."""

    easier: Text
    harder: Text

    def comparisons(self, means: pd.Series, models: Sequence[str]) -> list[Comparison]:
        return [_pair(self.easier, self.harder)]


KINDS: dict[str, type[Claim]] = {
    "beats": Beats, "beats_on_average": BeatsOnAverage, "count_beating": CountBeating, "count_pairs": CountPairs,
    "spread": Spread, "collapsed": Collapsed, "easier_task": EasierTask,
}  # fmt: skip


def resolve(patterns: str | Sequence[str], models: Sequence[str]) -> list[str]:
    """The models that match a pattern and none of those after "!", in their own order.

    Raises `ValueError` for a pattern that matches nothing: it is misspelt.
    """
    patterns = [patterns] if isinstance(patterns, str) else patterns
    chosen: set[str] = set()
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        matching = {name for name in models if fnmatchcase(name, bare)}
        if not matching:
            raise ValueError(f"{bare!r} matches no model of the figure")
        chosen = chosen - matching if pattern.startswith("!") else chosen | matching
    if not chosen:
        raise ValueError(f"{', '.join(patterns)} leaves no model of the figure")
    return [name for name in models if name in chosen]


def _pair(better: str, worse: str) -> Comparison:
    return Comparison({better: 1.0}, {worse: 1.0}, better, worse)


def _deviation(means: pd.Series) -> dict[str, float]:
    spread = means.std(ddof=1)
    return ((means - means.mean()) / ((len(means) - 1) * spread) if spread > 0 else 0 * means).to_dict()
