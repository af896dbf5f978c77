"""How good models are on your own documents, by halves of documents and by tasks.

Texts are judged in folds. A model that is fitted to documents (words, the mean that is subtracted)
is fitted anew for each fold, to texts outside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from lib.teachers.chunks import cut_text
from lib.texts import count_words, cut_halves
from lib.vectors.names import BASE, BOTH, CLASSIFIER, LSA, TFIDF

HALVES = "halves of documents"
HELD_OUT, TOKENS = 500, 600_000  # at most so many documents and tokens whose halves are compared
READ = 4096  # words of a document whose halves are compared; the base reads as many tokens

Models = Mapping[str, Model]
Halves = dict[int, tuple[str, str]]


def draw_halves(texts: Sequence[str], rate: float) -> Halves:
    """Draw documents at random whose halves are compared: place among the texts -> its halves.

    A document that shares a half with an earlier one, such as a form's heading, is left out.
    `rate` is the approximate number of tokens per word.
    """
    drawn, tokens, seen = Halves(), 0.0, set[int]()
    for place in np.random.default_rng(42).permutation(len(texts)).tolist():
        halves = cut_halves(cut_text(texts[place], 100 * READ), READ)
        if halves is None or seen & {*map(content, halves)}:
            continue
        seen |= {*map(content, halves)}
        drawn[place] = halves
        tokens += rate * sum(map(count_words, halves))
        if len(drawn) == HELD_OUT or tokens > TOKENS:
            break
    return drawn


def judge_halves(
    halves: Halves, texts: Sequence[str], groups: Sequence[str], models: Models
) -> pd.DataFrame:
    """How well halves of documents find each other among the halves of their fold (MRR).

    `groups` are what each of the texts shares with others. Models are fitted to documents that
    share nothing with a fold. Raises `ValueError` if fewer than two documents have halves.
    """
    if len(halves) < 2:
        raise ValueError("fewer than two documents have halves of their own")
    places, pairs = np.array([*halves]), [*halves.values()]
    drawn = np.array(groups)[places]
    folds = []
    for fold in make_group_folds(drawn, range(len(drawn))):
        together = np.flatnonzero(np.isin(groups, drawn[fold]))
        if len(together) == len(texts):  # all documents have one group
            together = places[fold]
        sides = [pairs[number][side] for side in (0, 1) for number in fold]
        folds.append((fold, sides, [*sides, *(texts[place] for place in together.tolist())]))

    def judge(name: str) -> np.ndarray:
        scores = np.empty(len(drawn))
        for fold, sides, held_out in folds:
            vectors = models[name].fit_outside(held_out).embed(sides)
            scores[fold] = ranking.rank_halves(vectors).reshape(2, -1).mean(axis=0)
        return scores

    guessing = sum(len(f) * np.mean(1 / np.arange(1, 2 * len(f))) for f, *_ in folds) / len(drawn)
    return _judge_each(judge, models, drawn, task=HALVES, metric="MRR", chance=guessing)


def judge_task(name: str, task: Task, models: Models) -> pd.DataFrame:
    """Judge models on a task: accuracy for a classification, MAP for a retrieval or a clustering.

    A clustering is judged as the retrieval of the other texts in a text's cluster. Equal texts of
    a task must be equal character by character.
    """
    judge = _judge_classification if task.kind == "classification" else _judge_ranking
    return judge(name, task, models)


def _judge_classification(task_name: str, task: Task, models: Models) -> pd.DataFrame:
    """Accuracy of classifiers on frozen vectors.

    Single texts are classified by logistic regression on rows of norm 1, the same for all models.
    Centred rows are not standardised: the scale of an LSA direction says how much it explains.
    Pairs are classified by comparing their texts, for TF-IDF by their cosine.
    """
    with warnings.catch_warnings(action="ignore"):  # small classes are reported elsewhere
        examples = read_examples(task_name, task, "test", cut=0)
    single = examples.inputs.shape[1] == 1
    if single:
        models = {
            name: model if name == TFIDF else Centred(model.store, model, examples.texts)
            for name, model in models.items()
        }

    def fit(name: str, fold: Examples) -> Any:
        if name == CLASSIFIER:
            return fit(TFIDF, fold), fit(BASE, fold)
        held_out = [fold.texts[row] for row in np.unique(fold.inputs[fold.tested])]
        return models[name].fit_outside(held_out).embed(fold.texts)

    def judge(name: str) -> np.ndarray:
        classifier = "words" if single or name == TFIDF else "compare"
        classifier = "joint" if name == CLASSIFIER else classifier
        return readouts.judge_folds(lambda fold: fit(name, fold), examples, classifier)

    names = [*models, *([CLASSIFIER] if single else [])]
    groups = _name_groups(task, examples.text_ids)[examples.inputs[examples.tested]]
    facts = {"task": task_name, "metric": "accuracy", "chance": examples.chance}
    return _judge_each(judge, names, groups, **facts)


def _judge_ranking(task_name: str, task: Task, models: Models) -> pd.DataFrame:
    """How high a text's targets, or the other texts of its cluster, rank among all texts (MAP)."""
    queries = read_queries(task)
    groups, sources = _name_groups(task, queries.text_ids), [*queries.relevant]
    contents = [content(queries.texts[source]) for source in sources]
    folds = make_group_folds(groups[sources], contents)

    def judge(name: str) -> np.ndarray:
        def embed(asked: Queries) -> Any:
            held_out = [asked.texts[row] for row in np.unique(asked.examples)]
            return models[name].fit_outside(held_out).embed(asked.texts)

        return ranking.rank_folds(embed, queries, folds, "MAP")[1]

    facts = {"task": task_name, "metric": "MAP", "chance": ranking.score_chance(queries, "MAP")}
    frame = _judge_each(judge, models, groups[queries.examples], **facts)
    return frame.assign(examples=len(sources))


def _name_groups(task: Task, text_ids: Sequence[str]) -> np.ndarray:
    """(texts,) what each text shares with others: its cluster, its group, or its content."""
    names = {i: f"text {content(task.texts[i])}" for i in text_ids}
    names |= {i: f"group {task.groups[i]}" for i in text_ids if i in task.groups}
    names |= {i: f"cluster {task.clusters[i]}" for i in text_ids if i in task.clusters}
    return np.array([*names.values()])


def _judge_each(
    judge: Callable[[str], np.ndarray], names: Iterable[str], groups: np.ndarray, **facts: Any
) -> pd.DataFrame:
    """A row for each model, but for those for which a fold leaves no words."""
    scores = {}
    for name in names:
        try:
            scores[name] = judge(name)
        except ValueError:
            if name not in (TFIDF, LSA, BOTH, CLASSIFIER):
                raise
    columns = {"model": [*scores], "scores": [*scores.values()], "groups": [groups] * len(scores)}
    return pd.DataFrame(columns | {"examples": len(groups)} | facts)
