"""Simulated test scores with known true effects, for the rules' error rates."""

import numpy as np
import pytest
from scipy.special import ndtri

from lib.statistics.intervals import TaskScores


def simulated(  # noqa: PLR0913  # each names one part of the simulated world
    rng,
    models,
    *,
    effects=None,
    seeds=3,
    seed_sd=0.008,
    processor_sd=0.0,
    tasks=6,
    examples=250,
    articles=40,
    ragged=False,
    shared=True,
    article=0.004,
    example=0.05,
    interaction=0.05,
):
    """Right or wrong answers of models whose chance-corrected accuracies differ by `effects`.

    An example is solved if a normal variable lies below a threshold that holds the effects and the
    seed's effect, the same on every task; processor_sd moves a model with all its seeds. Shares of
    the variable's variance: article (of a model with an article), example (of a model with an
    example), interaction (of a seed with an example), .05 of an article alike for all models; the
    rest is the example's own. The first task has 11 classes and one article a text, the second
    articles of its own, the others are pairs of two articles out of one pool. Not shared: every
    task has a pool of its own. ragged: some articles are far more frequent than others.
    """
    counts = np.full(models, seeds) if np.isscalar(seeds) else np.array(seeds)
    owner = np.repeat(np.arange(models), counts)
    shift = np.zeros(models) if effects is None else np.asarray(effects, float)
    shift = shift[owner] + seed_sd * rng.standard_normal(len(owner))
    if processor_sd:
        shift += processor_sd * rng.standard_normal(models)[owner]
    share = rng.pareto(2, articles) + 1 if ragged else np.ones(articles)
    pools = 2 if shared else 6
    common = rng.standard_normal(pools * articles)
    own = rng.standard_normal((models, pools * articles))
    names = np.arange(pools * articles).astype("U4")  # short ones are sorted quickly
    scores = {}
    for task in range(6 - tasks, 6):
        groups = rng.choice(articles, (examples, 2 if task > 1 else 1), p=share / share.sum())
        groups += articles * ((task == 1) if shared else task)
        width = groups.shape[1]
        easy = (
            np.sqrt(0.05 / width) * common[groups].sum(1)
            + np.sqrt(article / width) * own[:, groups].sum(2)[owner]
        )
        easy += np.sqrt(0.95 - article - example - interaction) * rng.standard_normal(examples)
        easy += np.sqrt(example) * rng.standard_normal((models, examples))[owner]
        easy += np.sqrt(interaction) * rng.standard_normal((len(owner), examples))
        chance = 1 / 11 if task == 0 else 0.5
        right = (easy < ndtri(0.75 + (1 - chance) * shift)[:, None]).astype(float)
        by_model = {f"m{model}": right[owner == model] for model in range(models)}
        scores[f"task {task}"] = TaskScores(by_model, names[groups].squeeze(), chance)
    return scores


@pytest.fixture(scope="session")
def simulate():
    return simulated
