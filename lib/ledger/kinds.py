"""What a finding of the thesis may say, and the comparisons that decide whether it is so.

Each kind turns a finding into weighted sums of the models' scores, which are positive if it holds;
`lib.statistics.verdicts` judges them. Claims are judged as worded: "the best" is the best of the
run at hand, and its interval accounts for the choice. Models are named as in the claim's figure.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field

from lib.config import profiles
from lib.config.schema import Count, Filled, Settings, Text, Texts
from lib.statistics import verdicts
from lib.statistics.effects import Comparison, pair
from lib.statistics.intervals import Evidence
from lib.statistics.verdicts import EQUIVALENT, HOLDS, OPEN, REVERSED, Judgement, Statement, judge

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

    def units(self, models: Sequence[str]) -> Statement:
        """What is compared, see `verdicts.judge`; `ValueError` if a name matches none of `models`,
        which are the figure's, as printed.
        """
        raise NotImplementedError

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        """The verdict on the evidence."""
        return judge(self.units(models), evidence)

    def named(self, models: Sequence[str]) -> set[str]:
        """All models that are compared."""
        return {name for unit in self.units(models) for each in unit for name in each.weights}


class Beats(Claim):
    """Each of `better` has a higher score than each of `worse`, in all `rounds`.

    With a `share` below 1, `worse` has collapsed: even this share of each of `better`'s scores is
    higher. `better` may then include the untrained base of `worse`.
    """

    better: Patterns
    worse: Patterns
    rounds: Texts = ()
    share: Annotated[float, Field(gt=0, le=1)] = 1.0

    def units(self, models: Sequence[str]) -> Statement:
        units = []
        for ending in [f";{name}" for name in self.rounds] or [""]:
            left, right = (
                match_models([pattern + ending for pattern in side], models)
                for side in (self.better, self.worse)
            )
            for a in left:
                words = a if self.share == 1 else f"{self.share:g} x {a}"
                if a not in right:
                    units += [[Comparison({a: self.share}, {b: 1.0}, words, b)] for b in right]
        return units


class BeatsOnAverage(Claim):
    """The models of `better` have a higher average than those of `worse`.

    `scale` multiplies the effect; 2, for example, makes it a sum over two groups.
    """

    better: Patterns
    worse: Patterns
    scale: Count = 1

    def units(self, models: Sequence[str]) -> Statement:
        averages, words = [], []
        for patterns in (self.better, self.worse):
            names = match_models(patterns, models)
            side = names[0] if len(names) == 1 else f"average of {len(names)} models"
            words.append(side if self.scale == 1 else f"{self.scale} x {side}")
            averages.append(dict.fromkeys(names, self.scale / len(names)))
        return [[Comparison(*averages, *words)]]


class CountBeating(Claim):
    """At least `at_least` and at most `at_most` models of `group` beat all of `baselines`.

    With an `at_least` of 1, the best of the group beats the best baseline.
    """

    group: Patterns
    baselines: Patterns
    at_least: Count | None = None
    at_most: Annotated[int, Field(ge=0)] | None = None

    def units(self, models: Sequence[str]) -> Statement:
        baselines = match_models(self.baselines, models)
        return [[pair(a, b) for b in baselines] for a in match_models(self.group, models)]

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        rules = [{name: bound} for name, bound in bounds.items() if bound is not None]
        judged = [judge(self.units(models), evidence, **rule) for rule in rules]
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

    def units(self, models: Sequence[str]) -> Statement:
        return [[pair(*names)] for names in self.pairs]

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        return judge(self.units(models), evidence, at_least=self.at_least)


class Spread(Claim):
    """The scores of the models in `wider` have a larger standard deviation than `narrower`'s."""

    wider: Patterns
    narrower: Patterns

    def units(self, models: Sequence[str]) -> Statement:
        sides = (match_models(patterns, models) for patterns in (self.wider, self.narrower))
        return [[Comparison(*(dict.fromkeys(side, 1.0) for side in sides), "", "")]]

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        ((sides,),) = self.units(models)
        return verdicts.judge_spread([*sides.plus], [*sides.minus], evidence)


class EasierTask(Claim):
    """On average over the figure's models, the score on one task is higher than on another."""

    easier: Text
    harder: Text

    def weights(self, tasks: Sequence[str]) -> dict[str, float]:
        return {self.easier: 1.0, self.harder: -1.0}

    def units(self, models: Sequence[str]) -> Statement:
        average = dict.fromkeys(models, 1 / len(models))
        return [[Comparison(average, {}, self.easier, self.harder)]]

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        means = evidence.means.loc[[*models]].mean()
        words = verdicts.arithmetic(means[self.easier], means[self.harder])
        return replace(super().judge_scores(evidence, models), arithmetic=words)


class Alike(Claim):
    """Each of `models` scores as well with another treatment, up to `verdicts.MARGIN`.

    Only our own runs can show this. A model's name gets the treatment before the round, such as
    "cosine;cut;all" for task texts that are cut at the teacher's limit.
    """

    models: Patterns
    treatment: Text

    def units(self, models: Sequence[str]) -> Statement:
        units = []
        for whole in match_models(self.models, models):
            name, separator, rest = whole.partition(";" if self.source == "fig5_3" else "\n")
            treated = f"{name};{self.treatment}{separator}{rest}"
            for names in ((whole, treated), (treated, whole)):  # is each above -MARGIN?
                units.append([replace(pair(*names), offset=verdicts.MARGIN)])
        return units

    def judge_scores(self, evidence: Evidence, models: Sequence[str]) -> Judgement:
        # Two one-sided tests, so each may use all of alpha.
        return judge(self.units(models), evidence, sides=1)


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
