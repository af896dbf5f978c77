"""How good models are on your own documents, by halves of documents and by tasks; and the choice.

A model that is fitted to documents (words, the mean that is subtracted) is fitted anew for each
fold, to texts outside it. Each model has one run: intervals account for texts, not for seeds.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from lib.data import task_files
from lib.data.dataset_folder import content
from lib.data.examples import make_group_folds, number_linked, read_examples, read_queries
from lib.evaluation import ranking, readouts
from lib.experiments.models import Centred, Model
from lib.statistics import verdicts
from lib.statistics.intervals import Evidence, TaskScores, from_examples
from lib.store import hash_texts
from lib.teachers.rows import cut_text
from lib.texts import count_words, cut_halves
from lib.vectors import BASE, SIMPLEST_FIRST, TFIDF

HELD_OUT, WORDS = 500, 450_000  # at most so many documents and words whose halves are compared
READ = 4096  # words of a document whose halves are compared; the base reads as many tokens
VARIES = 1e-9  # smallest width of an interval that is not just rounding error


class Measure(NamedTuple):
    """Scores of single examples by one measure; see `lib.statistics.intervals.TaskScores`."""

    name: str
    scores: dict[str, np.ndarray]  # model -> (examples,)
    groups: np.ndarray
    chance: float  # the score of guessing
    examples: int  # how many different ones there are
    folds: int = 1  # of a classification


class Pool:
    """The different ones among texts with these checksums and groups, which their copies join."""

    def __init__(self, texts: Any, contents: np.ndarray, groups: Sequence[str]):
        # Which of several copies is kept must not depend on the order of the file.
        order = np.argsort(hash_texts(texts), kind="stable")
        self.rows = np.sort(order[np.unique(contents[order], return_index=True)[1]])
        shared = ({("text", c), ("group", g)} for c, g in zip(contents, groups, strict=True))
        linked = number_linked(each - {("group", "")} for each in shared)
        self.texts, self.groups = texts[self.rows], linked[self.rows].astype(str)
        self.group_of = dict(zip(contents[self.rows].tolist(), self.groups.tolist(), strict=True))

    def find_related(self, groups: Sequence[str]) -> list[str]:
        """The texts of these groups."""
        return [self.texts[n] for n in np.flatnonzero(np.isin(self.groups, groups)).tolist()]


def judge_all(pool: Pool, tasks: Mapping, make_models: Callable) -> list:
    """Judge models by the halves of texts and by tasks: a `Measure` of each. Those that cannot
    be taken are printed and left out. `make_models` maps the texts of a measure to named models.
    """
    judges = {"halves of documents": partial(judge_halves, pool)}
    judges |= {name: partial(judge_task, name, task, pool) for name, task in tasks.items()}
    measures = []
    for name, judge in judges.items():
        print(f"judging by {name}", flush=True)
        try:
            measures.append(judge(make_models))
        except (ValueError, OSError) as error:  # only this measure is lost
            print(f"note: {name} is not judged: {error}")
    return measures


def draw_sample(texts: Any) -> Any:
    """Documents of an array or `Texts`, drawn by checksum, whose mean stands for that of all."""
    drawn = texts[np.argsort(hash_texts(texts))[:HELD_OUT]]
    words = np.cumsum([min(count_words(text), READ) for text in drawn])
    return drawn[: 1 + np.searchsorted(words, WORDS)]


def draw_halves(texts: Sequence[str]) -> dict[int, tuple[str, str]]:
    """Draw documents whose halves are compared, by their checksums: place among the texts -> its
    halves. One that shares a half with an earlier one, such as a form's heading, is left out.
    """
    drawn, words, seen = dict[int, tuple[str, str]](), 0, set[int]()
    for place in np.argsort(hash_texts(texts)).tolist():
        halves = cut_halves(cut_text(texts[place], 100 * READ), READ)
        if halves is not None and seen.isdisjoint(keys := [*map(content, halves)]):
            drawn[place] = halves
            seen.update(keys)
            words += sum(map(count_words, halves))
        if len(drawn) == HELD_OUT or words > WORDS:
            break
    return drawn


def judge_halves(pool: Pool, make_models: Callable) -> Measure:
    """How well halves of documents find each other (MRR), by models fitted without them."""
    halves = draw_halves(pool.texts)
    if len(halves) < 2:
        raise ValueError("fewer than two documents have halves of their own")
    first, second = np.array([*halves.values()], dtype=object).T
    models = make_models([*first, *second])
    drawn, chance = pool.groups[[*halves]], 0.0
    scores = {name: np.empty(len(drawn)) for name in models}
    for fold in make_group_folds(drawn, hash_texts(first)):
        sides = [*first[fold], *second[fold]]
        held_out = [*sides, *pool.find_related(drawn[fold])]
        for name, model in models.items():
            vectors = model.fit_outside(held_out).embed(sides)
            scores[name][fold] = ranking.rank_halves(vectors).reshape(2, -1).mean(axis=0)
        chance += len(fold) / len(drawn) * np.mean(1 / np.arange(1, len(sides)))
    return Measure("halves of documents MRR", scores, drawn, chance, len(drawn))


def judge_task(name: str, task: task_files.Task, pool: Pool, make_models: Callable) -> Measure:
    """Judge models on a task, fitted to no text of the pool that is related to what is tested.

    Single texts are classified by logistic regression on rows of norm 1, centred but not
    standardised: the scale of an LSA direction says how much it explains. Pairs are classified by
    comparing texts, for TF-IDF by their cosine. A clustering is the retrieval of the cluster's
    other texts (MAP).
    """
    # In its order folds are made, which must not be that of the file, or of the texts of a pair.
    examples = task.examples.iloc[task_files.shuffle_by_content(task, task.examples["ids"], 42)]
    if task.kind == "classification":
        either = [tuple(sorted(ids, key=task.contents.get)) for ids in examples["ids"]]
        examples = examples.assign(ids=either)
    own = {i: pool.group_of.get(each, f"text {each}") for i, each in task.contents.items()}
    task = replace(task, examples=examples.reset_index(drop=True), groups=own)
    different = dict(sorted((task.contents[i], text) for i, text in task.texts.items())).values()
    scores, models = {}, make_models(draw_sample(pool.texts))
    # A cluster counts once, and under one name in all clusterings that (nearly) agree on it: two
    # sets have the same smallest checksum as often as they share members (MinHash).
    least = pd.Series(task.contents).groupby(task.clusters).min() if task.clusters else {}
    names = own | {i: f"cluster {least[each]}" for i, each in task.clusters.items()}

    def embed(model: Model, fold: Any) -> Any:
        """Vectors of all texts by a model that is fitted to nothing related to a fold's tests."""
        queries = isinstance(fold, ranking.Queries)
        tested = np.unique(fold.examples if queries else fold.inputs[fold.tested])
        related = pool.find_related([own[fold.text_ids[row]] for row in tested])
        held_out = [*(fold.texts[row] for row in tested), *related]
        return model.fit_outside(held_out).embed(fold.texts)

    if task.kind != "classification":
        queries = read_queries(task)
        groups, sources = np.array([names[i] for i in queries.text_ids]), [*queries.relevant]
        folds = make_group_folds(groups[sources], [content(queries.texts[row]) for row in sources])
        for key, model in models.items():
            scores[key] = ranking.rank(partial(embed, model), queries, "MAP", folds=folds)[1]
        chance = ranking.score_chance(queries, "MAP")
        return Measure(f"{name} MAP", scores, groups[queries.examples], chance, len(sources))
    with warnings.catch_warnings(action="ignore"):  # of classes with fewer examples than folds
        examples = read_examples(name, task, "test", per_split=0)
    single = examples.inputs.shape[1] == 1
    for key, model in models.items():
        if single and key != TFIDF:
            model = Centred(model.store, model, [*different])
        readout = "words" if single or key == TFIDF else "compare"
        scores[key] = readouts.judge_folds(partial(embed, model), examples, readout)
    groups = np.array([names[i] for i in examples.text_ids])[examples.inputs[examples.tested]]
    keys = np.array([task.contents[i] for i in examples.text_ids])[examples.inputs[examples.tested]]
    different, folds = len(np.unique(keys, axis=0)), len(examples.parts)
    return Measure(f"{name} accuracy", scores, groups, examples.chance, different, folds)


def compare_models(measures: Sequence[Measure], asked: str | None = None) -> dict[str, Any]:
    """Print the table of models, and choose one; plain values for scripts and model cards.

    The choice is `asked` or, without it, the simplest model that is not clearly worse than the
    best. `line` has its difference from the base, with a wider interval if it was chosen here.
    Constant scores and differences have no interval (None). Without measures there are no numbers.
    """
    table, means = pd.DataFrame(), pd.Series(np.nan, [*SIMPLEST_FIRST])
    chosen, verdict, low, high = asked or BASE, "EQUAL", np.nan, np.nan
    if measures:
        facts = [(each.name, each.examples, each.chance) for each in measures]
        frames = [_tabulate([each], [*each.scores])[0] for each in measures]
        table = pd.concat(frames, keys=facts, names=["measure", "examples", "guessing", None])
        table = table.reset_index(level=[0, 1, 2])
        models = [model for model in SIMPLEST_FIRST if model in measures[0].scores]
        overall, evidence = _tabulate(measures, models)
        means = overall.set_index("model")["value"]
        best = [(means.idxmax(), model) for model in models]
        behind = verdicts.compare(best, evidence)
        # Without an interval, all examples say the same.
        worse = behind["low"].fillna(behind["difference"]) > VARIES
        chosen = asked or models[worse.argmin()]
        others = overall["model"][overall["against_low"].notna()].tolist()
        least = most = difference = means[chosen] - means[BASE]
        if chosen in others:  # not the base, and its difference from the base varies
            # Whichever model is chosen, it was one of several that luck could favour (Bonferroni).
            alpha = verdicts.ALPHA / (1 if asked else len(others))
            weights = (means.index == chosen) * 1.0 - (means.index == BASE)
            (error,), (df,) = evidence.errors(weights[None])
            half = stats.t.ppf(1 - alpha / 2, df) * error
            low, high = least, most = np.clip([difference - half, difference + half], -1, 1)
        verdict = "WIN" if least > VARIES else "LOSS" if most < -VARIES else verdict
    print(table.to_string(index=False, na_rep="", float_format="{:.3f}".format))
    score, base = means[[chosen, BASE]]
    line = f"VERDICT: {verdict} | {chosen} | {score:.3f} | {base:.3f} | {score - base:+.3f}"
    line += "" if np.isnan(low) else f" [{low:+.3f}, {high:+.3f}]"
    numbers = {"score": score, "base": base, "difference": score - base, "low": low, "high": high}
    report = {name: None if np.isnan(each) else float(each) for name, each in numbers.items()}
    report["table"] = table.astype(object).replace({np.nan: None}).to_dict("records")
    return report | {"verdict": verdict, "model": chosen, "line": line}


def _tabulate(measures: Sequence[Measure], models: Sequence[str]) -> tuple[pd.DataFrame, Evidence]:
    """A row for each model: its mean over measures, and the difference from the base."""
    scores = {}
    for each in measures:  # not corrected for chance
        runs = {model: each.scores[model][None] for model in models}
        scores[each.name] = TaskScores(runs, each.groups, 0.0, each.folds)
    evidence = from_examples(scores, given=models)
    rows = [(model, *verdicts.mean_score(scores, [model])) for model in models]
    table = pd.DataFrame(rows, columns=["model", "value", "low", "high"])
    against = verdicts.compare([(model, BASE) for model in models], evidence)
    table[["against_base", "against_low", "against_high"]] = against[["difference", "low", "high"]]
    for least, low, high in ((0, "low", "high"), (-1, "against_low", "against_high")):
        varies = table[high] - table[low] > VARIES
        table[[low, high]] = table[[low, high]].clip(least, 1).where(varies)
    return table, evidence
