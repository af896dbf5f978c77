"""How good models are on your own documents, by halves of documents and by tasks; and the choice.

Texts are judged in folds. A model that is fitted to documents (words, the mean that is subtracted)
is fitted anew for each fold, to texts outside it. Scores are those of single examples, from one run
of each model. So intervals account for other texts, not for other seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lib.data.dataset_folder import content
from lib.data.examples import make_group_folds, read_examples, read_queries
from lib.data.task_files import Task
from lib.evaluation import ranking, readouts
from lib.evaluation.ranking import Queries
from lib.evaluation.readouts import Examples
from lib.experiments.embedders import Centred
from lib.experiments.model import Model
from lib.statistics import verdicts
from lib.statistics.effects import pair
from lib.statistics.intervals import Evidence, TaskScores, from_examples
from lib.teachers.chunks import cut_text
from lib.texts import count_words, cut_halves
from lib.vectors import BASE, SIMPLEST_FIRST, TFIDF
from lib.vectors.models import embed_pieces

HALVES = "halves of documents"
HELD_OUT, WORDS = 500, 450_000  # at most so many documents and words whose halves are compared
READ = 4096  # words of a document whose halves are compared; the base reads as many tokens
VARIES = 1e-9  # smallest width of an interval that is not just rounding error
# `guessing` is the score of a random guess; intervals (95%) are NaN if nothing varies.
COLUMNS = (
    "measure examples guessing model value low high against_base against_low against_high".split()
)

MakeModels = Callable[[Sequence[str]], Mapping[str, Model]]  # of the texts that a measure reads
Note = Callable[[str], Any]


@dataclass(frozen=True)
class Measure:
    """One way to judge models, and the scores that it gave them."""

    name: str
    texts: Sequence[str]  # that models embed
    score: Callable[[str, Model], np.ndarray]  # a model's name and the model -> (examples,)
    groups: np.ndarray  # as in `lib.statistics.intervals.TaskScores`
    chance: float  # the score of guessing
    examples: int
    scores: dict[str, np.ndarray] = field(default_factory=dict)  # of each model that was judged

    def judge(self, make_models: MakeModels, note: Note) -> Measure:
        """Fill in the scores, except of models for which a fold leaves no words."""
        models = make_models(self.texts)
        embed_pieces(models.values(), self.texts)
        for name, model in models.items():
            try:
                self.scores[name] = self.score(name, model)
            except ValueError as error:
                if name == BASE:
                    raise
                note(f"note: {name} is not judged: {error}")
        return self


def judge_all(
    texts: Sequence[str],
    groups: Sequence[str],
    tasks: Mapping[str, Callable[[], Task]],
    make_models: MakeModels,
    note: Note,
) -> list[Measure]:
    """Judge models by the halves of texts and by tasks, which are read now.

    `groups` are what each text shares with others. `note` is told of measures and models that are
    left out.
    """
    measures = {HALVES: partial(measure_halves, texts, groups)}
    for name, read in tasks.items():
        measures[name] = lambda name=name, read=read: measure_task(name, read())
    judged = []
    for name, make in measures.items():
        try:
            judged.append(make().judge(make_models, note))
        except (ValueError, OSError) as error:  # only this measure is lost
            note(f"note: {name} is not judged: {error}")
    return judged


def draw_halves(texts: Sequence[str]) -> dict[int, tuple[str, str]]:
    """Draw documents at random whose halves are compared: place among the texts -> its halves.

    A document that shares a half with an earlier one, such as a form's heading, is left out.
    """
    drawn, words, seen = dict[int, tuple[str, str]](), 0, set[int]()
    for place in np.random.default_rng(42).permutation(len(texts)).tolist():
        halves = cut_halves(cut_text(texts[place], 100 * READ), READ)
        if halves is None or seen & {*map(content, halves)}:
            continue
        seen |= {*map(content, halves)}
        drawn[place] = halves
        words += sum(map(count_words, halves))
        if len(drawn) == HELD_OUT or words > WORDS:
            break
    return drawn


def measure_halves(texts: Sequence[str], groups: Sequence[str]) -> Measure:
    """How well halves of documents find each other among the halves of their fold (MRR).

    Models are fitted to documents that share no group with a fold.
    """
    halves = draw_halves(texts)
    if len(halves) < 2:
        raise ValueError("fewer than two documents have halves of their own")
    first, second = np.array([*halves.values()], dtype=object).T
    drawn = np.array(groups)[[*halves]]
    folds = make_group_folds(drawn, [*halves])

    def score(name: str, model: Model) -> np.ndarray:
        scores = np.empty(len(drawn))
        for fold in folds:
            sides = [*first[fold], *second[fold]]
            together = np.flatnonzero(np.isin(groups, drawn[fold])).tolist()
            fitted = model.fit_outside([*sides, *(texts[place] for place in together)])
            scores[fold] = ranking.rank_halves(fitted.embed(sides)).reshape(2, -1).mean(axis=0)
        return scores

    chances = [np.mean(1 / np.arange(1, 2 * len(fold))) for fold in folds]
    guessing = np.average(chances, weights=[len(fold) for fold in folds])
    return Measure(f"{HALVES} MRR", [*first, *second], score, drawn, guessing, len(drawn))


def measure_task(name: str, task: Task) -> Measure:
    """How well models do a task. Equal texts of it must be equal character by character.

    The accuracy of single texts is that of logistic regression on rows of norm 1, centred but not
    standardised: the scale of an LSA direction says how much it explains. Pairs are classified by
    comparing their texts, for TF-IDF by their cosine. A retrieval is judged by MAP, and a
    clustering as the retrieval of the other texts in a text's cluster.
    """
    texts = [*dict.fromkeys(task.texts.values())]
    if task.kind == "classification":
        return _measure_classification(name, task, texts)
    queries = read_queries(task)
    groups, sources = _name_groups(task, queries.text_ids), [*queries.relevant]
    folds = make_group_folds(groups[sources], [content(queries.texts[row]) for row in sources])

    def score(_: str, model: Model) -> np.ndarray:
        return ranking.rank_folds(partial(_embed_outside, model), queries, folds, "MAP")[1]

    chance = ranking.score_chance(queries, "MAP")
    groups = groups[queries.examples]
    return Measure(f"{name} MAP", texts, score, groups, chance, len(sources))


def _measure_classification(name: str, task: Task, texts: Sequence[str]) -> Measure:
    with warnings.catch_warnings(action="ignore"):  # small classes are reported elsewhere
        examples = read_examples(name, task, "test", cut=0)
    single = examples.inputs.shape[1] == 1

    def score(name: str, model: Model) -> np.ndarray:
        if single and name != TFIDF:
            model = Centred(model.store, model, examples.texts)
        classifier = "words" if single or name == TFIDF else "compare"
        return readouts.judge_folds(partial(_embed_outside, model), examples, classifier)

    groups = _name_groups(task, examples.text_ids)[examples.inputs[examples.tested]]
    return Measure(f"{name} accuracy", texts, score, groups, examples.chance, len(groups))


def _embed_outside(model: Model, fold: Examples | Queries) -> Any:
    """Vectors of all texts by a model that is fitted to none of a fold's tests."""
    tested = fold.examples if isinstance(fold, Queries) else fold.inputs[fold.tested]
    return model.fit_outside([fold.texts[row] for row in np.unique(tested)]).embed(fold.texts)


def _name_groups(task: Task, text_ids: Sequence[str]) -> np.ndarray:
    """(texts,) what each text shares with others: its cluster, its group, or its content."""
    names = {i: f"text {content(task.texts[i])}" for i in text_ids}
    names |= {i: f"group {task.groups[i]}" for i in text_ids if i in task.groups}
    names |= {i: f"cluster {task.clusters[i]}" for i in text_ids if i in task.clusters}
    return np.array([*names.values()])


# ---- the table and the choice -------------------------------------------------------------------


def compare_models(
    measures: Sequence[Measure], asked: str | None = None, say: Note = print
) -> dict[str, Any]:
    """Print the table of models; return `choose_model` and `table`, its rows, as plain values."""
    table, choice = make_table(measures), choose_model(measures, asked)
    if measures:
        say(table.to_string(index=False, na_rep="", float_format="{:.3f}".format))
    return _list_rows(pd.DataFrame([choice]))[0] | {"table": _list_rows(table)}


def _list_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def make_table(measures: Sequence[Measure]) -> pd.DataFrame:
    """Compare models, the base among them: a row of `COLUMNS` for each measure and model."""
    tables = []
    for measure in measures:
        models, evidence = [*measure.scores], _read_evidence([measure], [*measure.scores])
        table = verdicts.above_chance(_read_scores([measure], models), models)
        table = table.rename(columns={"score": "value"})
        against = verdicts.compare([(model, BASE) for model in models], evidence)
        table["against_base"] = against["difference"]
        table[["against_low", "against_high"]] = against[["low", "high"]]
        for least, low, high in ((0, "low", "high"), (-1, "against_low", "against_high")):
            varies = table[high] - table[low] > VARIES
            table[[low, high]] = table[[low, high]].clip(least, 1).where(varies)
        facts = {"measure": measure.name, "examples": measure.examples, "guessing": measure.chance}
        tables.append(table.assign(**facts))
    return pd.concat(tables, ignore_index=True)[COLUMNS] if tables else pd.DataFrame()


def choose_model(measures: Sequence[Measure], asked: str | None = None) -> dict[str, Any]:
    """Choose a model: the best, or the simplest that cannot be distinguished from it.

    The best has the highest mean over all measures. The choice is the first of `SIMPLEST_FIRST`
    whose difference from the best has a 95% interval that spans zero. TF-IDF is not among them,
    because its vectors are as long as the vocabulary. A model that is `asked` for is chosen
    whatever its scores; `ValueError` if some measure did not judge it.

    Returns the `model`, its mean `score`, that of the `base`, their `difference`, and `low` and
    `high`, a 95% interval that accounts for the choice among all models. The `verdict` is "WIN" or
    "LOSS" if the interval lies above or below 0, else "EQUAL". NaN stands for what does not vary,
    and for everything without measures. `line` says all of it to scripts.
    """
    models = [m for m in SIMPLEST_FIRST if all(m in measure.scores for measure in measures)]
    if asked is not None and asked not in models:
        raise ValueError(f"{asked!r} was not judged by every measure; models here: {models}")
    chosen, score, base, low, high = asked or BASE, np.nan, np.nan, np.nan, np.nan
    if measures:
        evidence = _read_evidence(measures, models)
        means = dict(zip(evidence.means.index, evidence.scores.tolist(), strict=True))
        best = max(models, key=lambda model: means[model])
        against = verdicts.compare([(best, model) for model in models], evidence)
        as_good = against["right"][~(against["low"] > VARIES)]  # NaN if nothing varies
        chosen = asked or as_good.iloc[0]
        score, base = means[chosen], means[BASE]
        low, high = _bound_difference(chosen, means, evidence)
    verdict = "WIN" if low > 0 else "LOSS" if high < 0 else "EQUAL"
    interval = "" if np.isnan(low) else f" [{low:+.3f}, {high:+.3f}]"
    numbers = f"{score:.3f} | {base:.3f} | {score - base:+.3f}{interval}"
    choice = {"verdict": verdict, "model": chosen, "score": score, "base": base}
    choice |= {"difference": score - base, "low": low, "high": high}
    return choice | {"line": f"VERDICT: {verdict} | {chosen} | {numbers}"}


def _bound_difference(
    chosen: str, means: Mapping[str, float], evidence: Evidence
) -> tuple[float, float]:
    """The interval of a model's difference from the base; NaN if texts do not change it."""
    against = verdicts.compare([(model, BASE) for model in means], evidence)
    others = against["left"][against["high"] - against["low"] > VARIES].tolist()
    if chosen not in others:  # the base itself, or as far from it on every text
        return np.nan, np.nan
    rank = 1 + sum(means[other] > means[chosen] for other in others)
    judgement = verdicts.judge([[pair(each, BASE)] for each in others], evidence, at_least=rank)
    return max(judgement.low, -1.0), min(judgement.high, 1.0)


def _read_evidence(measures: Sequence[Measure], models: Sequence[str]) -> Evidence:
    return from_examples(_read_scores(measures, models), given=models)


def _read_scores(measures: Sequence[Measure], models: Sequence[str]) -> dict[str, TaskScores]:
    """{measure: scores of models}, which are not corrected for chance."""
    return {
        each.name: TaskScores({name: each.scores[name][None] for name in models}, each.groups, 0.0)
        for each in measures
    }
