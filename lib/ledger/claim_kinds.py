"""What a finding of the thesis may say, and the comparisons that decide whether it is so.

Every kind becomes weighted sums of the models' scores, positive where the finding holds, for `lib.statistics.verdicts`.
Claims are judged as worded: "the best" is the best of the run at hand, and the verdict knows that it was picked.
Models are named as printed in the claim's figure.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from lib.config.schema import Count, Filled, Settings, Text, Texts
from lib.statistics import verdicts
from lib.statistics.effects import Comparison, pair
from lib.statistics.intervals import Evidence
from lib.statistics.verdicts import Judgement, judge

# A list of names or shell patterns; a pattern after "!" takes models out again.
Patterns = Filled[Text]
# What may make numbers unable to speak to a finding; `lib.ledger.testability` looks.
Check = Literal[
    "heads_converged", "task_not_at_chance", "texts_above_limit", "structural_teacher_above_chance",
    "contextual_teacher_above_chance", "treatment_given", "students_differ", "not_collapsed", "round_not_at_chance",
]  # fmt: skip
RANKING = "ranking_not_at_chance"  # what claims about retrieval need


class Claim(Settings):
    """A finding of the thesis, in our words. source: the figure whose numbers it is checked on, if not `figure`. tasks:
    only these; none means all. checks: what has to be so for our numbers to speak to it. note: for the reader."""

    SIDES: ClassVar[tuple[str, ...]] = ()  # fields that name models

    id: Text
    kind: Text
    section: Text
    figure: Text
    finding: Text
    source: Text = Field(default_factory=lambda given: given["figure"])
    metric: Literal["accuracy", "MAP", "MRR", "F1"] = "accuracy"
    tasks: Texts = ()
    checks: Annotated[tuple[Check, ...], Field(strict=False)] = ()
    note: str = ""

    @property
    def needed(self) -> tuple[str, ...]:
        """Its checks, and those of all claims of its metric."""
        if self.metric == "F1":
            return self.checks
        own = ("heads_converged", "task_not_at_chance") if self.metric == "accuracy" else (RANKING,)
        return (*own, *self.checks)

    def weights(self, tasks: Sequence[str]) -> dict[str, float]:
        """Task -> its weight in a score, of those at hand."""
        chosen = [task for task in tasks if task in self.tasks or not self.tasks]
        return {task: 1 / len(chosen) for task in chosen}

    def sides(self, models: Sequence[str]) -> list[list[str]]:
        """The models that the claim names, side by side; `ValueError` if a name matches none of `models`."""
        return [resolve(getattr(self, name), models) for name in self.SIDES]

    def judged(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        """The verdict. models: the figure's, as printed."""
        raise NotImplementedError


class Beats(Claim):
    """Each of `better` has a higher score than each of `worse`, in all `rounds`. share: of `better`'s scores, when this
    much of each is still more: `worse` has collapsed. One of `better` may be its untrained base."""

    better: Patterns
    worse: Patterns
    rounds: Texts = ()
    share: Annotated[float, Field(gt=0, le=1)] = 1.0

    def sides(self, models: Sequence[str]) -> list[list[str]]:
        suffixes = [f";{name}" for name in self.rounds] or [""]
        return [
            resolve([p + s for p in side], models)
            for s in suffixes
            for side in (self.better, self.worse)
        ]

    def judged(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        sides = self.sides(models)
        rounds = zip(sides[::2], sides[1::2], strict=True)
        pairs = [(a, b) for left, right in rounds for a in left if a not in right for b in right]
        words = f"{self.share:g} x " * (self.share < 1)
        return judge(
            [[Comparison({a: self.share}, {b: 1.0}, words + a, b)] for a, b in pairs], evidence
        )


class BeatsOnAverage(Claim):
    """The models of `better` have a higher average than those of `worse`. scale: of the effect, 2 for two groups."""

    SIDES = ("better", "worse")
    better: Patterns
    worse: Patterns
    scale: Count = 1

    def judged(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        sides = self.sides(models)
        words = [
            names[0] if len(names) == 1 else f"average of {len(names)} models" for names in sides
        ]
        words = words if self.scale == 1 else [f"{self.scale} x {side}" for side in words]
        averages = [dict.fromkeys(names, self.scale / len(names)) for names in sides]
        return judge([[Comparison(*averages, *words)]], evidence)


class CountBeating(Claim):
    """At least, at most, or exactly so many models of `group` have a higher score than every one of `baselines`; with
    at_least 1, the best of the group has a higher score than the best of these."""

    SIDES = ("group", "baselines")
    group: Patterns
    baselines: Patterns
    at_least: Count | None = None
    at_most: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a count needs at_least, at_most, or both")
        return self

    def judged(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        group, baselines = self.sides(models)
        units = [[pair(a, b) for b in baselines] for a in group]
        bounds = [] if self.at_least is None else [judge(units, evidence, at_least=self.at_least)]
        if self.at_most is not None and self.at_most < len(group):
            bounds.append(judge(units, evidence, at_most=self.at_most))
        return verdicts.weakest(bounds)


class CountPairs(Claim):
    """In at least `at_least` of the pairs the first model has a higher score than the second."""

    pairs: Filled[Annotated[tuple[Text, Text], Field(strict=False)]]
    at_least: Count

    def sides(self, models: Sequence[str]) -> list[list[str]]:
        return [resolve(names, models) for names in self.pairs]

    def judged(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        return judge([[pair(*names)] for names in self.pairs], evidence, at_least=self.at_least)


class Spread(Claim):
    """The scores of the models in `wider` have a larger standard deviation (n - 1) than those in `narrower`."""

    SIDES = ("wider", "narrower")
    wider: Patterns
    narrower: Patterns

    def judged(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        return verdicts.judge_spread(*self.sides(models), evidence)


class EasierTask(Claim):
    """On average over the figure's models, the score on one task is higher than on another."""

    easier: Text
    harder: Text

    def weights(self, tasks: Sequence[str]) -> dict[str, float]:
        return {self.easier: 1.0, self.harder: -1.0}

    def sides(self, models: Sequence[str]) -> list[list[str]]:
        return [list(models)]

    def judged(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        means = evidence.means.loc[list(models)].mean()
        average = Comparison(dict.fromkeys(models, 1 / len(models)), {}, self.easier, self.harder)
        judgement = judge([[average]], evidence)
        return replace(
            judgement, arithmetic=verdicts.arithmetic(means[self.easier], means[self.harder])
        )


class Alike(Claim):
    """Each of `models` scores as well with another treatment, up to `verdicts.MARGIN`; of our runs alone. The treatment
    is added to a model's name, before the round, as in "cosine;cut" for task texts cut at the teacher's limit."""

    models: Patterns
    treatment: Text

    def sides(self, models: Sequence[str]) -> list[list[str]]:
        whole = resolve(self.models, models)
        parts = [
            name.rpartition(";") if self.source == "fig5_3" else (name, "", "") for name in whole
        ]
        return [
            whole,
            [f"{head};{self.treatment}{separator}{rest}" for head, separator, rest in parts],
        ]

    def judged(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        pairs = zip(*self.sides(models), strict=True)
        ways = [
            way for whole, treated in pairs for way in (pair(whole, treated), pair(treated, whole))
        ]
        # Both differences stay above -MARGIN: two one-sided tests, so each has all of alpha.
        return judge([[replace(way, offset=verdicts.MARGIN)] for way in ways], evidence, sides=1)


class Number(Claim):
    """A number of the thesis with ours beside it, and no verdict. number: its name among our numbers."""

    number: Text
    published: Annotated[float, Field(allow_inf_nan=False)]


# `beats_on_average` is BeatsOnAverage
KINDS = {
    re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in Claim.__subclasses__()
}


def resolve(patterns: Sequence[str], models: Sequence[str]) -> list[str]:
    """The models that the patterns leave, in their own order; `ValueError` for a pattern that matches nothing."""
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
