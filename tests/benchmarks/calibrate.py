"""How often verdicts are wrong, and how often they say anything, for each class of finding.

    python tests/benchmarks/calibrate.py                    400 data sets a class; some ten minutes
    python tests/benchmarks/calibrate.py --datasets 2000    as committed
    python tests/benchmarks/calibrate.py --only averages

Data sets are simulated with the components of `mini`. Six tasks: a classification of passages from
eleven articles, one of 200 sentences, and four of pairs, cross-fitted over the same 40 articles in
five blocks. Every model has an effect of its own on articles, on examples and by its seed, and what
three readouts see of it is correlated. Heads of one fold favour a model by FOLD_SD, which no
interval knows. A class of findings is judged as the ledger does: by the thesis' heads, and by the
two other readouts, whose verdicts have to agree.

False verdicts are "holds" and "reversed" without an effect; of conjunctions and counts, "holds"
where the deciding comparison has none. Denied is a true effect of the published size that is called
reversed, smaller than published, or equivalent although it is larger than the margin. Rates of n
verdicts have an error of sqrt(rate (1 - rate) / n).
"""

import argparse
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from lib.statistics import verdicts
from lib.statistics.effects import Comparison, pair
from lib.statistics.intervals import PROCESSOR_SD, Evidence, TaskScores, from_examples
from lib.statistics.verdicts import (
    EQUIVALENT,
    HOLDS,
    REVERSED,
    SMALLER,
    Judgement,
    judge,
    judge_spread,
)

RESULTS = Path(__file__).parent / "results" / "calibration.md"
READOUTS = ("thesis", "compare", "none")
ARTICLES, BLOCKS, PAIRS = 40, 5, 500
SEEDS = 2  # of references
CHANCES = {"ARXIV": 1 / 11, "IMDB": 0.5, "OC": 0.5, "AAN": 0.5, "S2ORC": 0.5, "PAN": 0.5}
# Shares of the variance of an answer: of a model with an article, of a model with an example, of a
# seed with an example. Students of one kind are close; an encoder that was given is unlike them.
CLOSE = {"article": 0.004, "example": 0.05, "interaction": 0.05}
UNLIKE = {"article": 0.02, "example": 0.10, "interaction": 0.05}
AGREE = 0.5  # correlation of what two readouts see of a model's effect on an article or example
FOLD_SD = 0.01  # of accuracy: what the training articles of one fold do for a model, on a pair task
# Standard deviation of a run's mean by its seed: of students, of students of context alone, and of
# Paragraph Vectors.
SEED_SD = {"student": 0.008, "context": 0.025, "pv": 0.006, "given": 0.0}


@dataclass(frozen=True)
class Model:
    """A model of the simulated world. given: not trained, so that it has no seeds."""

    kind: str = "student"
    seeds: int = 1
    components: Mapping[str, float] = field(default_factory=lambda: CLOSE)


@dataclass(frozen=True)
class Class:
    """A class of findings.

    Attributes
    ----------
    models
        Name -> model, references among them.
    decide
        From evidence to judgement.
    published
        The published effect of the finding that stands for the class, and its id.
    effects
        From an effect of the deciding comparison to that of each model. Without an effect this is
        where a false verdict is most likely.
    tasks
        By default all six; "queries" simulates a ranking.
    both
        Whether "reversed" is false, too, without an effect.
    """

    models: Mapping[str, Model]
    decide: Callable[[Evidence], Judgement]
    published: tuple[float, str]
    effects: Callable[[float], Mapping[str, float]]
    tasks: Sequence[str] = tuple(CHANCES)
    both: bool = True


def draw_tasks(rng: np.random.Generator, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Task -> (examples, 1 or 2) groups; pairs lie in one of the blocks of articles."""
    blocks = np.array_split(rng.permutation(ARTICLES), BLOCKS)
    groups = {}
    for name in names:
        if name == "ARXIV":
            groups[name] = 100 + np.repeat(np.arange(11), 15)[:, None]
        elif name == "IMDB":
            groups[name] = 200 + np.arange(200)[:, None]
        elif name == "queries":  # each article's sections are looked for by another section
            sources = np.repeat(np.arange(ARTICLES), 4)
            groups[name] = np.stack([sources, rng.integers(0, ARTICLES, len(sources))], 1)
        else:
            drawn = [rng.choice(block, (PAIRS // BLOCKS, 2)) for block in blocks]
            groups[name] = np.concatenate(drawn)
    return groups


def simulate(
    rng: np.random.Generator,
    models: Mapping[str, Model],
    effects: Mapping[str, float],
    tasks: Sequence[str],
) -> dict[str, dict[str, TaskScores]]:
    """Readout -> task -> answers of all models; chance-corrected means differ by `effects`."""
    groups = draw_tasks(rng, tasks)
    size = 1 + max(int(each.max()) for each in groups.values())
    common = rng.standard_normal(size)
    scores: dict[str, dict[str, TaskScores]] = {readout: {} for readout in READOUTS}
    answers: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    hard = {name: rng.standard_normal(len(each)) for name, each in groups.items()}
    for model, settings in models.items():
        shares = settings.components
        own = _correlate(rng, size)
        shift = effects.get(model, 0.0)
        seeds = shift + SEED_SD[settings.kind] * _correlate(rng, settings.seeds)
        for name, each in groups.items():
            count, width = len(each), each.shape[1]
            chance = CHANCES.get(name, 0.5)
            examples = _correlate(rng, count)
            folds = rng.standard_normal((len(READOUTS), settings.seeds, BLOCKS))
            fold = np.arange(count) * BLOCKS // count
            for place, readout in enumerate(READOUTS):
                easy = np.sqrt(0.05 / width) * common[each].sum(1)
                easy = easy + np.sqrt(shares["article"] / width) * own[place][each].sum(1)
                easy = easy + np.sqrt(shares["example"]) * examples[place]
                easy = easy + np.sqrt(0.95 - sum(shares.values())) * hard[name]
                noise = rng.standard_normal((settings.seeds, count))
                easy = easy + np.sqrt(shares["interaction"]) * noise
                level = 0.75 + (1 - chance) * seeds[place][:, None]
                if width == 2:
                    level = level + FOLD_SD * folds[place][:, fold]
                if readout == "thesis" and settings.kind != "given":
                    level = level + (1 - chance) * PROCESSOR_SD * rng.standard_normal()
                right = (ndtr(easy) < level).astype(float)
                answers.setdefault((readout, name), {})[model] = right
    for (readout, name), by_model in answers.items():
        scores[readout][name] = TaskScores(by_model, groups[name], CHANCES.get(name, 0.5))
    return scores


def _correlate(rng: np.random.Generator, count: int) -> np.ndarray:
    """(readouts, count) normal draws of which two readouts share AGREE."""
    shared, own = rng.standard_normal(count), rng.standard_normal((len(READOUTS), count))
    return np.sqrt(AGREE) * shared + np.sqrt(1 - AGREE) * own


def collect(scores: Mapping[str, TaskScores], models: Mapping[str, Model], sd: float) -> Evidence:
    return from_examples(
        scores,
        given=[name for name, model in models.items() if model.kind == "given"],
        class_of=lambda name: models[name].kind,
        processor_sd=sd,
    )


# ---- classes of findings ------------------------------------------------------------------------

REFERENCES = {f"reference {n}": Model(seeds=SEEDS) for n in range(4)}
CONTEXT_REFERENCES = {f"context reference {n}": Model("context", 3) for n in range(2)}
SBERT = {"SBERT": Model("given", components=UNLIKE)}
BASE = {"base": Model("given", components=CLOSE)}


def name_models(word: str, count: int, **settings) -> dict[str, Model]:
    return {f"{word} {number}": Model(**settings) for number in range(count)}


def compare_averages(left: Sequence[str], right: Sequence[str]) -> Callable[[Evidence], Judgement]:
    sides = [dict.fromkeys(names, 1 / len(names)) for names in (left, right)]
    return lambda evidence: judge([[Comparison(*sides, "left", "right")]], evidence)


def compare_units(
    left: Sequence[str], right: Sequence[str], **bounds: int
) -> Callable[[Evidence], Judgement]:
    units = [[pair(one, other) for other in right] for one in left]
    if not bounds:
        units = [[each] for each in itertools.chain.from_iterable(units)]
    return lambda evidence: judge(units, evidence, **bounds)


def _lift(*names: str, rest: float = 0.0, others: Sequence[str] = ()) -> Callable:
    """The effect is that of `names`; `others` lie `rest` above."""
    return lambda effect: dict.fromkeys(names, effect) | dict.fromkeys(others, effect + rest)


SIXTEEN = [f"student {number}" for number in range(16)]
VECTORS = [f"vector {number}" for number in range(24)]
CLASSES = {
    "close losses": Class(
        REFERENCES,
        compare_units(["reference 0"], ["reference 1"]),
        (0.026, "mm-mse-best"),
        _lift("reference 0"),
    ),
    "student against SBERT": Class(
        REFERENCES | SBERT,
        compare_units(["reference 0"], ["SBERT"]),
        (0.050, "cosine-over-baselines"),
        _lift("reference 0"),
    ),
    "student against its base": Class(
        REFERENCES | BASE,
        compare_units(["reference 0"], ["base"]),
        (0.102, "cosine-over-baselines"),
        _lift("reference 0"),
    ),
    "averages of students": Class(
        REFERENCES | name_models("student", 8),
        compare_averages(SIXTEEN[:4], SIXTEEN[4:8]),
        (0.214, "weighting-masking-hurts-mm"),
        _lift(*SIXTEEN[:4]),
    ),
    "averages of Paragraph Vectors": Class(
        name_models("vector", 24, kind="pv") | name_models("teacher", 3, kind="pv", seeds=SEEDS),
        compare_averages(VECTORS[:12], VECTORS[12:]),
        (0.008, "pv-preprocessing"),
        _lift(*VECTORS[:12]),
    ),
    "context alone, averages": Class(
        REFERENCES | CONTEXT_REFERENCES | name_models("student", 10, kind="context"),
        compare_averages(SIXTEEN[:4], SIXTEEN[4:10]),
        (0.019, "contextual-small-over-large-teacher"),
        _lift(*SIXTEEN[:4]),
    ),
    "context alone, counts": Class(
        REFERENCES | CONTEXT_REFERENCES | name_models("student", 16, kind="context") | BASE,
        compare_units(SIXTEEN, ["base"], at_least=9),
        (0.042, "contextual-below-own-teacher"),
        _lift(*SIXTEEN[8:], rest=0.2, others=SIXTEEN[:8]),
        both=False,
    ),
    "conjunction": Class(
        REFERENCES | SBERT | BASE,
        compare_units(["reference 0", "reference 1"], ["SBERT", "base"]),
        (0.027, "all-data-students-over-context"),
        lambda effect: {"reference 0": effect, "reference 1": effect + 0.1, "base": -0.1},
        both=False,
    ),
    "best of several": Class(
        REFERENCES | name_models("student", 12),
        compare_units(SIXTEEN[:12], ["reference 0"], at_least=1),
        (0.007, "both-cosine-over-structural"),
        _lift("student 0"),
        both=False,
    ),
    "spread": Class(
        name_models("vector", 15, kind="pv") | name_models("teacher", 3, kind="pv", seeds=SEEDS),
        lambda evidence: judge_spread(VECTORS[:9], VECTORS[9:15], evidence),
        (0.013, "pv-dbow-varies-more"),
        lambda effect: dict(zip(VECTORS[:9], effect * np.linspace(-1.5, 1.5, 9), strict=True)),
    ),
    "one task": Class(
        REFERENCES | BASE,
        compare_units(["reference 0"], ["base"]),
        (0.057, "abstract-plagiarism"),
        _lift("reference 0"),
        tasks=["PAN"],
    ),
    "retrieval": Class(
        REFERENCES | BASE,
        compare_units(["reference 0"], ["base"]),
        (0.038, "abstract-similarity"),
        _lift("reference 0"),
        tasks=["queries"],
    ),
}


@dataclass
class Rates:
    """Verdicts of a class, by effect: by the thesis' heads, and by both other readouts."""

    repeats: list[str] = field(default_factory=list)
    survives: list[str] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)


def run_class(found: Class, effect: float, datasets: int, seed: int) -> Rates:
    rng, rates = np.random.default_rng(seed), Rates()
    for _ in range(datasets):
        data = simulate(rng, found.models, found.effects(effect), found.tasks)
        judged = {}
        for readout in READOUTS:
            trained_heads = readout == "thesis" and "queries" not in found.tasks
            evidence = collect(data[readout], found.models, PROCESSOR_SD * trained_heads)
            judgement = found.decide(evidence)
            judged[readout] = verdicts.compare_with_published(judgement, found.published[0])
        rates.repeats.append(judged["thesis"].verdict)
        rates.survives.append(verdicts.share_verdict(judged["compare"], judged["none"]))
        rates.errors.append((judged["thesis"].high - judged["thesis"].low) / 2)
    return rates


def share(words: Sequence[str], *wanted: str) -> float:
    return float(np.mean([word in wanted for word in words]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", type=int, default=400)
    parser.add_argument("--only", default="", help="classes whose name has this in it")
    options = parser.parse_args()
    verdicts.DRAWS = 4000  # rates of many verdicts need no p that repeats to the third digit
    head = (
        "| class of finding | half-width | false | false, survives | published | power | "
        "power, survives | denied | stands for it |"
    )
    lines = [head, "|---" * 9 + "|"]
    print(*lines, sep="\n")
    for name, found in CLASSES.items():
        if options.only not in name:
            continue
        started = time.perf_counter()
        published, claim = found.published
        none = run_class(found, 0.0, options.datasets, 0)
        true = run_class(found, published, options.datasets, 1)
        wrong = (HOLDS, REVERSED) if found.both else (HOLDS,)
        denied = (REVERSED, SMALLER, *[EQUIVALENT] * (published > verdicts.MARGIN))
        cells = [
            name,
            f"{np.median(none.errors):.3f}",
            f"{share(none.repeats, *wrong):.3f}",
            f"{share(none.survives, *wrong):.3f}",
            f"{published:.3f}",
            f"{share(true.repeats, HOLDS):.2f}",
            f"{share(true.survives, HOLDS):.2f}",
            f"{share(true.repeats, *denied):.3f}",
            f"`{claim}`",
        ]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], f"{time.perf_counter() - started:.0f} s", flush=True)
    if not options.only:
        text = (
            f"# Calibration\n\n`python tests/benchmarks/calibrate.py --datasets {options.datasets}`"
        )
        error = (0.05 * 0.95 / options.datasets) ** 0.5
        known = f"Rates of {options.datasets} verdicts have an error of {error:.3f} at .05."
        RESULTS.write_text("\n".join([text, "", *lines, "", known, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
