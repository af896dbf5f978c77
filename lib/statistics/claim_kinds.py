"""What a finding of the thesis may say, and the comparisons that decide whether it is so.

Every kind becomes weighted sums of the models' mean scores, so one engine (`lib.findings.claims`) tests them all:

    effect = sum_m plus_m mean_m - sum_m minus_m mean_m        positive where the finding holds

A kind with several comparisons holds only if all of them do. The models are named as printed in the claim's figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from lib.config.schema import Count, Settings, Text

# A name, a list of names, or shell patterns; a pattern after "!" takes models out again.
Patterns = Annotated[tuple[Text, ...], Field(strict=False, min_length=1)]
Names = Annotated[tuple[Text, ...], Field(strict=False)]


@dataclass(frozen=True)
class Comparison:
    """One weighted difference of model means. left, right: what stands on its sides, in words."""

    plus: dict[str, float]
    minus: dict[str, float]
    left: str
    right: str

    @property
    def weights(self) -> dict[str, float]:
        """Model -> weight; a model on both sides cancels."""
        names = dict.fromkeys([*self.plus, *self.minus])
        return {name: self.plus.get(name, 0.0) - self.minus.get(name, 0.0) for name in names}

    @property
    def norm(self) -> float:
        """Standard deviation of the effect in units of that of a difference of two single runs.

        Runs are independent, so variances add: sqrt(sum of w^2) sd, over sqrt(2) sd.
        """
        return float(np.sqrt(sum(weight**2 for weight in self.weights.values()) / 2))


class Claim(Settings):
    """A finding of the thesis.

    section, label: where it stands; label is the figure or table that shows it. finding: what it says, in our words.
    source: the label whose numbers it is checked on, if not `label`. metric: "accuracy", "MAP" or "MRR".
    tasks: only these; none means all. note: what a reader should know beside the verdict.
    """

    id: Text
    kind: Text
    section: Text
    label: Text
    finding: Text
    source: Text | None = None
    metric: Literal["accuracy", "MAP", "MRR"] = "accuracy"
    tasks: Names = ()
    note: str = ""

    @property
    def checked_on(self) -> str:
        """The label whose numbers decide."""
        return self.source or self.label

    def groups(self) -> Iterable[Sequence[str]]:
        """The groups of patterns that name models, for checking against the figure."""
        raise NotImplementedError

    def comparisons(self, means: pd.Series, known: Sequence[str]) -> list[Comparison]:
        """The comparisons that must all be positive. means: model -> mean score; known: the figure's models."""
        raise NotImplementedError


class Beats(Claim):
    """Each of `better` has a higher mean than each of `worse`; in every one of `rounds`, where Chapter 5 has them."""

    kind: Literal["beats"]
    better: Patterns
    worse: Patterns
    rounds: Names = ()

    def groups(self) -> Iterable[Sequence[str]]:
        for round_ in self.rounds or (None,):
            yield from (_of_round(self.better, round_), _of_round(self.worse, round_))

    def comparisons(self, means: pd.Series, known: Sequence[str]) -> list[Comparison]:
        found = []
        for round_ in self.rounds or (None,):
            losers = resolve(_of_round(self.worse, round_), known)
            winners = [name for name in resolve(_of_round(self.better, round_), known) if name not in losers]
            found += [_pair(winner, loser) for winner in winners for loser in losers]
        return found


class BeatsOnAverage(Claim):
    """The models of `better` have a higher average of means than those of `worse`."""

    kind: Literal["beats_on_average"]
    better: Patterns
    worse: Patterns

    def groups(self) -> Iterable[Sequence[str]]:
        return self.better, self.worse

    def comparisons(self, means: pd.Series, known: Sequence[str]) -> list[Comparison]:
        left, right = (resolve(group, known) for group in self.groups())
        return [Comparison(_shares(left), _shares(right), _average(left), _average(right))]


class CountBeating(Claim):
    """At least, at most, or exactly so many models of `group` have a higher mean than every one of `baselines`.

    The count is decided by one model: at least k beat the baselines if the k-th best of the group does, at most k if
    the one after it does not.
    """

    kind: Literal["count_beating"]
    group: Patterns
    baselines: Patterns
    at_least: Count | None = None
    at_most: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> CountBeating:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a count needs at_least, at_most, or both")
        return self

    def groups(self) -> Iterable[Sequence[str]]:
        return self.group, self.baselines

    def comparisons(self, means: pd.Series, known: Sequence[str]) -> list[Comparison]:
        group, baselines = (resolve(names, known) for names in self.groups())
        best = means[baselines].idxmax()
        ranked = means[group].sort_values(ascending=False, kind="stable").index.tolist()
        found = []
        if self.at_least is not None:
            found.append(_pair(ranked[self.at_least - 1], best))
        if self.at_most is not None and self.at_most < len(ranked):
            found.append(_pair(best, ranked[self.at_most]))
        return found


class CountPairs(Claim):
    """In at least `at_least` of the pairs the first model has a higher mean than the second."""

    kind: Literal["count_pairs"]
    pairs: Annotated[tuple[Annotated[tuple[Text, Text], Field(strict=False)], ...], Field(strict=False, min_length=1)]
    at_least: Count

    def groups(self) -> Iterable[Sequence[str]]:
        return self.pairs

    def comparisons(self, means: pd.Series, known: Sequence[str]) -> list[Comparison]:
        ranked = sorted(self.pairs, key=lambda pair: means[pair[1]] - means[pair[0]])
        return [_pair(*ranked[self.at_least - 1])]


class Spread(Claim):
    """The means of the models in `wider` have a larger standard deviation (n - 1) than those in `narrower`.

    The standard deviation is written as a weighted sum of the means, with weights (mean_m - average) / ((n - 1) sd)
    held fixed when tasks and seeds are resampled, which makes its interval a first-order one.
    """

    kind: Literal["spread"]
    wider: Patterns
    narrower: Patterns

    def groups(self) -> Iterable[Sequence[str]]:
        return self.wider, self.narrower

    def comparisons(self, means: pd.Series, known: Sequence[str]) -> list[Comparison]:
        left, right = (resolve(group, known) for group in self.groups())
        words = [f"sd of {len(group)} models" for group in (left, right)]
        return [Comparison(_deviation(means[left]), _deviation(means[right]), *words)]


class Collapsed(Claim):
    """The model keeps less than the share `keeps` of what `reference` scores, which has not been trained at all."""

    kind: Literal["collapsed"]
    model: Text
    reference: Text
    keeps: Annotated[float, Field(gt=0, le=1)]

    def groups(self) -> Iterable[Sequence[str]]:
        return (self.model,), (self.reference,)

    def comparisons(self, means: pd.Series, known: Sequence[str]) -> list[Comparison]:
        words = f"{self.keeps:g} x {self.reference}"
        return [Comparison({self.reference: self.keeps}, {self.model: 1.0}, words, self.model)]


class EasierTask(Claim):
    """On average over all models, the raw score on one task is higher than on another. Resampled are the models."""

    kind: Literal["easier_task"]
    easier: Text
    harder: Text

    def groups(self) -> Iterable[Sequence[str]]:
        return ()

    def comparisons(self, means: pd.Series, known: Sequence[str]) -> list[Comparison]:
        return [_pair(self.easier, self.harder)]


KINDS: dict[str, type[Claim]] = {
    "beats": Beats,
    "beats_on_average": BeatsOnAverage,
    "count_beating": CountBeating,
    "count_pairs": CountPairs,
    "spread": Spread,
    "collapsed": Collapsed,
    "easier_task": EasierTask,
}


def resolve(patterns: Sequence[str], known: Sequence[str]) -> list[str]:
    """The known names that match a pattern and none of those after "!", in the order of `known`.

    Raises `ValueError` for a pattern that matches nothing: it is misspelt.
    """
    found: set[str] = set()
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        matching = {name for name in known if fnmatchcase(name, bare)}
        if not matching:
            raise ValueError(f"{bare!r} matches no model of the figure")
        found = found - matching if pattern.startswith("!") else found | matching
    if not found:
        raise ValueError(f"{', '.join(patterns)} leaves no model of the figure")
    return [name for name in known if name in found]


def _of_round(patterns: Sequence[str], round_: str | None) -> list[str]:
    return [pattern if round_ is None else f"{pattern};{round_}" for pattern in patterns]


def _pair(better: str, worse: str) -> Comparison:
    return Comparison({better: 1.0}, {worse: 1.0}, better, worse)


def _shares(names: Sequence[str]) -> dict[str, float]:
    return {name: 1 / len(names) for name in names}


def _average(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"average of {len(names)} models"


def _deviation(means: pd.Series) -> dict[str, float]:
    deviations = means - means.mean()
    spread = means.std(ddof=1)
    if not spread > 0:
        return dict.fromkeys(means.index, 0.0)
    return (deviations / ((len(means) - 1) * spread)).to_dict()
