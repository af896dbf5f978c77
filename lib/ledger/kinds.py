"""What a finding of the thesis may say, and the comparisons that decide whether it is so.

Each kind turns a finding into weighted sums of the models' scores, which are positive if it holds;
`lib.statistics.verdicts` judges them. Claims are judged as worded: "the best" is the best of the
run at hand, and its interval accounts for the choice. Models are named as in the claim's figure.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lib.config import profiles
from lib.config.schema import Count, Filled, Settings, Text, Texts
from lib.statistics import verdicts
from lib.statistics.effects import Comparison, pair
from lib.statistics.intervals import Evidence
from lib.statistics.verdicts import EQUIVALENT, HOLDS, OPEN, REVERSED, Judgement, judge

# Names or shell patterns; a pattern that begins with "!" removes models again.
Patterns = Filled[Text]
RANKING = "ranking_not_at_chance"  # what claims about retrieval need
CHECKS = {"accuracy": ("task_not_at_chance",), "MAP": (RANKING,), "MRR": (RANKING,), "F1": ()}


class Claim(Settings):
    """A finding of the thesis, in our words.

    `quote` has the exact words of the thesis or the news paper; if the finding is `read_off` the
    figure, they introduce the figure. The numbers of `source` decide, by default those of `figure`.
    Only `tasks` count, by default all. `checks` are preconditions, see `lib.ledger.checks`.
    """

    SIDES: ClassVar[tuple[str, ...]] = ()  # fields that name models

    id: Text
    kind: Text
    section: Text
    figure: Text
    finding: Text
    quote: Text
    read_off: bool = False
    source: Text = Field(default_factory=lambda given: given["figure"])
    metric: Literal["accuracy", "MAP", "MRR", "F1"] = "accuracy"
    tasks: Texts = ()
    checks: Texts = ()
    note: str = ""

    @property
    def needed(self) -> tuple[str, ...]:
        """All checks that the claim needs."""
        return (*CHECKS[self.metric], *self.checks)

    def weights(self, tasks: Sequence[str]) -> dict[str, float]:
        """Task -> its weight in a score. `tasks` are those that have scores."""
        chosen = [task for task in tasks if task in self.tasks or not self.tasks]
        return {task: 1 / len(chosen) for task in chosen}

    def opponents(self, models: Sequence[str]) -> list[list[list[str]]]:
        """The pairs of sides that are compared; `ValueError` if a name matches no model."""
        return [[match_models(getattr(self, name), models) for name in self.SIDES]]

    def named(self, models: Sequence[str]) -> set[str]:
        """All models that are compared."""
        return {name for sides in self.opponents(models) for side in sides for name in side}

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        """The verdict on the evidence. `models` are the figure's, as printed."""
        raise NotImplementedError


class Beats(Claim):
    """Each of `better` has a higher score than each of `worse`, in all `rounds`.

    With a `share` below 1, `worse` has collapsed: even this share of each of `better`'s scores is
    higher. `better` may then include the untrained base of `worse`.
    """

    better: Patterns
    worse: Patterns
    rounds: Texts = ()
    share: Annotated[float, Field(gt=0, le=1)] = 1.0

    def opponents(self, models: Sequence[str]) -> list[list[list[str]]]:
        pairs = []
        for ending in [f";{name}" for name in self.rounds] or [""]:
            patterns = [[each + ending for each in side] for side in (self.better, self.worse)]
            pairs.append([match_models(side, models) for side in patterns])
        return pairs

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        units = []
        for left, right in self.opponents(models):
            for a in left:
                words = a if self.share == 1 else f"{self.share:g} x {a}"
                if a not in right:
                    units += [[Comparison({a: self.share}, {b: 1.0}, words, b)] for b in right]
        return judge(units, evidence)


class BeatsOnAverage(Claim):
    """The models of `better` have a higher average than those of `worse`.

    `scale` multiplies the effect; 2, for example, makes it a sum over two groups.
    """

    SIDES = ("better", "worse")
    better: Patterns
    worse: Patterns
    scale: Count = 1

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        averages, words = [], []
        for names in self.opponents(models)[0]:
            side = names[0] if len(names) == 1 else f"average of {len(names)} models"
            words.append(side if self.scale == 1 else f"{self.scale} x {side}")
            averages.append(dict.fromkeys(names, self.scale / len(names)))
        return judge([[Comparison(*averages, *words)]], evidence)


class CountBeating(Claim):
    """At least `at_least` and at most `at_most` models of `group` beat all of `baselines`.

    With an `at_least` of 1, the best of the group beats the best baseline.
    """

    SIDES = ("group", "baselines")
    group: Patterns
    baselines: Patterns
    at_least: Count | None = None
    at_most: Annotated[int, Field(ge=0)] | None = None

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        ((group, baselines),) = self.opponents(models)
        units = [[pair(a, b) for b in baselines] for a in group]
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        judged = [judge(units, evidence, **{k: n}) for k, n in bounds.items() if n is not None]
        # At most one of the two can be false, so their errors of 2.5% add up to at most 5%.
        order = (REVERSED, OPEN, EQUIVALENT, HOLDS)
        weakest = min(judged, key=lambda each: (order.index(each.verdict), each.effect))
        if judged[1:] and weakest.holding:
            ahead, behind = (each.holding for each in judged)
            weakest = replace(weakest, holding=f"{ahead} ahead, {behind} not")
        return weakest


class CountPairs(Claim):
    """In at least `at_least` of the pairs, the first model has a higher score than the second."""

    pairs: Filled[Annotated[tuple[Text, Text], Field(strict=False)]]
    at_least: Count

    def opponents(self, models: Sequence[str]) -> list[list[list[str]]]:
        return [[match_models([name], models) for name in names] for names in self.pairs]

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        return judge([[pair(*names)] for names in self.pairs], evidence, at_least=self.at_least)


class Spread(Claim):
    """The scores of the models in `wider` have a larger standard deviation than `narrower`'s."""

    SIDES = ("wider", "narrower")
    wider: Patterns
    narrower: Patterns

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        return verdicts.judge_spread(*self.opponents(models)[0], evidence)


class EasierTask(Claim):
    """On average over the figure's models, the score on one task is higher than on another."""

    easier: Text
    harder: Text

    def weights(self, tasks: Sequence[str]) -> dict[str, float]:
        return {self.easier: 1.0, self.harder: -1.0}

    def opponents(self, models: Sequence[str]) -> list[list[list[str]]]:
        return [[list(models)]]

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        means = evidence.means.loc[list(models)].mean()
        average = Comparison(dict.fromkeys(models, 1 / len(models)), {}, self.easier, self.harder)
        words = verdicts.arithmetic(means[self.easier], means[self.harder])
        return replace(judge([[average]], evidence), arithmetic=words)


class Alike(Claim):
    """Each of `models` scores as well with another treatment, up to `verdicts.MARGIN`.

    Only our own runs can show this. A model's name gets the treatment before the round, such as
    "cosine;cut;all" for task texts that are cut at the teacher's limit.
    """

    models: Patterns
    treatment: Text

    def opponents(self, models: Sequence[str]) -> list[list[list[str]]]:
        pairs = []
        for whole in match_models(self.models, models):
            name, separator, rest = whole.partition(";" if self.source == "fig5_3" else "\n")
            pairs.append([[whole], [f"{name};{self.treatment}{separator}{rest}"]])
        return pairs

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        # Two one-sided tests, that each difference is above -MARGIN. So each may use all of alpha.
        units = []
        for (whole,), (treated,) in self.opponents(models):
            for names in ((whole, treated), (treated, whole)):
                units.append([replace(pair(*names), offset=verdicts.MARGIN)])
        return judge(units, evidence, sides=1)


class Number(Claim):
    """A number of the thesis next to ours, which is called `number`, without a verdict."""

    number: Text
    published: Annotated[float, Field(allow_inf_nan=False)]

    @property
    def needed(self) -> tuple[str, ...]:
        return ()


KINDS: dict[str, type[Claim]] = {
    "beats": Beats,
    "beats_on_average": BeatsOnAverage,
    "count_beating": CountBeating,
    "count_pairs": CountPairs,
    "spread": Spread,
    "easier_task": EasierTask,
    "alike": Alike,
    "number": Number,
}


@functools.cache
def load_claims() -> list[Claim]:
    """Every finding of `params/claims.yaml`, in the thesis' order, or a `ParameterError`."""
    return [
        profiles.validated(KINDS[fields["kind"]], {"id": name, **fields}, where)
        for name, fields, where in profiles.entries("claims.yaml")
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
