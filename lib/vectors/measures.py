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
from lib.experiments.combined import Centred
from lib.experiments.model import Model
from lib.teachers.chunks import cut_text
from lib.texts import count_words, cut_halves
from lib.vectors.names import BASE, BOTH, CLASSIFIER, LSA, TFIDF

HALVES = "halves of documents"
HELD_OUT, TOKENS = 500, 600_000  # at most so many documents and tokens whose halves are compared
READ = 4096  # words of a document whose halves are compared; the base reads as many tokens

Models = Mapping[str, Model]
Scores = dict[str, np.ndarray]
Halves = dict[int, tuple[str, str]]


# ---- halves of documents ------------------------------------------------------------------------


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
    return _make_frame(HALVES, "MRR", _judge_each(judge, models), drawn, guessing)


# ---- tasks --------------------------------------------------------------------------------------


def judge_task(name: str, task: Task, models: Models) -> pd.DataFrame:
    """Judge models on a task: accuracy for a classification, MAP for a retrieval or a clustering.

    A clustering is judged as the retrieval of the other texts in a text's cluster. Equal texts of
    a task must be equal character by character.
    """
    if task.kind == "classification":
        return _judge_classification(name, task, models)
    return _judge_ranking(name, task, models)


def _judge_classification(name: str, task: Task, models: Models) -> pd.DataFrame:
    """Accuracy of classifiers on frozen vectors.

    Single texts are classified by logistic regression on rows of norm 1, the same for all models.
    Centred rows are not standardised: the scale of an LSA direction says how much it explains.
    Pairs are classified by comparing their texts, for TF-IDF by their cosine.
    """
    with warnings.catch_warnings(action="ignore"):  # small classes are reported elsewhere
        examples = read_examples(name, task, "test", cut=0)
    single = examples.inputs.shape[1] == 1
    if single:
        models = {
            each: model if each == TFIDF else Centred(model.store, model, examples.texts)
            for each, model in models.items()
        }

    def fit(name: str, fold: Examples) -> Any:
        held_out = [fold.texts[row] for row in np.unique(fold.inputs[fold.tested])]
        return models[name].fit_outside(held_out).embed(fold.texts)

    def judge(name: str) -> np.ndarray:
        if name == CLASSIFIER:
            both = (TFIDF, BASE)
            return readouts.judge_folds(
                lambda fold: tuple(fit(part, fold) for part in both), examples, "joint"
            )
        classifier = "words" if single or name == TFIDF else "compare"
        return readouts.judge_folds(lambda fold: fit(name, fold), examples, classifier)

    scores = _judge_each(judge, [*models, *([CLASSIFIER] if single else [])])
    groups = _name_groups(task, examples.text_ids)[examples.inputs[examples.tested]]
    return _make_frame(name, "accuracy", scores, groups, examples.chance)


def _judge_ranking(name: str, task: Task, models: Models) -> pd.DataFrame:
    """How high a text's targets, or the other texts of its cluster, rank among all texts (MAP)."""
    queries = read_queries(task)
    names = _name_groups(task, queries.text_ids)
    sources = [*queries.relevant]
    contents = [content(queries.texts[source]) for source in sources]
    folds = make_group_folds(names[sources], contents)

    def judge(model: str) -> np.ndarray:
        def embed(asked: Queries) -> Any:
            held_out = [asked.texts[row] for row in np.unique(asked.examples)]
            return models[model].fit_outside(held_out).embed(asked.texts)

        return ranking.rank_folds(embed, queries, folds, "MAP")[1]

    chance = ranking.score_chance(queries, "MAP")
    scores = _judge_each(judge, models)
    return _make_frame(name, "MAP", scores, names[queries.examples], chance, len(sources))


def _judge_each(judge: Callable[[str], np.ndarray], names: Iterable[str]) -> Scores:
    """Scores of examples by each model, without those for which a fold leaves no words."""
    scores = {}
    for name in names:
        try:
            scores[name] = judge(name)
        except ValueError:
            if name not in (TFIDF, LSA, BOTH, CLASSIFIER):
                raise
    return scores


def _name_groups(task: Task, text_ids: Sequence[str]) -> np.ndarray:
    """(texts,) what each text shares with others: its cluster, its group, or its content."""
    return np.array(
        [
            f"cluster {task.clusters[text_id]}"
            if text_id in task.clusters
            else name_group(task.groups.get(text_id, ""), content(task.texts[text_id]))
            for text_id in text_ids
        ]
    )


def name_group(group: str, checksum: int) -> str:
    """The group of a text, or its content if it has none."""
    return f"group {group}" if group else f"text {checksum}"


def _make_frame(
    task: str,
    metric: str,
    scores: Scores,
    groups: np.ndarray,
    chance: float,
    count: int | None = None,
) -> pd.DataFrame:
    """A row for each model; `count` is the number of examples, if `scores` are of their parts."""
    return pd.DataFrame(
        {
            "model": [*scores],
            "scores": [*scores.values()],
            "groups": [groups] * len(scores),
            "task": task,
            "metric": metric,
            "chance": chance,
            "examples": count or len(groups),
        }
    )
