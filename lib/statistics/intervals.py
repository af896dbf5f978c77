"""The uncertainty of mean scores: how other test texts, seeds and processors would change them.

Test texts and seeds are sampled together, as in the Multi-Bootstrap (Sellam et al., ICLR 2022), and
every model sees the same texts. Scores are means, so the variance over groups of texts has a closed
form, corrected for few seeds and groups. Tasks are not sampled: a finding is about these tasks.
"""

import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse, stats

# Standard deviation, over processors, of one run's chance-corrected mean over six tasks, by readout
# and for retrieval (docs/reproducibility.md). A mean over two tasks has sqrt(3) times as much.
PROCESSOR_SD = {"thesis": 0.004, "compare": 0.001, "none": 0.001, "retrieval": 0.0025}
PROCESSOR_TASKS = 6
Members: TypeAlias = sparse.csr_array  # (examples, groups), 1 where an example belongs to a group


class SeedNoise(NamedTuple):
    """Standard deviation of a run's mean score over seeds, and its degrees of freedom."""

    sd: float
    df: float

    @classmethod
    def from_gaps(cls, gaps: np.ndarray | pd.Series) -> Self:
        """The noise of runs, two of each model, that differ by `gaps`: sd^2 = mean of gap^2 / 2."""
        return cls(float(np.sqrt((np.asarray(gaps) ** 2).mean() / 2)), len(gaps))  # NaN stays

    @property
    def least_difference(self) -> float:
        """Smallest significant difference between two single runs, t(.975, df) sqrt(2) sd."""
        return float(stats.t.ppf(0.975, self.df) * np.sqrt(2) * self.sd)


def seed_noise(runs: pd.DataFrame) -> SeedNoise:
    """Estimate the standard deviation over seeds of a run's mean over tasks, pooled over models.

        sd^2 = sum_m sum_s (v_ms - mean_s v_ms)^2 / df,   df = sum_m (seeds of m - 1)

    `runs` are (model, seed) x task scores. `ValueError` if no model has two seeds.
    """
    means = runs.mean(axis=1, skipna=False).to_numpy()
    if noise := _pool(means, runs.index.get_level_values("model")):
        return noise
    raise ValueError("no model has two seeds, so the noise is unknown; run more seeds")


def _pool(values: np.ndarray, models: Any) -> SeedNoise | None:
    _, place, counts = np.unique(np.asarray(models, str), return_inverse=True, return_counts=True)
    apart = values - (np.bincount(place, values) / counts)[place]
    df = len(values) - len(counts)
    return SeedNoise(float(np.sqrt((apart**2).sum() / df)), df) if df else None


@dataclass(frozen=True)
class TaskScores:
    """Scores of single test examples on one task."""

    # Model -> (seeds, examples) with means in [0, 1]: the share of heads that classify the example
    # correctly, or the contribution of a query and one of its targets to MAP or MRR. A model has
    # the same seeds, in the same order, on every task.
    scores: Mapping[str, np.ndarray]
    # (examples,), or (examples, 2) for pairs: what examples share across tasks, such as an article
    groups: np.ndarray
    chance: float  # the score of guessing
    folds: int = 1  # of cross-validation; 1 if the training texts are never tested


@dataclass(frozen=True, eq=False)
class Evidence:
    """Mean scores of models and their uncertainty: the basis of all verdicts."""

    means: pd.DataFrame  # models x tasks
    weights: np.ndarray  # (tasks,) of each task in a model's score; 1 / tasks for a mean
    runs: np.ndarray  # (models,) behind a mean; infinity for a model that was not trained here
    classes: np.ndarray  # (models,) names; models of one class are assumed to be equally noisy
    noise: Mapping[str, SeedNoise]  # class -> variation of one run over seeds, if it is known
    # (models, models) correlation of the effects of seeds: 0 for two students, up to 1 if one
    # student is judged twice, with few labels and with many.
    together: np.ndarray
    sampling: np.ndarray  # (models, models) covariance due to the choice of test examples, or 0
    independent: np.ndarray  # the same as if these were independent, without groups
    groups: float = np.inf  # effective: as many equal groups would give the same precision
    # Class -> the part of noise.sd^2 that is in `sampling` too: seeds disagree on examples.
    overlap: Mapping[str, float] = field(default_factory=dict)
    processor: np.ndarray | float = 0.0  # (models,) variance over processors

    @property
    def scores(self) -> np.ndarray:
        """(models,) weighted mean over tasks."""
        return self.means.to_numpy() @ self.weights

    def errors(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors and degrees of freedom, (sums,), of (sums, models) weighted scores.

            SE^2 = max(T + sum_c (S_c - overlap_c) R_c, T, sum_c S_c R_c) + sum_m w_m^2 P_m
            R_c = sum over models m, n of class c of w_m w_n r_mn / sqrt(runs_m runs_n)

        T is the variance due to test examples, the larger of w' sampling w and w' independent w.
        S_c is the variance of one run over seeds, pooled over a class, and r is `together`. P is
        the variance over processors; S contains part of it, so the sum is conservative. NaN where
        the seed noise of trained models is unknown. Degrees of freedom are Satterthwaite's; T has
        (groups - 1) / 2, which fits its variation in simulations.
        """
        scaled = sums / np.sqrt(self.runs)
        seeds, contained, seed_part = np.zeros((3, len(sums)))
        for name in dict.fromkeys(self.classes):
            own = scaled * (self.classes == name)
            share = ((own @ self.together) * own).sum(axis=1)
            sd, df = self.noise.get(name, SeedNoise(np.nan, 1))
            part = np.where(share > 0, sd**2 * share, 0.0)
            seeds, seed_part = seeds + part, seed_part + part**2 / df
            contained += self.overlap.get(name, 0.0) * share
        both = [np.einsum("sm,mn,sn->s", sums, c, sums) for c in (self.sampling, self.independent)]
        texts = np.maximum(*both)
        total = np.maximum(texts + seeds - contained, np.maximum(texts, seeds))
        total = total + (sums**2 * self.processor).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            text_part = texts**2 / max((self.groups - 1) / 2, 1.0)
            return np.where(total > 0, np.sqrt(total), np.nan), total**2 / (text_part + seed_part)

    @functools.lru_cache(maxsize=6)  # noqa: B019  # of a figure, by each readout
    def draws(self, count: int) -> np.ndarray:
        """Draw joint errors, (count, models); independent seeds make the largest error larger."""
        seeds = dict.fromkeys(self.classes, 0.0)
        for name, noise in self.noise.items():
            seeds[name] = max(noise.sd**2 - self.overlap.get(name, 0.0), 0.0)
        own = np.array([seeds[name] for name in self.classes]) / self.runs + self.processor
        values, vectors = np.linalg.eigh(self.sampling + np.diag(own))
        normal = np.random.default_rng(0).standard_normal((count, len(own)))
        return normal @ (vectors * np.sqrt(np.maximum(values, 0))).T


def task_scores(frame: pd.DataFrame) -> dict[str, TaskScores]:
    """Collect records by task: a row for each model, task and seed, with `TaskScores`' columns."""
    tasks, seeds = {}, frame.groupby(["model", "task"])["seed"].agg(frozenset)
    if (seeds.groupby("model").nunique() > 1).any():
        raise ValueError("a model has other seeds on one task than on another")
    for name, rows in frame.groupby("task", sort=False):
        # `ValueError` for a repeated record, which would count as another seed.
        runs = rows.pivot(index="seed", columns="model", values="scores")
        scores = {str(model): np.stack([*column.dropna()]) for model, column in runs.items()}
        first = rows.iloc[0]
        alike = all(np.array_equal(each, first["groups"]) for each in rows["groups"])
        if rows["chance"].nunique() > 1 or not alike:
            raise ValueError(f"task {name!r}: models were judged by other examples")
        facts = first["groups"], float(first["chance"]), int(first["folds"])
        tasks[str(name)] = TaskScores(scores, *facts)
    return tasks


def from_examples(
    tasks: Mapping[str, TaskScores],
    *,
    weights: Mapping[str, float] | None = None,
    given: Collection[str] = (),
    class_of: Callable[[str], str] = lambda model: "",
    student_of: Callable[[str], str] = lambda model: model,
    processor_sd: float = 0.0,
) -> Evidence:
    """Collect the evidence on our own models, from the scores of single test examples.

        score = sum_t weight_t (accuracy_t - chance_t) / (1 - chance_t)

    `weights` are task -> weight, by default equal; other tasks are left out. Models `given` were
    not trained here and have no seed noise, which is pooled within the classes of `class_of`. If
    the student behind a model (`student_of`) is judged several times, its seeds add degrees of
    freedom once, and the correlation of their effects is measured; see `PROCESSOR_SD`.
    """
    weights = weights or dict.fromkeys(tasks, 1 / len(tasks))
    weight = np.array([*weights.values()])
    seeds = {model: len(scores) for model, scores in tasks[next(iter(weights))].scores.items()}
    models, counts = np.array([*seeds]), np.array([*seeds.values()])
    owner = np.repeat(models, counts)  # (runs,) the model of each run
    values, covariance, alone, groups = _vary_examples(tasks, weights, seeds)
    trained = [model for model in seeds if model not in given]
    noise, overlap = {}, {}
    for name in dict.fromkeys(map(class_of, trained)):
        members = [model for model in trained if class_of(model) == name]
        rows = np.isin(owner, members)
        if pooled := _pool((values @ weight)[rows], owner[rows]):
            blocks = [covariance[np.ix_(owner == model, owner == model)] for model in members]
            apart = sum(np.trace(block) - block.mean() * len(block) for block in blocks)
            overlap[name] = max(apart / pooled.df, 0.0)
            own = {student_of(model): seeds[model] for model in members}
            noise[name] = SeedNoise(pooled.sd, sum(own.values()) - len(own))
    average = (owner == models[:, None]) / counts[:, None]  # (models, runs)
    runs = np.where(np.isin(models, [*given]), np.inf, counts)
    classes = np.array([class_of(model) for model in seeds])
    students = np.array([student_of(model) for model in seeds])
    return Evidence(
        pd.DataFrame(average @ values, index=list(seeds), columns=list(weights)),
        weight,
        runs,
        classes,
        noise,
        _correlate_seeds(values @ weight, owner, students, classes),
        sampling=average @ covariance @ average.T,
        independent=average @ alone @ average.T,
        groups=groups,
        overlap=overlap,
        processor=PROCESSOR_TASKS * processor_sd**2 * (weight**2).sum() / runs,
    )


def _vary_examples(
    tasks: Mapping[str, TaskScores], weights: Mapping[str, float], seeds: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Runs' chance-corrected scores, (runs, tasks), and their covariance over test examples.

    Examples that share a group are dependent, even across tasks. A pair depends on every pair that
    contains one of its two articles (Aronow, Samii and Assenova, "Cluster-robust variance
    estimation for dyadic data", 2015):

        covariance = sum over examples i, j with a common group of e_i e_j'

    where e_i, (runs,), is the contribution of example i to the scores. The training texts of the
    heads are taken as fixed; but the K folds of a cross-validation train on each other's texts. If
    the scores of two folds correlate by 1 / K (Nadeau and Bengio, "Inference for the generalization
    error", 2003), the variance of their mean is 1 + (K - 1) / K times as large. Also returns the
    covariance of independent examples, and the effective number of groups (Carter et al. 2017).
    """
    count = sum(seeds.values())
    belongs, in_cell = _share_groups([tasks[name].groups for name in weights])
    by_group, by_cell = (np.zeros((count, part[0].shape[1])) for part in (belongs, in_cell))
    sizes, alone = np.zeros(by_group.shape[1]), np.zeros((count, count))
    values = np.empty((count, len(weights)))
    for column, (name, weight) in enumerate(weights.items()):
        task = tasks[name]
        scores = np.concatenate([task.scores[model] for model in seeds])  # (runs, examples)
        if not (abs(scores.mean(axis=1) - 0.5).max() <= 0.5 and 0 <= task.chance < 1):
            raise ValueError(f"task {name!r}: scores not in [0, 1], or chance not in [0, 1)")
        scores = (scores - task.chance) / (1 - task.chance)
        values[:, column] = scores.mean(axis=1)
        parts = weight * (scores - values[:, [column]]) / scores.shape[1]
        parts *= np.sqrt(2 - 1 / task.folds)
        sizes += abs(weight) * belongs[column].sum(0) / scores.shape[1]
        alone += parts @ parts.T
        parts *= np.sqrt(_bias_factor(belongs[column], in_cell[column]))
        by_group += parts @ belongs[column]
        by_cell += parts @ in_cell[column]
    # Pairs of the same two articles have two groups in common, and would be counted twice.
    covariance = by_group @ by_group.T - by_cell @ by_cell.T
    return values, covariance, alone, (sizes**2).sum() ** 2 / (sizes**4).sum()


def _correlate_seeds(
    values: np.ndarray, owner: np.ndarray, students: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """Estimate `Evidence.together` from scores of runs and their models, (runs,) each.

    It is pooled over pairs of models of a class that share a student; a negative result becomes 0.
    """
    parts = (values[owner == model] for model in dict.fromkeys(owner))
    deviations = itertools.zip_longest(*(part - part.mean() for part in parts), fillvalue=0.0)
    apart = np.array([*deviations]).T  # (models, runs)
    products, together = apart @ apart.T, np.eye(len(apart))
    twins = (students[:, None] == students) & (together == 0)
    for name in dict.fromkeys(classes):
        pairs = twins & (classes == name)[:, None]
        if squares := (products.diagonal() @ pairs.sum(1)):
            together[pairs] = max(products[pairs].sum() / squares, 0.0)
    return together


def from_runs(
    runs: pd.DataFrame,
    *,
    weights: Mapping[str, float] | None = None,
    noise: SeedNoise | None = None,
    student_of: Callable[[str], str] = lambda model: model,
) -> Evidence:
    """Collect evidence without test examples, such as published numbers. Seeds are the only noise.

    `runs` are (model, seed) x task scores. All models vary equally over seeds: by `noise`, or as
    those with several seeds do. The correlation between scores of one student is taken as 1.
    """
    weights = weights or dict.fromkeys(runs.columns, 1 / runs.shape[1])
    weight, table = np.array(list(weights.values())), runs[list(weights)]
    if table.isna().any(axis=None) or not table.index.is_unique:  # a mean would hide it
        raise ValueError("a run has no score on one of the tasks, or is given twice")
    by_model = table.groupby(level="model", sort=False)
    noise = noise or _pool(table.to_numpy() @ weight, table.index.get_level_values("model"))
    means, nothing = by_model.mean(), np.zeros((by_model.ngroups, by_model.ngroups))
    counts, classes = by_model.size().to_numpy(float), np.full(by_model.ngroups, "")
    known = {"": noise} if noise else {}
    students = means.index.map(student_of).to_numpy()
    together = (students[:, None] == students).astype(float)
    return Evidence(means, weight, counts, classes, known, together, nothing, nothing)


def _share_groups(groups: Sequence[np.ndarray]) -> tuple[list[Members], list[Members]]:
    """For each task, the groups of its examples, and the pairs of two groups (cells).

    (examples, groups of all tasks) is 1 if the example belongs to the group; (examples, cells) is 1
    if its two groups differ and form the cell.
    """
    columns = (np.reshape(each, (len(each), -1)).astype(str) for each in groups)
    tables = [each[:, [0, -1]] for each in columns]  # a single text gets its group twice
    names, places = np.unique(np.concatenate(tables), return_inverse=True)
    first, second = np.sort(places.reshape(-1, 2), axis=1).T  # (examples,) each
    cells = np.unique(first * len(names) + second, return_inverse=True)[1]
    rows, differ = np.arange(len(first)), (first != second).astype(float)
    ends = np.r_[rows, rows], np.r_[first, second]
    values = np.r_[np.ones(len(rows)), differ]  # a group counts once, even if given twice
    belongs = sparse.csr_array((values, ends), (len(rows), len(names)))
    in_cell = sparse.csr_array((differ, (rows, cells)), (len(rows), cells.max() + 1))
    stops = np.cumsum([0, *map(len, groups)])
    parts = [slice(*pair) for pair in itertools.pairwise(stops)]
    return [belongs[part] for part in parts], [in_cell[part] for part in parts]


def _bias_factor(belongs: Members, in_cell: Members) -> float:
    """The factor by which the variance of a mean is underestimated: residuals add up to zero.

    If each group adds an effect of its own, x = A a with independent a of variance 1, the variance
    of the mean is |A'1|^2 / n^2, and the expected value of the estimate is

        (|B'MA|^2 - |C'MA|^2) / n^2,   M x = x - mean(x),   B belongs, C in_cell

    For pairs of G groups, all equally frequent, the factor is G (G - 1) / ((G - 2) (G - 3)).
    """
    # Rows add up to 2: a single text counts its group twice.
    ends = sparse.csr_array(belongs.multiply(2 / belongs.sum(1)[:, None]))
    average, expected = ends.mean(0), []
    for part in (belongs, in_cell):
        products, counts = part.T @ ends, part.sum(0)
        mixed = counts @ (products @ average)
        expected.append((products**2).sum() - 2 * mixed + counts @ counts * (average @ average))
    truth = belongs.shape[0] ** 2 * (average @ average)
    return float(truth / max(expected[0] - expected[1], truth / 4))
