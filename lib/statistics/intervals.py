"""How sure mean scores are: what other test texts, seeds and processors would change.

Test texts and seeds are sampled together, as in the Multi-Bootstrap (Sellam et al., "The
MultiBERTs", ICLR 2022), and every model sees the same draw of texts. Scores are means, so the
variance that a bootstrap over groups of texts would estimate has a closed form, which is used here:
exact where a bootstrap has Monte Carlo error, and corrected for three seeds and forty articles,
where its percentiles are too narrow. Tasks are fixed: a finding is about these tasks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse, stats

# Standard deviation, by the processor, of a trained model's chance-corrected mean over six tasks;
# see `Evidence.errors`.
PROCESSOR_SD = 0.0025
PROCESSOR_TASKS = 6


class SeedNoise(NamedTuple):
    """Standard deviation of a run's mean score by its seed, and its degrees of freedom."""

    sd: float
    df: int

    @property
    def band(self) -> float:
        """Half the width of the strip in every boxplot figure."""
        return 2 * self.sd

    @property
    def least_difference(self) -> float:
        """The difference between two single runs that counts, t(.975, df) sqrt(2) sd."""
        return float(stats.t.ppf(0.975, self.df) * np.sqrt(2) * self.sd)


def seed_noise(runs: pd.DataFrame) -> SeedNoise:
    """Standard deviation of a run's mean over tasks by its seed, pooled over models.

        sd^2 = sum_m sum_s (v_ms - mean_s v_ms)^2 / df,   df = sum_m (seeds of m - 1)

    Parameters
    ----------
    runs
        (model, seed) x task scores; models with one seed add nothing.

    Raises
    ------
    ValueError
        If no model has two seeds.
    """
    noise = _pooled(runs.mean(axis=1).to_numpy(), runs.index.get_level_values("model"))
    if noise is None:
        raise ValueError(
            "no model has two seeds, so the noise is unknown; "
            "run the reference models with more seeds"
        )
    return noise


@dataclass(frozen=True)
class TaskScores:
    """Scores of single test examples on one task.

    Attributes
    ----------
    scores
        Model -> (seeds, examples) with means in [0, 1]: the share of heads that classify the
        example rightly, or what a query and one of its targets contribute to MAP or MRR. A model
        has the same seeds, in the same order, on every task.
    groups
        (examples,), or (examples, 2) for pairs: names of what examples share (an article), the same
        over all tasks.
    chance
        What guessing scores.
    """

    scores: Mapping[str, np.ndarray]
    groups: np.ndarray
    chance: float


@dataclass(frozen=True)
class Evidence:
    """Mean scores of models and how far they may be off: all that verdicts are made of.

    Attributes
    ----------
    means
        Models x tasks.
    weights
        (tasks,) weight of each task in a model's score; 1 / tasks for a mean.
    runs
        (models,) number of runs that a model's mean covers; infinity for a model that was given,
        not trained.
    noise
        How far one run moves by its seed; None if unknown.
    sampling, independent
        (models, models) covariance of the scores by the choice of test examples: with the examples'
        groups, and as if there were no groups. Zero if unknown.
    groups
        The number of equal groups that would give as sure an estimate.
    overlap
        The part of noise.sd^2 that `sampling` contains too, because seeds disagree on single
        examples.
    processor
        (models,) variance of the scores by the processor that computed them.
    """

    means: pd.DataFrame
    weights: np.ndarray
    runs: np.ndarray
    noise: SeedNoise | None
    sampling: np.ndarray
    independent: np.ndarray
    groups: float = np.inf
    overlap: float = 0.0
    processor: np.ndarray | float = 0.0

    @property
    def scores(self) -> np.ndarray:
        """(models,) weighted mean over tasks."""
        return self.means.to_numpy() @ self.weights

    def errors(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors and degrees of freedom of weighted sums of scores.

            SE^2 = max(T + (S - overlap) R, T, S R) + sum_m w_m^2 P_m
            R = sum_m w_m^2 / runs_m

        T is the variance by the choice of test examples, w' sampling w, and at least what it would
        be if examples were independent. S is the variance of one run by its seed, pooled over
        models. Pooling assumes that all models are about equally noisy: where those run once have
        an SD of .03 and those with several seeds .008, 7.7% of the verdicts on no effect are false.

        P is the variance by the processor. From one processor to another (kernels for AVX-512 and
        for AVX2) the chance-corrected means over six tasks of 72 trained models of `mini` moved by
        .0029 in the root mean square and by .0107 at most (.0051 of accuracy). A move is a
        difference of two values, so one value scatters by .0029 / sqrt(2) = .0020, and by .0025
        where a model was run once: `PROCESSOR_SD`. Tasks move nearly independently (.0057 each, 2.0
        times the mean, where sqrt(6) = 2.4), so other weights give
        P = 6 PROCESSOR_SD^2 sum_t weight_t^2.

        P errs on the safe side: seeds scatter by kernels too, so that S contains part of it; it is
        not divided by runs, though models with three seeds scattered by .0009 alone; and retrieval,
        which has no heads, moved by less than .0001.

        Parameters
        ----------
        sums
            (sums, models) weights.

        Returns
        -------
        errors
            (sums,), NaN where trained models are compared and their seed noise is unknown.
        degrees of freedom
            (sums,), by Satterthwaite's formula. T has half of (groups - 1), at most what its
            scatter in simulations of pairs corresponds to. P counts as known.
        """
        share = sums**2 @ (1 / self.runs)
        variance, df = (self.noise.sd**2, self.noise.df) if self.noise else (np.nan, np.nan)
        seeds = np.where(share > 0, variance * share, 0.0)
        texts = np.maximum(
            *(np.einsum("sm,mn,sn->s", sums, c, sums) for c in (self.sampling, self.independent))
        )
        total = np.maximum(texts + seeds - self.overlap * share, np.maximum(texts, seeds))
        total = total + (sums**2 * self.processor).sum(axis=1)
        with np.errstate(invalid="ignore"):
            text_part = texts**2 / max((self.groups - 1) / 2, 1.0)
            seed_part = np.where(share > 0, seeds**2 / df, 0.0)
            return np.where(total > 0, np.sqrt(total), np.nan), total**2 / (text_part + seed_part)

    def draws(self, count: int) -> np.ndarray:
        """(count, models) draws of how far all scores are off together."""
        variance = max(self.noise.sd**2 - self.overlap, 0.0) if self.noise else 0.0
        own = variance / self.runs + self.processor
        values, vectors = np.linalg.eigh(self.sampling + np.diag(own))
        normal = np.random.default_rng(0).standard_normal((count, len(own)))
        return normal @ (vectors * np.sqrt(np.maximum(values, 0))).T


def task_scores(frame: pd.DataFrame) -> dict[str, TaskScores]:
    """The scores of tidy records, by task.

    Parameters
    ----------
    frame
        A row for each model, task and seed with the columns scores (array over the task's test
        examples), groups (as in `TaskScores`, the same in every row of a task) and chance.
    """
    tasks = {}
    for name, rows in frame.sort_values("seed", kind="stable").groupby("task", sort=False):
        scores = {model: np.stack(list(group)) for model, group in rows.groupby("model")["scores"]}
        tasks[str(name)] = TaskScores(scores, rows["groups"].iloc[0], float(rows["chance"].iloc[0]))
    return tasks


def from_examples(
    tasks: Mapping[str, TaskScores],
    *,
    weights: Mapping[str, float] | None = None,
    given: Collection[str] = (),
) -> Evidence:
    """Evidence on our own models, from the scores of single test examples.

        score = sum_t weight_t (accuracy_t - chance_t) / (1 - chance_t)

    Examples that share a group are dependent, over tasks too. A pair depends on every pair that
    contains one of its two articles (Aronow, Samii and Assenova, "Cluster-robust variance
    estimation for dyadic data", 2015):

        sampling = sum over examples i, j with a common group of e_i e_j'

    where e_i, (models,), is what example i adds to the scores.

    Parameters
    ----------
    tasks
        Task -> scores, of the same models on every task.
    weights
        Task -> weight in the score, by default one over their number. Tasks without a weight are
        left out.
    given
        Models that were not trained here (a pretrained encoder). They have no seed noise; what a
        processor changes in their heads (.0010) is neglected. All others have both.

    Raises
    ------
    ValueError
        If tasks differ in models or seeds, shapes do not fit, or a mean score is not in [0, 1].
    """
    weights = weights or dict.fromkeys(tasks, 1 / len(tasks))
    seeds = {model: len(scores) for model, scores in tasks[next(iter(weights))].scores.items()}
    owner, weight = np.repeat(list(seeds), list(seeds.values())), np.array(list(weights.values()))
    flat = [np.ravel(tasks[name].groups).astype(str) for name in weights]
    names, places = np.unique(np.concatenate(flat), return_inverse=True)
    numbers = np.split(places, np.cumsum([len(part) for part in flat])[:-1])
    by_group, sizes = np.zeros((len(owner), len(names))), np.zeros(len(names))
    alone, twice = np.zeros((2, len(owner), len(owner)))
    values = np.empty((len(owner), len(weights)))
    for column, name in enumerate(weights):
        scores, task = _chance_corrected(tasks[name], seeds, name), tasks[name]
        values[:, column] = scores.mean(axis=1)
        parts = weight[column] * (scores - values[:, [column]]) / scores.shape[1]
        first, last = numbers[column].reshape(len(task.groups), -1).T[[0, -1]]
        rows, two = np.arange(len(first)), first != last
        entries = np.r_[np.ones(len(rows)), two], (np.r_[rows, rows], np.r_[first, last])
        belongs = sparse.csr_array(entries, shape=(len(rows), len(names)))
        shares = belongs.sum(0) / len(rows)
        sizes += abs(weight[column]) * shares
        alone += parts @ parts.T
        # This factor makes the estimate unbiased in simulations of pairs.
        parts *= np.sqrt(_effective(shares) / max(_effective(shares) - 2, 1.0))
        by_group += parts @ belongs
        twice += parts[:, two] @ parts[:, two].T  # a pair has both groups in common with itself
    covariance = by_group @ by_group.T - twice
    trained = ~np.isin(owner, list(given))
    noise, overlap = _pooled((values @ weight)[trained], owner[trained]), 0.0
    if noise:
        disagreement = 0.0
        for model in seeds:
            if model not in given:
                block = covariance[np.ix_(owner == model, owner == model)]
                disagreement += np.trace(block) - block.mean() * len(block)
        overlap = max(disagreement / noise.df, 0.0)
    runs = np.array(list(seeds.values()), dtype=float)
    average = (owner == np.array(list(seeds))[:, None]) / runs[:, None]
    means = pd.DataFrame(average @ values, index=list(seeds), columns=list(weights))
    untrained = np.isin(list(seeds), list(given))
    runs[untrained] = np.inf
    return Evidence(
        means,
        weight,
        runs,
        noise,
        sampling=average @ covariance @ average.T,
        independent=average @ alone @ average.T,
        groups=_effective(sizes),
        overlap=overlap,
        processor=np.where(untrained, 0.0, PROCESSOR_TASKS * PROCESSOR_SD**2 * (weight**2).sum()),
    )


def from_runs(
    runs: pd.DataFrame,
    *,
    weights: Mapping[str, float] | None = None,
    noise: SeedNoise | None = None,
) -> Evidence:
    """Evidence without test examples, such as published numbers: seeds are the only noise.

    Parameters
    ----------
    runs
        (model, seed) x task scores.
    weights
        As in `from_examples`.
    noise
        How far one run's score moves by its seed; by default measured on the models with several
        seeds.
    """
    weights = weights or dict.fromkeys(runs.columns, 1 / runs.shape[1])
    weight, table = np.array(list(weights.values())), runs[list(weights)]
    by_model = table.groupby(level="model", sort=False)
    noise = noise or _pooled(table.to_numpy() @ weight, table.index.get_level_values("model"))
    means, nothing = by_model.mean(), np.zeros((by_model.ngroups, by_model.ngroups))
    return Evidence(means, weight, by_model.size().to_numpy(float), noise, nothing, nothing)


def _effective(sizes: np.ndarray) -> float:
    """The number of equal groups that are as good as these (Carter et al. 2017)."""
    return (sizes**2).sum() ** 2 / (sizes**4).sum()


def _chance_corrected(task: TaskScores, seeds: Mapping[str, int], name: str) -> np.ndarray:
    """(runs, examples), runs in the order of `seeds`."""
    if {model: len(scores) for model, scores in task.scores.items()} != seeds:
        raise ValueError(
            f"task {name!r}: every task needs the same models with the same number of seeds"
        )
    scores = np.concatenate([task.scores[model] for model in seeds])
    if scores.shape[1] != len(task.groups):
        raise ValueError(
            f"task {name!r}: {scores.shape[1]} scores of a run, "
            f"but groups of {len(task.groups)} examples"
        )
    if not (abs(scores.mean(axis=1) - 0.5).max() <= 0.5 and 0 <= task.chance < 1):
        raise ValueError(
            f"task {name!r}: expected means in [0, 1] and a chance below 1, "
            f"got chance {task.chance}"
        )
    return (scores - task.chance) / (1 - task.chance)


def _pooled(values: np.ndarray, models: Collection[str]) -> SeedNoise | None:
    by_model = pd.Series(values).groupby(np.asarray(models, str))
    df = len(values) - by_model.ngroups
    deviations = values - by_model.transform("mean")
    return SeedNoise(float(np.sqrt((deviations**2).sum() / df)), df) if df else None


def paired(
    ours: Sequence[float], others: Sequence[float], confidence: float
) -> tuple[float, float, float]:
    """Mean difference of pairs and the bounds of its Student interval, infinite for one pair."""
    mean, bounds = float(np.subtract(ours, others).mean()), (-np.inf, np.inf)
    if len(ours) > 1:
        bounds = stats.ttest_rel(ours, others).confidence_interval(confidence)
    return mean, float(bounds[0]), float(bounds[1])
