"""How good models are on your own documents, by halves of documents and by tasks.

Texts are judged in folds. A model that is fitted to documents (words, the mean that is subtracted)
is fitted anew for each fold, to texts outside it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

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
from lib.vectors.models import embed_pieces
from lib.vectors.names import BASE, TFIDF

HALVES = "halves of documents"
HELD_OUT, WORDS = 500, 450_000  # at most so many documents and words whose halves are compared
READ = 4096  # words of a document whose halves are compared; the base reads as many tokens

Models = Mapping[str, Model]
MakeModels = Callable[[Sequence[str]], Models]  # of the texts that a measure reads
Note = Callable[[str], Any]


class Measure(NamedTuple):
    """Scores of single examples, from one run of each model, by one measure."""

    name: str
    scores: dict[str, np.ndarray]  # model -> (examples,)
    groups: np.ndarray  # as in `lib.statistics.intervals.TaskScores`
    chance: float  # the score of guessing
    examples: int


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
    judges = {HALVES: lambda: judge_halves(texts, groups, make_models, note)}
    for name, read in tasks.items():
        judges[name] = lambda name=name, read=read: judge_task(name, read(), make_models, note)
    measures = []
    for name, judge in judges.items():
        try:
            measures.append(judge())
        except (ValueError, OSError) as error:  # only this measure is lost
            note(f"note: {name} is not judged: {error}")
    return measures


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


def judge_halves(
    texts: Sequence[str], groups: Sequence[str], make_models: MakeModels, note: Note
) -> Measure:
    """How well halves of documents find each other among the halves of their fold (MRR).

    Models are fitted to documents that share no group with a fold.
    """
    halves = draw_halves(texts)
    if len(halves) < 2:
        raise ValueError("fewer than two documents have halves of their own")
    places, pairs = [*halves], [*halves.values()]
    models = make_models([*itertools.chain(*pairs)])
    embed_pieces(models.values(), [*itertools.chain(*pairs)])
    drawn, folds = np.array(groups)[places], []
    for fold in make_group_folds(drawn, places):
        together = np.flatnonzero(np.isin(groups, drawn[fold])).tolist()
        sides = [pairs[number][side] for side in (0, 1) for number in fold]
        folds.append((fold, sides, [*sides, *(texts[place] for place in together)]))

    def score(name: str) -> np.ndarray:
        scores = np.empty(len(drawn))
        for fold, sides, held_out in folds:
            vectors = models[name].fit_outside(held_out).embed(sides)
            scores[fold] = ranking.rank_halves(vectors).reshape(2, -1).mean(axis=0)
        return scores

    guessing = sum(len(f) * np.mean(1 / np.arange(1, 2 * len(f))) for f, *_ in folds) / len(drawn)
    scores = _score_each(score, models, note)
    return Measure(f"{HALVES} MRR", scores, drawn, guessing, len(drawn))


def judge_task(name: str, task: Task, make_models: MakeModels, note: Note) -> Measure:
    """Judge models on a task. Equal texts of it must be equal character by character.

    The accuracy of single texts is that of logistic regression on rows of norm 1, centred but not
    standardised: the scale of an LSA direction says how much it explains. Pairs are classified by
    comparing their texts, for TF-IDF by their cosine. A retrieval is judged by MAP, and a
    clustering as the retrieval of the other texts in a text's cluster.
    """
    texts = [*dict.fromkeys(task.texts.values())]
    models = make_models(texts)
    embed_pieces(models.values(), texts)
    if task.kind == "classification":
        return _judge_classification(name, task, models, note)
    queries = read_queries(task)
    groups, sources = _name_groups(task, queries.text_ids), [*queries.relevant]
    contents = [content(queries.texts[source]) for source in sources]
    folds = make_group_folds(groups[sources], contents)

    def score(model: str) -> np.ndarray:
        embed = partial(_embed_outside, models[model])
        return ranking.rank(embed, queries, "MAP", folds=folds)[1]

    scores, chance = _score_each(score, models, note), ranking.score_chance(queries, "MAP")
    return Measure(f"{name} MAP", scores, groups[queries.examples], chance, len(sources))


def _judge_classification(name: str, task: Task, models: Models, note: Note) -> Measure:
    with warnings.catch_warnings(action="ignore"):  # small classes are reported elsewhere
        examples = read_examples(name, task, "test", cut=0)
    single = examples.inputs.shape[1] == 1

    def score(name: str) -> np.ndarray:
        model = models[name]
        if single and name != TFIDF:
            model = Centred(model.store, model, examples.texts)
        classifier = "words" if single or name == TFIDF else "compare"
        return readouts.judge_folds(partial(_embed_outside, model), examples, classifier)

    groups = _name_groups(task, examples.text_ids)[examples.inputs[examples.tested]]
    scores = _score_each(score, models, note)
    return Measure(f"{name} accuracy", scores, groups, examples.chance, len(groups))


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


def _score_each(
    score: Callable[[str], np.ndarray], models: Models, note: Note
) -> dict[str, np.ndarray]:
    """Scores of each model, but for those for which a fold leaves no words."""
    scores = {}
    for name in models:
        try:
            scores[name] = score(name)
        except ValueError as error:
            if name == BASE:
                raise
            note(f"note: {name} is not judged: {error}")
    return scores
