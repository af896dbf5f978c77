"""How sure mean scores are: what other test texts, seeds and processors would change.

Test texts and seeds are sampled together, as in the Multi-Bootstrap (Sellam et al., "The
MultiBERTs", ICLR 2022), and every model sees the same draw of texts. Scores are means, so the
variance that a bootstrap over groups of texts would estimate has a closed form, which is used here:
exact where a bootstrap has Monte Carlo error, and corrected for three seeds and forty articles,
where its percentiles are too narrow. Tasks are fixed: a finding is about these tasks.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse, stats

# Standard deviation, by the processor, of one run's chance-corrected mean over six tasks, where its
# heads are trained by stochastic steps; see `Evidence.errors`.
PROCESSOR_SD = 0.0025
PROCESSOR_TASKS = 6


class SeedNoise(NamedTuple):
    """Standard deviation of a run's mean score by its seed, and its degrees of freedom."""

    sd: float
    df: float

    @property
    def least_difference(self) -> float:
        """The difference between two single runs that counts, t(.975, df) sqrt(2) sd: the width of
        the strip in boxplots."""
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


_UNKNOWN = SeedNoise(np.nan, 1)


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
    classes
        (models,) names of classes. Models of one class are assumed to be equally noisy.
    noise
        Class -> how far one run of it moves by its seed; a class that is missing is unknown.
    together
        (models, models) correlation of what seeds do to two models: 1 for a model and itself, 0 for
        two students, between them where one student is judged twice (with few labels and with
        many).
    sampling, independent
        (models, models) covariance of the scores by the choice of test examples: with the examples'
        groups, and as if there were no groups. Zero if unknown.
    groups
        The number of equal groups that would give as sure an estimate.
    overlap
        Class -> the part of noise.sd^2 that `sampling` contains too, because seeds disagree on
        single examples.
    processor
        (models,) variance of the scores by the processor that computed them.
    """

    means: pd.DataFrame
    weights: np.ndarray
    runs: np.ndarray
    classes: np.ndarray
    noise: Mapping[str, SeedNoise]
    together: np.ndarray
    sampling: np.ndarray
    independent: np.ndarray
    groups: float = np.inf
    overlap: Mapping[str, float] = field(default_factory=dict)
    processor: np.ndarray | float = 0.0

    @property
    def scores(self) -> np.ndarray:
        """(models,) weighted mean over tasks."""
        return self.means.to_numpy() @ self.weights

    def replaced(self, models: Mapping[str, str]) -> "Evidence":
        """The same evidence with the scores of some models replaced by those of others."""
        names = list(self.means.index)
        places = [names.index(models.get(name, name)) for name in names]
        return replace(
            self,
            means=self.means.iloc[places].set_axis(names),
            runs=self.runs[places],
            classes=self.classes[places],
            together=self.together[np.ix_(places, places)],
            sampling=self.sampling[np.ix_(places, places)],
            independent=self.independent[np.ix_(places, places)],
            processor=np.broadcast_to(self.processor, len(names))[places],
        )

    def errors(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors and degrees of freedom of weighted sums of scores.

            SE^2 = max(T + sum_c (S_c - overlap_c) R_c, T, sum_c S_c R_c) + sum_m w_m^2 P_m
            R_c = sum over models m, n of class c of w_m w_n r_mn / sqrt(runs_m runs_n)

        T is the variance by the choice of test examples, w' sampling w, and at least what it would
        be if examples were independent. S_c is the variance of one run by its seed, pooled over the
        models of a class. Pooling needs models that are about equally noisy: where students of the
        contextual loss alone, with an SD of .03, were pooled with others of .008, 19 to 28% of the
        verdicts on no effect were false. r is `together`: three rounds of heads read the same
        students, so their mean is less sure than that of three students, by up to sqrt(3).

        P is the variance by the processor. From one processor to another (kernels for AVX-512 and
        for AVX2) the chance-corrected means over six tasks of 72 trained models of `mini` moved by
        .0029 in the root mean square and by .0107 at most (.0051 of accuracy). A move is a
        difference of two values, so one value scatters by .0029 / sqrt(2) = .0020, and by .0025
        where a model was run once: `PROCESSOR_SD`. It is the heads that turn last bits into other
        answers, by their many stochastic steps: the students' embeddings moved by 5e-7, and
        retrieval, which has no heads, by less than .0001. So P belongs to scores of trained heads
        alone, and each run has its own: P_m = PROCESSOR_SD^2 / runs_m for a mean over six tasks.
        Models with three seeds scattered by .0009, less than .0025 / sqrt(3) = .0014. Tasks move
        nearly independently (.0057 each, 2.0 times the mean, where sqrt(6) = 2.4), so other weights
        give 6 sum_t weight_t^2 times as much. P errs on the safe side: seeds scatter by kernels
        too, so that S contains part of it.

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
        scaled = sums / np.sqrt(self.runs)
        seeds, contained, seed_part = np.zeros((3, len(sums)))
        for name in dict.fromkeys(self.classes):
            own = scaled * (self.classes == name)
            share = ((own @ self.together) * own).sum(axis=1)
            sd, df = self.noise.get(name, _UNKNOWN)
            part = np.where(share > 0, sd**2 * share, 0.0)
            seeds += part
            contained += self.overlap.get(name, 0.0) * share
            seed_part += np.where(share > 0, part**2 / df, 0.0)
        texts = np.maximum(
            *(np.einsum("sm,mn,sn->s", sums, c, sums) for c in (self.sampling, self.independent))
        )
        total = np.maximum(texts + seeds - contained, np.maximum(texts, seeds))
        total = total + (sums**2 * self.processor).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            text_part = texts**2 / max((self.groups - 1) / 2, 1.0)
            return np.where(total > 0, np.sqrt(total), np.nan), total**2 / (text_part + seed_part)

    def draws(self, count: int) -> np.ndarray:
        """(count, models) draws of how far all scores are off together.

        Seeds count as independent, those of one student too: the largest of several errors is then
        larger, if anything.
        """
        variance = {
            name: max(noise.sd**2 - self.overlap.get(name, 0.0), 0.0)
            for name, noise in self.noise.items()
        }
        one_run = np.array([variance.get(name, 0.0) for name in self.classes])
        own = one_run / self.runs + self.processor
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
    class_of: Callable[[str], str] = lambda model: "",
    student_of: Callable[[str], str] = lambda model: model,
    processor_sd: float = 0.0,
) -> Evidence:
    """Evidence on our own models, from the scores of single test examples.

        score = sum_t weight_t (accuracy_t - chance_t) / (1 - chance_t)

    Examples that share a group are dependent, over tasks too. A pair depends on every pair that
    contains one of its two articles (Aronow, Samii and Assenova, "Cluster-robust variance
    estimation for dyadic data", 2015):

        sampling = sum over examples i, j with a common group of e_i e_j'

    where e_i, (models,), is what example i adds to the scores. Two pairs of the same two articles
    count once. Examples without a common group count as independent, though in cross-validation
    those of one fold share a head: the intervals are about other test texts, for heads trained on
    the texts that they were trained on.

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
    class_of
        Model -> its class: seed noise is pooled within classes. By default all are one class.
    student_of
        Model -> the trained model behind it, where one is judged several times (with few labels
        and with many): its seeds count once as degrees of freedom, and what they do to two of its
        models is correlated as measured, pooled over the class.
    processor_sd
        What a processor changes in one run's mean over six tasks: `PROCESSOR_SD` for scores of
        trained heads, 0 where nothing is trained by stochastic steps.

    Raises
    ------
    ValueError
        If tasks differ in models or seeds, shapes do not fit, or a mean score is not in [0, 1].
    """
    weights = weights or dict.fromkeys(tasks, 1 / len(tasks))
    seeds = {model: len(scores) for model, scores in tasks[next(iter(weights))].scores.items()}
    owner, weight = np.repeat(list(seeds), list(seeds.values())), np.array(list(weights.values()))
    belongs, in_cell = _share_groups([tasks[name].groups for name in weights])
    by_group, by_cell = (np.zeros((len(owner), part[0].shape[1])) for part in (belongs, in_cell))
    sizes, alone = np.zeros(by_group.shape[1]), np.zeros((len(owner), len(owner)))
    values = np.empty((len(owner), len(weights)))
    for column, name in enumerate(weights):
        scores = _chance_corrected(tasks[name], seeds, name)
        values[:, column] = scores.mean(axis=1)
        parts = weight[column] * (scores - values[:, [column]]) / scores.shape[1]
        sizes += abs(weight[column]) * belongs[column].sum(0) / scores.shape[1]
        alone += parts @ parts.T
        parts *= np.sqrt(_correct_bias(belongs[column], in_cell[column]))
        by_group += parts @ belongs[column]
        by_cell += parts @ in_cell[column]
    # Pairs of the same two articles have two groups in common, and would count twice.
    covariance = by_group @ by_group.T - by_cell @ by_cell.T
    trained = [model for model in seeds if model not in given]
    classes = np.array([class_of(model) for model in seeds])
    noise, overlap = {}, {}
    for name in dict.fromkeys(map(class_of, trained)):
        members = [model for model in trained if class_of(model) == name]
        rows = np.isin(owner, members)
        pooled = _pooled((values @ weight)[rows], owner[rows])
        if pooled:
            blocks = [covariance[np.ix_(owner == model, owner == model)] for model in members]
            apart = sum(np.trace(block) - block.mean() * len(block) for block in blocks)
            overlap[name] = max(apart / pooled.df, 0.0)
            students = {student_of(model): seeds[model] for model in members}
            noise[name] = SeedNoise(pooled.sd, sum(students.values()) - len(students))
    runs = np.array(list(seeds.values()), dtype=float)
    average = (owner == np.array(list(seeds))[:, None]) / runs[:, None]
    means = pd.DataFrame(average @ values, index=list(seeds), columns=list(weights))
    runs[np.isin(list(seeds), list(given))] = np.inf
    return Evidence(
        means,
        weight,
        runs,
        classes,
        noise,
        _correlate_seeds(values @ weight, owner, np.array([*map(student_of, seeds)]), classes),
        sampling=average @ covariance @ average.T,
        independent=average @ alone @ average.T,
        groups=_effective(sizes),
        overlap=overlap,
        processor=PROCESSOR_TASKS * processor_sd**2 * (weight**2).sum() / runs,
    )


def _correlate_seeds(
    values: np.ndarray, owner: np.ndarray, students: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """(models, models) `Evidence.together`.

    values, owner: (runs,) scores and their models, in the order of students and classes, (models,).
    The correlation is pooled over the pairs of a class, which share a student; none is negative.
    """
    runs = pd.DataFrame({"model": owner, "value": values})
    by_model = runs.groupby("model", sort=False)["value"]
    runs = runs.assign(apart=runs["value"] - by_model.transform("mean"), seed=by_model.cumcount())
    apart = runs.pivot(index="model", columns="seed", values="apart")
    apart = apart.reindex(dict.fromkeys(owner)).fillna(0.0).to_numpy()
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
    """Evidence without test examples, such as published numbers: seeds are the only noise.

    Parameters
    ----------
    runs
        (model, seed) x task scores.
    weights
        As in `from_examples`.
    noise
        How far one run's score moves by its seed, the same for all models; by default measured on
        the models with several seeds.
    student_of
        As in `from_examples`. Nothing says how much two scores of one student have in common, so
        they count as one.
    """
    weights = weights or dict.fromkeys(runs.columns, 1 / runs.shape[1])
    weight, table = np.array(list(weights.values())), runs[list(weights)]
    by_model = table.groupby(level="model", sort=False)
    noise = noise or _pooled(table.to_numpy() @ weight, table.index.get_level_values("model"))
    means, nothing = by_model.mean(), np.zeros((by_model.ngroups, by_model.ngroups))
    counts, classes = by_model.size().to_numpy(float), np.full(by_model.ngroups, "")
    known = {"": noise} if noise else {}
    students = np.array([*map(student_of, means.index)])
    together = (students[:, None] == students).astype(float)
    return Evidence(means, weight, counts, classes, known, together, nothing, nothing)


def _share_groups(
    groups: Sequence[np.ndarray],
) -> tuple[list[sparse.csr_array], list[sparse.csr_array]]:
    """What the examples of several tasks have in common.

    groups: of each task, (examples,) or (examples, 2) names.

    Returns
    -------
    For each task, (examples, groups): 1 where an example belongs to a group of any task.
    For each task, (examples, cells): 1 where its two groups, if they differ, are those of a cell.
    """
    tables = [np.reshape(each, (len(each), -1)).astype(str)[:, [0, -1]] for each in groups]
    names, places = np.unique(np.concatenate(tables), return_inverse=True)
    ends = np.sort(places.reshape(-1, 2), axis=1)
    cells = np.unique(ends @ [len(names), 1], return_inverse=True)[1]
    rows, two = np.arange(len(ends)), (ends[:, 0] != ends[:, 1]).astype(float)
    both = np.r_[rows, rows], np.r_[ends[:, 0], ends[:, 1]]
    belongs = sparse.csr_array((np.r_[np.ones(len(rows)), two], both), (len(rows), len(names)))
    in_cell = sparse.csr_array((two, (rows, cells)), (len(rows), cells.max() + 1))
    stops = np.cumsum([0, *map(len, groups)])
    parts = [slice(*pair) for pair in itertools.pairwise(stops)]
    return [belongs[part] for part in parts], [in_cell[part] for part in parts]


def _correct_bias(belongs: sparse.csr_array, in_cell: sparse.csr_array) -> float:
    """By how much the variance of a mean is underestimated, because residuals add up to zero.

    If each group adds an effect of its own to its examples, x = A a with independent a of variance
    1, then the mean has the variance |A'1|^2 / n^2. The estimate is expected to be

        (|B'MA|^2 - |C'MA|^2) / n^2,   M x = x - mean(x),   B belongs, C in_cell

    and A counts a group twice in a pair of it with itself. For pairs of G groups, all equally
    frequent, the ratio is G (G - 1) / ((G - 2) (G - 3)).
    """
    ends = sparse.csr_array(belongs.multiply(2 / belongs.sum(1)[:, None]))  # a single text has two
    average, expected = ends.mean(0), []
    for part in (belongs, in_cell):
        products, counts = part.T @ ends, part.sum(0)
        mixed = counts @ (products @ average)
        expected.append((products**2).sum() - 2 * mixed + counts @ counts * (average @ average))
    truth = belongs.shape[0] ** 2 * (average @ average)
    return float(truth / max(expected[0] - expected[1], truth / 4))


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
