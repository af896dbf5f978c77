"""What a finding of the thesis may say, and the comparisons that decide whether it is so.

Each kind turns a finding into weighted sums of the models' scores, which are positive if it holds.
Claims are judged as worded: "the best" is the best of the run at hand, and its interval accounts
for the choice. Models are named as in the claim's figure.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Literal

import pandas as pd
from pydantic import Field
from pydantic.alias_generators import to_snake

from lib.config import profiles
from lib.config.schema import Count, Filled, Settings, Text, Texts
from lib.statistics import verdicts
from lib.statistics.effects import Comparison, pair
from lib.statistics.intervals import Evidence
from lib.statistics.verdicts import EQUIVALENT, HOLDS, OPEN, REVERSED, Judgement, Statement, judge

# Names or shell patterns; a pattern that begins with "!" removes models again.
Patterns = Filled[Text]
RANKING = "ranking_not_at_chance"  # what claims about retrieval need
CHECKS = {"accuracy": ("task_not_at_chance",), "MAP": (RANKING,), "MRR": (RANKING,)}


class Claim(Settings):
    """A finding of the thesis, in our words.

    `quote` has the exact words of the thesis or the news paper; if the finding is `read_off` the
    figure, they introduce the figure. The numbers of `source` decide, by default those of `figure`.
    Only `tasks` count, by default all. `checks` are preconditions, see `lib.ledger.checks`.
    """

    id: Text
    kind: Text
    section: Text
    figure: Text
    finding: Text
    quote: Text
    read_off: bool = False
    source: Text = Field(default_factory=lambda given: given["figure"])
    metric: Literal["accuracy", "MAP", "MRR", "F1", "ratio"] = "accuracy"
    tasks: Texts = ()
    checks: Texts = ()
    note: str = ""
    # The least and the greatest number of units that hold; without either, all must.
    at_least: Count | None = None
    at_most: Annotated[int, Field(ge=0)] | None = None
    sides: ClassVar[int] = 2  # of each test

    @property
    def needed(self) -> tuple[str, ...]:
        """All checks that the claim needs."""
        return (*CHECKS.get(self.metric, ()), *self.checks)

    def weights(self, tasks: Sequence[str]) -> dict[str, float]:
        """Task -> its weight in a score. `tasks` are those that have scores."""
        chosen = [task for task in tasks if task in self.tasks or not self.tasks]
        return {task: 1 / len(chosen) for task in chosen}

    def units(self, models: Sequence[str]) -> Statement:
        """What is compared, see `verdicts.judge`; `models` are all of the figure, as printed."""
        raise NotImplementedError

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        """The verdict on the evidence; of two bounds, the one with the worse verdict decides."""
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        rules = [{name: bound} for name, bound in bounds.items() if bound is not None] or [{}]
        judged = [judge(self.units(models), evidence, sides=self.sides, **rule) for rule in rules]
        # At most one of the two can be false, so their errors of 2.5% add up to at most 5%.
        order = (REVERSED, OPEN, EQUIVALENT, HOLDS)
        return min(judged, key=lambda each: (order.index(each.verdict), each.effect))

    def named(self, models: Sequence[str]) -> set[str]:
        """All models that are compared."""
        return {name for unit in self.units(models) for each in unit for name in each.weights}


class Beats(Claim):
    """Each of `better` has a higher score than each of `worse`, in all `rounds`.

    With `at_least` or `at_most`, that many of `better` beat all of `worse`; with `at_least` 1, the
    best of `better` beats the best of `worse`. A `share` below 1 says that `worse` has collapsed:
    even this share of each score of `better` is higher.
    """

    better: Patterns
    worse: Patterns
    rounds: Texts = ()
    share: Annotated[float, Field(gt=0, le=1)] = 1.0

    def units(self, models: Sequence[str]) -> Statement:
        units: list[list[Comparison]] = []
        for ending in [f";{name}" for name in self.rounds] or [""]:
            left = match_models([pattern + ending for pattern in self.better], models)
            right = match_models([pattern + ending for pattern in self.worse], models)
            for name in [name for name in left if name not in right]:
                words = name if self.share == 1 else f"{self.share:g} x {name}"
                units.append([Comparison({name: self.share}, {b: 1.0}, words, b) for b in right])
        if self.at_least is None and self.at_most is None:  # count the comparisons, not the models
            units = [[each] for each in itertools.chain(*units)]
        return units


class BeatsOnAverage(Claim):
    """The average of `better` is higher than that of `worse`; `scale` multiplies the effect."""

    better: Patterns
    worse: Patterns
    scale: Count = 1

    def units(self, models: Sequence[str]) -> Statement:
        sides, words = [], []
        for names in (match_models(side, models) for side in (self.better, self.worse)):
            word = names[0] if len(names) == 1 else f"average of {len(names)} models"
            words.append(word if self.scale == 1 else f"{self.scale} x {word}")
            sides.append(dict.fromkeys(names, self.scale / len(names)))
        return [[Comparison(*sides, *words)]]


class CountPairs(Claim):
    """In at least `at_least` of the pairs, the first model has a higher score than the second."""

    pairs: Filled[Annotated[tuple[Text, Text], Field(strict=False)]]

    def units(self, models: Sequence[str]) -> Statement:
        return [[pair(*names)] for names in self.pairs]


class Spread(Claim):
    """The scores of `wider` have a larger standard deviation than `narrower`'s (delta method)."""

    wider: Patterns
    narrower: Patterns

    def units(self, models: Sequence[str]) -> Statement:
        wider, narrower = (match_models(names, models) for names in (self.wider, self.narrower))
        return [[Comparison(dict.fromkeys(wider, 1.0), dict.fromkeys(narrower, 1.0), "", "")]]

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        ((sides,),) = self.units(models)
        scores, slopes = pd.Series(evidence.scores, evidence.means.index), []
        for own in (scores[[*sides.plus]], scores[[*sides.minus]]):
            slopes.append(dict((own - own.mean()) / ((len(own) - 1) * own.std())))
        words = (f"sd of {len(each)} models" for each in slopes)
        return judge([[Comparison(*slopes, *words)]], evidence)


class EasierTask(Claim):
    """On average over the figure's models, the score on one task is higher than on another."""

    easier: Text
    harder: Text

    def weights(self, tasks: Sequence[str]) -> dict[str, float]:
        return {self.easier: 1.0, self.harder: -1.0}

    def units(self, models: Sequence[str]) -> Statement:
        return [[Comparison(dict.fromkeys(models, 1 / len(models)), {}, self.easier, self.harder)]]


class Alike(Claim):
    """Each of `models` scores as well with another treatment, up to `verdicts.MARGIN`.

    Only our own runs of Figure 5.3 can show this. A model's name gets the treatment before the
    round, such as "cosine;cut;all" for texts that are cut at the teacher's limit.
    """

    models: Patterns
    treatment: Text
    sides: ClassVar[int] = 1  # two one-sided tests, so each may use all of alpha

    def units(self, models: Sequence[str]) -> Statement:
        units = []
        for whole in match_models(self.models, models):
            name, _, run = whole.partition(";")
            treated = f"{name};{self.treatment};{run}"
            for names in ((whole, treated), (treated, whole)):  # is each above -MARGIN?
                units.append([replace(pair(*names), offset=verdicts.MARGIN)])
        return units


class Number(Claim):
    """A number of the thesis next to ours, which is called `number`, without a verdict."""

    number: Text
    published: Annotated[float, Field(allow_inf_nan=False)]


KINDS = {to_snake(kind.__name__): kind for kind in Claim.__subclasses__()}


@functools.cache
def load_claims() -> list[Claim]:
    """Every finding of `params/claims.yaml`, in the thesis' order, or a `ParameterError`."""
    return [
        profiles.validated(KINDS[fields["kind"]].model_validate, {"id": name, **fields}, name)
        for name, fields in profiles.read_yaml("claims.yaml").items()
    ]


def match_models(patterns: Sequence[str], models: Sequence[str]) -> list[str]:
    """The models that the patterns select, in their order; `ValueError` if one matches none."""
    chosen: set[str] = set()
    for pattern in patterns:
        matching = {name for name in models if fnmatchcase(name, pattern.removeprefix("!"))}
        if not matching:
            raise ValueError(f"{pattern.removeprefix('!')!r} matches no model of the figure")
        chosen = chosen - matching if pattern.startswith("!") else chosen | matching
    return [name for name in models if name in chosen]
