"""How good models are on your own documents, by halves of documents and by tasks.

Parts that are fitted to documents (TF-IDF, LSA, the mean that is subtracted) are never judged on
texts that they were fitted to. Texts are judged in folds, and each fold has its own fit on texts
outside it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from lib.data.dataset_folder import Documents, content
from lib.data.task_files import Task, make_folds
from lib.evaluation import classifiers
from lib.evaluation.heads import Job
from lib.evaluation.joined import join_rows
from lib.experiments import judging, ranking
from lib.experiments.ranking import Queries
from lib.texts import count_words, cut_halves
from lib.vectors.chunks import cut_text
from lib.vectors.lexical import (
    Lexical,
    WordCounts,
    centre_rows,
    fit_lexical,
    mean_row,
    reduce_exactly,
)
from lib.vectors.names import BASE, BOTH, CHUNKS, CLASSIFIER, LSA, TFIDF

HALVES = "halves of documents"
HELD_OUT, TOKENS = 500, 600_000  # at most so many documents and tokens whose halves are compared
TEXTS, TASK_TOKENS = 1000, 1_500_000  # at most so many texts and tokens of a task
FITTED = 5000  # at most so many documents to fit the lexical part of a fold on
FOLDS, FOLD = 5, 20  # at most so many folds; fewer if a fold would have fewer documents
READ = 4096  # words of a document whose halves are compared; the base reads as many tokens
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of dense vectors next to TF-IDF, both of norm 1
Models = dict[str, Any]  # name -> (texts, dim) array, dense or sparse


@dataclass
class Collection:
    """The distinct, non-blank texts of a dataset folder.

    Attributes
    ----------
    documents : Documents
    rows : (texts,) int64
        Row of each text in `documents`.
    contents : (texts,) uint64
        Hash of each text.
    groups : list of str
        Group of each text, or its id if it has none.
    words : WordCounts or None
        None if no text has a word.
    """

    documents: Documents
    rows: np.ndarray
    contents: np.ndarray
    groups: list[str]
    words: WordCounts | None

    @classmethod
    def read(cls, documents: Documents) -> Collection:
        """Read all documents once, and count their words."""
        _, first = np.unique(documents.contents, return_index=True)
        rows = np.sort(first[documents.contents[first] != 0])
        kept, groups = {*rows.tolist()}, []

        def read_texts() -> Iterable[str]:
            for row, document in enumerate(documents):
                if row in kept:
                    groups.append(name_group(document.group, document.id))
                    yield document.text

        try:
            words = WordCounts.read(read_texts())
        except ValueError:  # from scikit-learn: there are only stop words
            words, groups = None, groups[: len(rows)]
        return cls(documents, rows, documents.contents[rows], groups, words)

    def text(self, place: int) -> str:
        return self.documents[int(self.rows[place])].text

    def fit(self, judged: np.ndarray, **options: Any) -> Lexical | None:
        """Fit a lexical part to the texts that are not judged; None if none of them has a word.

        `judged` is (texts,) bool.
        """
        rows = np.flatnonzero(~judged)
        if len(rows) > FITTED:
            rows = np.sort(np.random.default_rng(0).choice(rows, FITTED, replace=False))
        if self.words is None or not self.words.counts[rows].nnz:
            return None
        return fit_lexical(self.words.counts[rows], **options)


def name_group(group: str, document: str) -> str:
    return f"group {group}" if group else f"id {document}"


@dataclass
class Judged:
    """Texts that are judged, and their vectors from the dense models.

    `dense` maps names to (texts, dim), `counts` is (texts, words).
    """

    collection: Collection
    texts: list[str]
    dense: Mapping[str, np.ndarray]
    place: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.place = {text: row for row, text in enumerate(self.texts)}

    @functools.cached_property
    def counts(self) -> sparse.csr_matrix | None:
        words = self.collection.words
        return None if words is None else words.count(self.texts)

    def find_rows(self, texts: Iterable[str]) -> np.ndarray:
        return np.array([self.place[text] for text in texts])

    def fit_models(self, rows: np.ndarray, others: np.ndarray, judged: np.ndarray) -> Models:
        """Vectors of some texts from all models.

        Parameters
        ----------
        rows : (n,) int
            The texts.
        others : (m,) int
            Texts that are not judged here; their mean is subtracted.
        judged : (documents,) bool
            Documents of the collection that TF-IDF and LSA must not be fitted on.

        Returns
        -------
        Name -> (n, dim).
        """
        fitted = {
            name: centre_rows(vectors[rows], mean_row(vectors[others]))
            for name, vectors in self.dense.items()
        }
        models: Models = {name: vectors[rows] for name, vectors in self.dense.items()}
        models[CHUNKS] = fitted[CHUNKS]
        lexical = self.collection.fit(judged)
        if lexical is not None and self.counts is not None:
            yardstick = self.collection.fit(judged, dim=0, least=1)
            models[TFIDF] = yardstick.weigh_words(self.counts[rows])
            models[LSA] = lexical.embed(self.counts[rows])
            models[BOTH] = join_rows(fitted[BASE], models[LSA])
        return models


# ---- which texts are judged ---------------------------------------------------------------------


@dataclass(frozen=True)
class Halves:
    """The halves of some documents; `places` are the documents' places in the collection.

    `shared` counts the documents left out because they share a half with another document.
    """

    places: np.ndarray
    halves: list[tuple[str, str]]
    groups: list[str]
    shared: int

    @property
    def texts(self) -> list[str]:
        return [text for both in self.halves for text in both]


def draw_halves(collection: Collection, rate: float) -> Halves:
    """Draw documents at random whose halves are compared.

    `rate` is the approximate number of tokens per word.
    """
    order = np.random.default_rng(42).permutation(len(collection.rows))
    places, halves, tokens, seen, shared = [], [], 0.0, set[int](), 0
    for place in order.tolist():
        parts = cut_halves(cut_text(collection.text(place), 100 * READ), READ)
        if parts is None:
            continue
        if seen & {*map(content, parts)}:
            shared += 1  # a half in two documents, such as a form's heading, has two other halves
            continue
        seen |= {*map(content, parts)}
        tokens += rate * sum(map(count_words, parts))
        places.append(place)
        halves.append(parts)
        if len(places) == HELD_OUT or tokens > TOKENS:
            break
    groups = [collection.groups[place] for place in places]
    return Halves(np.array(places, dtype=np.int64), halves, groups, shared)


def make_group_folds(groups: Sequence[str]) -> list[np.ndarray]:
    """(places,) for each fold. No group is split, and there are at least two folds.

    If everything belongs to one group, groups are ignored.
    """
    from sklearn.model_selection import GroupKFold

    numbers = pd.factorize(pd.Series(groups))[0]
    if numbers.max() == 0:
        numbers = np.arange(len(groups))
    count = max(2, min(FOLDS, len(groups) // FOLD, numbers.max() + 1))
    splitter = GroupKFold(count, shuffle=True, random_state=42)
    return [test for _, test in splitter.split(numbers, groups=numbers)]


# ---- measures -----------------------------------------------------------------------------------


def judge_halves(halves: Halves, judged: Judged) -> pd.DataFrame:
    """How well halves of documents find each other among the halves of their fold (MRR)."""
    collection = judged.collection
    scores: dict[str, np.ndarray] = {}
    guessing = np.empty(len(halves.places))
    documents = pd.Series(collection.groups)
    for fold in make_group_folds(halves.groups):
        others = np.setdiff1d(np.arange(len(halves.places)), fold)
        held_out = documents.isin({halves.groups[place] for place in fold}).to_numpy().copy()
        if held_out.all():  # all documents have one group
            held_out[:] = False
        held_out[halves.places[fold]] = True
        rows = judged.find_rows(halves.halves[place][side] for side in (0, 1) for place in fold)
        outside = judged.find_rows(text for place in others for text in halves.halves[place])
        for name, vectors in judged.fit_models(rows, outside, held_out).items():
            each = ranking.rank_halves(_make_dense(vectors)).reshape(2, -1).mean(axis=0)
            scores.setdefault(name, np.full(len(halves.places), np.nan))[fold] = each
        guessing[fold] = np.mean(1 / np.arange(1, 2 * len(fold)))
    return _make_frame(HALVES, "MRR", scores, np.array(halves.groups), guessing.mean())


def _make_dense(vectors: Any) -> np.ndarray:
    return reduce_exactly(vectors) if sparse.issparse(vectors) else vectors


def judge_task(name: str, task: Task, judged: Judged) -> pd.DataFrame:
    """Judge models on a task: accuracy for a classification, MAP for a retrieval or a clustering.

    A clustering is judged as the retrieval of the other texts in a text's cluster.
    """
    if task.kind == "classification":
        return judge_classification(name, task, judged)
    return judge_ranking(name, task, judged)


def judge_classification(name: str, task: Task, judged: Judged) -> pd.DataFrame:
    """Accuracy of classifiers on frozen vectors.

    Single texts are classified by logistic regression on rows of norm 1, the same for all models.
    Pairs are classified by `classifiers.by_comparing`, for TF-IDF by their cosine.
    """
    with warnings.catch_warnings(action="ignore"):  # small classes are reported elsewhere
        examples = judging.read_examples(name, task, "test", cut=0)
    rows = judged.find_rows(examples.texts)
    contents = np.array([content(text) for text in examples.texts], dtype=np.uint64)
    ends = np.array(
        [[_find_group(task, examples.text_ids[row]) for row in each] for each in examples.inputs]
    )
    single, scores = examples.inputs.shape[1] == 1, dict[str, np.ndarray]()
    for train, test in examples.parts:
        seen = np.unique(examples.inputs[train])
        held_out = np.isin(judged.collection.contents, contents[np.unique(examples.inputs[test])])
        models = judged.fit_models(rows, rows[seen], held_out)
        part = (examples.inputs, examples.labels, train, test, 0)
        answers = {}
        for model, vectors in models.items():
            words = sparse.issparse(vectors)
            if not words and single:
                # Not standardised: the scale of an LSA direction says how much it explains.
                vectors = centre_rows(vectors, mean_row(vectors[seen]))
            predict = classifiers.by_words if words or single else classifiers.by_comparing
            answers[model] = predict(Job(vectors, *part))
        if TFIDF in models and single:
            dense = judged.dense[BASE][rows]
            dense = centre_rows(dense, mean_row(dense[seen]))
            groups = ends[train, 0] if task.groups else None
            answers[CLASSIFIER] = classify_jointly(models[TFIDF], Job(dense, *part), groups)
        for model, predicted in answers.items():
            each = scores.setdefault(model, np.full(len(examples.labels), np.nan))
            each[test] = predicted == examples.labels[test]
    tested = examples.tested
    scores = {model: each[tested] for model, each in scores.items()}
    return _make_frame(name, "accuracy", scores, ends[tested], examples.chance)


def classify_jointly(
    words: sparse.csr_matrix, job: Job, groups: np.ndarray | None = None
) -> np.ndarray:
    """Classify texts by logistic regression on [TF-IDF; weight x dense vectors].

    Parameters
    ----------
    words : (texts, words), rows of norm 1
    job : Job
        Its features are the dense vectors, with rows of norm 1.
    groups : (train,) array, optional
        Groups of the training examples.

    Returns
    -------
    (test,) predicted classes, with the weight from `choose_weight`.
    """
    rows, labels = job.inputs[:, 0], job.labels
    weight = choose_weight(
        words[rows[job.train]], job.features[rows[job.train]], labels[job.train], groups
    )
    features = join_words(words[rows], job.features[rows], weight)
    return _fit(features[job.train], labels[job.train]).predict(features[job.test])


def choose_weight(
    words: sparse.csr_matrix, dense: np.ndarray, labels: np.ndarray, groups: np.ndarray | None
) -> float:
    """The weight of dense vectors, one of `WEIGHTS`, with the most correct answers in three folds.

    Of equally good weights the smallest is taken. If folds cannot be made, the weight is 0.5.
    """
    numbers = None if groups is None else pd.factorize(pd.Series(groups))[0]
    try:
        with warnings.catch_warnings(action="ignore"):  # small classes are reported elsewhere
            folds = make_folds(labels, 3, numbers)
    except ValueError:
        return 0.5
    right = []
    for weight in WEIGHTS:
        x = join_words(words, dense, weight)
        answers = (_fit(x[a], labels[a]).predict(x[b]) == labels[b] for a, b in folds)
        right.append(sum(int(each.sum()) for each in answers))
    return WEIGHTS[int(np.argmax(right))]


def join_words(words: sparse.csr_matrix, dense: np.ndarray, weight: float) -> sparse.csr_matrix:
    """[TF-IDF; weight x dense vectors], (texts, words + dim), for a linear classifier."""
    if not weight:
        return sparse.csr_matrix(words)
    return sparse.hstack([words, weight * dense], format="csr")


def _fit(features: sparse.csr_matrix, labels: np.ndarray) -> Any:
    """Fit the classifier of `classifiers.by_words`."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=10, max_iter=1000).fit(features, labels)


def judge_ranking(name: str, task: Task, judged: Judged) -> pd.DataFrame:
    """How high a text's targets, or the other texts of its cluster, rank among all texts (MAP)."""
    queries = read_queries(task)
    rows = judged.find_rows(queries.texts)
    contents = np.array([content(text) for text in queries.texts], dtype=np.uint64)
    names = np.array([_find_group(task, text_id) for text_id in queries.text_ids])
    sources = [*queries.relevant]
    shared = [task.clusters.get(queries.text_ids[row], names[row]) for row in sources]
    parts: dict[str, list[tuple[float, np.ndarray, int]]] = {}
    groups = []
    for fold in make_group_folds(shared):
        relevant = {sources[place]: queries.relevant[sources[place]] for place in fold}
        asked = Queries(queries.text_ids, queries.texts, relevant)
        involved = np.unique(asked.examples)
        outside = np.setdiff1d(np.arange(len(rows)), involved)
        held_out = np.isin(judged.collection.contents, contents[involved])
        for model, vectors in judged.fit_models(rows, rows[outside], held_out).items():
            mean, each = ranking.score_queries(_make_dense(vectors), asked, "MAP", None)
            parts.setdefault(model, []).append((mean, each, len(relevant)))
        groups.append(names[asked.examples])
    whole = {model: each for model, each in parts.items() if len(each) == len(groups)}
    scores = {model: combine_folds(each) for model, each in whole.items()}
    guessing = ranking.score_chance(queries, "MAP", None)
    return _make_frame(name, "MAP", scores, np.concatenate(groups), guessing, len(sources))


def read_queries(task: Task) -> Queries:
    """The queries of a retrieval, or of a clustering: each text that shares its cluster.

    Raises
    ------
    ValueError
        If there are fewer than two, one for each fold.
    """
    if task.kind == "retrieval":
        queries = ranking.read_queries(task)
        if len(queries.relevant) < 2:
            raise ValueError("only one source has a target with a text; expected two, in two folds")
        return queries
    ids = [*task.texts]
    members = pd.Series(range(len(ids))).groupby([task.clusters[text_id] for text_id in ids])
    relevant = {
        row: [other for other in rows if other != row]
        for rows in members.apply(list)
        for row in rows
        if len(rows) > 1
    }
    if not relevant:
        raise ValueError("no cluster has two texts, so there is nothing to find")
    return Queries(ids, [*task.texts.values()], relevant)


def combine_folds(parts: Sequence[tuple[float, np.ndarray, int]]) -> np.ndarray:
    """Combine the scores of several folds, so that their mean is the mean over all queries.

    `parts` has for each fold the mean over its queries, the scores of its examples, which have that
    mean, and the number of its queries. `ranking.score_queries` gives the first two.
    """
    queries = sum(count for _, _, count in parts)
    examples = sum(len(each) for _, each, _ in parts)
    mean = sum(own * count for own, _, count in parts) / queries
    weighted = [
        mean + (each - mean) * (count / len(each)) * (examples / queries)
        for _, each, count in parts
    ]
    return np.concatenate(weighted)


def _find_group(task: Task, text_id: str) -> str:
    if text_id in task.clusters:
        return f"cluster {task.clusters[text_id]}"
    return name_group(task.groups.get(text_id, ""), text_id)


def _make_frame(
    task: str,
    metric: str,
    scores: Mapping[str, np.ndarray],
    groups: np.ndarray,
    chance: float,
    count: int | None = None,
) -> pd.DataFrame:
    """A row for each model that was judged in every fold.

    `count` is the number of examples, if `scores` are those of their parts.
    """
    scores = {model: each for model, each in scores.items() if not np.isnan(each).any()}
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
