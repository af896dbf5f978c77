"""The ledger: the thesis' findings, judged on the published numbers and twice on ours.

The kind of a finding in `params/claims.yaml` turns it into differences of scores for
`lib.statistics.verdicts`. Of our own scores we ask two questions. Does the finding *repeat* by the
thesis' protocol? Does it *survive* two readouts that need little training, heads that compare and
no head at all? Our scores are the chance-corrected scores of single examples. Their noise comes
from seeds, texts and processors, that of the news chapter's F1 from seeds, events and processors.
Published scores are corrected in the same way; their noise comes from near re-runs and the number
of test examples.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from lib import published as theirs
from lib.chapters import chapter4, final_students
from lib.chapters.published_noise import RERUNS, measure_published_noise
from lib.config import profiles
from lib.distillation.variants import STUDENT_CLASSES, parse
from lib.evaluation.readouts import READOUTS
from lib.experiments.bench import Bench
from lib.figures.scores import GIVEN
from lib.ledger import testability
from lib.ledger.claim_kinds import KINDS, Alike, Claim, Number, match_models
from lib.published import figure_models
from lib.statistics import effects, intervals, verdicts
from lib.statistics.effects import Comparison
from lib.statistics.intervals import PROCESSOR_SD, Evidence, SeedNoise
from lib.statistics.verdicts import Judgement
from lib.store import NotComputed

RANKINGS = theirs.BOXPLOTS
RETRIEVAL = ("fig5_5", "fig5_6")  # whose tables have a row for each metric
# In the news paper: students that were trained with two schedules.
TWINS = (
    ("BiLSTM(2)+1 linear;cosine", "BiLSTM(2)+1 linear;cosine;plateau"),
    ("BiGRU(2)+1 linear;cosine", "BiGRU(2)+1 linear;cosine;plateau"),
    ("BiGRU+1 linear;cosine", "BiGRU+1 linear;cosine;plateau"),
)
# The untrained base, which is the same with every seed.
BASE = "Longformer"
# Figure -> its scores, or for the news paper the evidence that notebook 08 makes of them.
Scores = Mapping[str, pd.DataFrame | Evidence]
# (failed check, the figure or finding that it is about or "" for all) -> what failed.
Failures = Mapping[tuple[str, str], str]
Numbers = Mapping[str, float]  # ours, by name
# Prefix of columns -> readout. Columns of the first question have no prefix.
READOUT_OF_PREFIX = {"": "thesis", "compare_": "compare", "none_": "none"}
SURVIVAL = tuple(READOUT_OF_PREFIX)[1:]
_NUMBERS = ("effect", "low", "high", "p", "p_equivalent", "q")
_JUDGED = (*_NUMBERS, "verdict", "holding", "decided_by", "arithmetic")
_COLUMNS = [
    *("id", "section", "label", "finding", "quote", "read_off"),
    *(f"published_{name}" for name in (*_JUDGED, "reason")),
    *(
        f"{prefix}{name}"
        for prefix in READOUT_OF_PREFIX
        for name in (*_JUDGED, "seed_share", "vacuous")
    ),
    *("survives", "survives_p", "survives_q"),
    *("one_task_low", "one_task_high", "seeds", "checks", "rules", "profile", "note"),
]


# ---- what the claims are ------------------------------------------------------------------------


@functools.cache
def load_claims() -> list[Claim]:
    """Every finding of `params/claims.yaml`, in the thesis' order."""
    return [parse_claim(*entry) for entry in profiles.entries("claims.yaml")]


def parse_claim(name: str, fields: Mapping[str, Any], where: str) -> Claim:
    """Make a claim, and check it against the schema of its kind and the models of its figure.

    Raises `ParameterError`, whose message begins with `where`.
    """
    kind = fields.get("kind")
    if kind not in KINDS:
        raise profiles.ParameterError(
            f"{where}: kind: unknown kind {kind!r}; known: {', '.join(KINDS)}"
        )
    claim = profiles.validated(KINDS[kind], {"id": name, **fields}, where)
    try:
        theirs.load(claim.figure)
        claim.sides(_list_models(claim))
        if claim.tasks:
            match_models(claim.tasks, theirs.load(claim.source)["task"].unique().tolist())
    except ValueError as error:
        raise profiles.ParameterError(f"{where}: {error} ({claim.source})") from None
    return claim


# ---- verdicts -----------------------------------------------------------------------------------


def judge_claims(
    scores: Scores,
    *,
    failures: Failures | None = None,
    numbers: Numbers | None = None,
    profile: str = "",
    label: str = "",
) -> pd.DataFrame:
    """The ledger: a row for each finding, on the published numbers and on our scores.

    Parameters
    ----------
    scores
        Figure -> records as `Bench.run` returns them, by one or more readouts. Models are named by
        identity, or as the figure prints them. Models that the figure does not print only help to
        measure the seed noise. Rankings and F1 have no readouts: for them, the two questions are
        one.
    failures
        As `testability.describe_failures` returns them. A claim is "not testable here" if a check
        that it needs has failed, for all findings, for its figure or for the claim itself.
    numbers
        Our numbers by name, for claims of the kind `number`.
    profile, label
        The name of the profile, for its column; only findings whose figures begin with the label.

    Returns
    -------
    DataFrame
        The columns of `Judgement` on the published numbers ("published_...") and on ours: without a
        prefix by the thesis' protocol, which says whether the finding repeats, and by the two other
        readouts ("compare_...", "none_..."). A verdict is "not run" if a model has no scores.
        vacuous: whether the untrained base passes in the student's place. survives: the verdict
        that the two other readouts share; survives_p: the larger p of the two, 1 if their effects
        have different signs. Each q is computed over all findings of the thesis or the news paper.
    """

    @functools.cache
    def collect(source: str, metric: str, weights: tuple, readout: str) -> Evidence:
        return _collect_evidence(scores[source], source, metric, dict(weights), readout)

    rows = [
        _judge_claim(claim, scores, collect, failures or {}, numbers or {})
        for claim in load_claims()
        if claim.figure.startswith(label)
    ]
    table = pd.DataFrame(rows, columns=_COLUMNS).assign(profile=profile, rules=verdicts.RULES)
    of_news = table["label"].str.startswith("news")
    untested = (verdicts.NOT_TESTABLE, verdicts.NOT_RUN)
    for prefix in ("published_", *READOUT_OF_PREFIX):
        names = [prefix + name for name in _NUMBERS]
        table[names] = table[names].astype(float)
        tested = table[f"{prefix}p"].mask(table[f"{prefix}verdict"].isin(untested))
        table[f"{prefix}q"] = tested.groupby(of_news).transform(verdicts.q_values)
    table["survives_p"] = table["survives_p"].astype(float)
    tested = table["survives_p"].mask(table["survives"].isin(untested))
    table["survives_q"] = tested.groupby(of_news).transform(verdicts.q_values)
    return table


def judge_figure(
    figure: str, scores: pd.DataFrame, failures: Failures | None = None
) -> pd.DataFrame:
    """Judge the findings about one figure, in fewer columns than `judge_claims`.

    Columns: finding, decided_by (the deciding comparison); published and ours (the effects), low
    and high (our interval), holding (how many comparisons hold) and verdict (does it repeat?);
    compare and none (the effects by the two other readouts), their verdicts, and survives.
    """
    sources = {claim.source: scores for claim in load_claims() if claim.figure == figure}
    rows = judge_claims(sources, failures=failures, label=figure)
    rows = rows[(rows["label"] == figure) & (rows["published_verdict"] != verdicts.NUMBER)]
    names = {"published_effect": "published", "effect": "ours"}
    names |= {"compare_effect": "compare", "none_effect": "none"}
    decided = rows["decided_by"].fillna(rows["published_decided_by"])
    short = rows.assign(decided_by=decided).rename(columns=names)
    by_heads = ["published", "ours", "low", "high", "holding", "verdict"]
    others = ["compare", "compare_verdict", "none", "none_verdict", "survives"]
    return short[["finding", "decided_by", *by_heads, *others]]


def judge_chapter4(figure: str, bench: Bench) -> pd.DataFrame:
    """`judge_figure` for a boxplot of Chapter 4, with the checks; this may train what they need."""
    scores = chapter4.run_readouts(figure, bench)
    checks = testability.run_checks({figure: scores}, bench, load_claims())
    return judge_figure(figure, scores, testability.describe_failures(checks))


def compare_cut(scores: pd.DataFrame, tasks: Sequence[str] | None = None) -> pd.DataFrame:
    """`compare_pairs` of whole task texts with those cut at the structural teacher's limit.

    Mean chunks are compared with the teacher, which reads the first chunk. `scores` are those of
    `final_students.run_readouts`.
    """
    scores = scores[scores["round"] == "all"]
    there = {*scores["model"]}
    names = [name for name in scores["model"].unique() if f"{name};cut" in there]
    pairs = [(name, f"{name};cut") for name in names] + [("SBERT, mean of chunks", "SBERT")]
    pairs = [tuple(f"{name};all" for name in pair) for pair in pairs if there.issuperset(pair)]
    return compare_pairs(pairs, scores, "fig5_3", tasks)


def compare_pairs(
    pairs: Sequence[tuple[str, str]],
    scores: pd.DataFrame,
    figure: str,
    tasks: Sequence[str] | None = None,
) -> pd.DataFrame:
    """`verdicts.compare` by every readout, a column, with the noise that findings are judged with.

    Models are named as in the figure, or by identity. In Figure 5.3 the round is part of a name.
    Only `tasks` count, by default all.
    """
    tables = {
        readout: verdicts.compare(pairs, evidence)
        for readout, evidence in _collect_readouts(scores, figure, tasks)
    }
    return pd.concat(tables, names=["readout", None]).reset_index("readout")


def compare_students(
    scores: pd.DataFrame, rivals: Sequence[str], tasks: Sequence[str] | None = None
) -> pd.DataFrame:
    """The mean of the final students against each rival that has scores, all with all labels.

    `scores` are those of `final_students.run_readouts`; only `tasks` count, by default all.
    Columns: readout, rival, difference (of chance-corrected accuracy, mean of the tasks), low,
    high, verdict.
    """
    scores, rows, models = scores[scores["round"] == "all"], [], final_students.load_models()
    # The classifier of TF-IDF converges. So do the students' heads only by the readout "compare".
    lexical = {name for name in rivals if parse(models.get(name, name)).kind == "tfidf"}
    for readout, evidence in _collect_readouts(scores, "fig5_3", tasks):
        fair = [name for name in rivals if readout == "compare" or name not in lexical]
        rows += [{"readout": readout} | row for row in _judge_students(evidence, fair, ";all")]
    return pd.DataFrame(rows)


def compare_retrieval(
    scores: pd.DataFrame, rivals: Sequence[str], metric: str = "MAP"
) -> pd.DataFrame:
    """`compare_students` for retrieval, from the scores of `final_students.run_retrievals`."""
    tasks = scores["task"].unique()
    weights = dict.fromkeys(tasks, 1 / len(tasks))
    evidence = _collect_evidence(scores, RETRIEVAL[0], metric, weights, "none")
    return pd.DataFrame({"readout": "none"} | row for row in _judge_students(evidence, rivals))


def collect_scores(bench: Bench) -> dict[str, pd.DataFrame]:
    """Our scores of every figure for `judge_claims`, by each readout whose runs are in the store.

    Raises `NotComputed` if no figure is complete.
    """
    scores, reading = {}, bench.reading()
    for figure in dict.fromkeys(claim.source for claim in load_claims()):
        if figure in RETRIEVAL and bench.retrievals:
            with contextlib.suppress(NotComputed):  # both are drawn from the same records
                ranked = scores.get(RETRIEVAL[0])
                if ranked is None:
                    ranked = final_students.run_retrievals(reading, top=None)
                scores[figure] = ranked
        elif figure in RANKINGS and bench.classifications:
            frames = []
            for name in READOUTS:
                with contextlib.suppress(NotComputed):
                    judged = reading.with_readout(name)
                    if figure in theirs.CHAPTER_4:
                        frames.append(chapter4.run_figures(figure, judged))
                    else:
                        frames.append(final_students.run_classifications(judged))
            if frames:
                scores[figure] = pd.concat(frames, ignore_index=True)
    if not scores:
        name = bench.profile.name
        raise NotComputed(
            f"no figure of the profile {name} has all of its runs; "
            f"first run ./run_all.sh {name}, or some of the notebooks 02 to 07"
        )
    return scores


def _judge_claim(
    claim: Claim,
    scores: Scores,
    collect: Callable[..., Evidence],
    failures: Failures,
    numbers: Numbers,
) -> dict[str, Any]:
    """The ledger's row of one claim."""
    row = claim.model_dump(include={"id", "section", "finding", "quote", "read_off"})
    row["label"] = claim.figure
    if isinstance(claim, Number):
        return row | _judge_number(claim, numbers)
    published = _judge_published(claim)
    columns = asdict(published) if published else {"verdict": verdicts.NOT_RUN}
    row |= {f"published_{name}": value for name, value in columns.items()}
    failed = {check: why for (check, label), why in failures.items() if label in claim.subjects}
    missing, ours = "", {}
    for prefix, readout in READOUT_OF_PREFIX.items():
        missing = _find_missing(claim, scores, readout)
        judgement = vacuous = None
        if not missing:
            judgement, vacuous = _judge_ours(claim, scores, collect, readout)
            if published:
                judgement = verdicts.compare_with_published(judgement, published.effect)
            judgement = verdicts.checked(judgement, claim.needed, failed)
        ours[prefix] = judgement
        columns = asdict(judgement) if judgement else {"verdict": verdicts.NOT_RUN}
        columns["vacuous"] = "yes" if vacuous else ""
        row |= {prefix + name: value for name, value in columns.items()}
        if not prefix:
            row["note"] = " ".join(filter(None, (claim.note, missing, row.get("reason"))))
    compared = [ours[prefix] for prefix in SURVIVAL]
    row["survives"] = verdicts.NOT_RUN
    if all(compared):
        row["survives"] = verdicts.share_verdict(*compared)
        same_way = compared[0].effect * compared[1].effect > 0
        row["survives_p"] = max(each.p for each in compared) if same_way else 1.0
    row["checks"] = ", ".join(claim.needed)
    return row


def _judge_number(claim: Number, numbers: Numbers) -> dict[str, Any]:
    """The columns of a claim of the kind `number`, which are the same for every readout."""
    ours = numbers.get(claim.number)
    word = verdicts.NOT_RUN if ours is None else verdicts.NUMBER
    missing = f"No records: make {claim.source} first." if ours is None else ""
    row = {"published_effect": claim.published, "published_verdict": verdicts.NUMBER}
    row |= {f"{prefix}effect": ours for prefix in READOUT_OF_PREFIX}
    row |= {f"{prefix}verdict": word for prefix in READOUT_OF_PREFIX}
    return row | {"survives": word, "note": " ".join(filter(None, (claim.note, missing)))}


def _find_missing(claim: Claim, scores: Scores, readout: str) -> str:
    """Say what is missing for a verdict on our numbers; empty if nothing is."""
    models, found = _list_models(claim), scores.get(claim.source)
    if found is None:
        return f"No records: make {claim.source} first."
    compared = set().union(*claim.sides(models))
    if isinstance(found, Evidence):
        missing = sorted(compared - {*found.means.index})
    else:
        shown = _select_scores(found, claim.source, claim.metric, readout)
        tasks = list(shown["task"].unique())
        missing = sorted(compared - {*shown["model"]})
        missing += sorted({*claim.tasks, *claim.weights(tasks)} - {*tasks})
    more = f" and {len(missing) - 1} more" if missing[1:] else ""
    return f"No records of {missing[0]}{more}." if missing else ""


def _judge_ours(
    claim: Claim, scores: Scores, collect: Callable[..., Evidence], readout: str
) -> tuple[Judgement, bool]:
    """Our verdict by a readout, and whether the untrained base passes in the student's place."""
    models, found = _list_models(claim), scores[claim.source]
    if isinstance(found, Evidence):
        # From the news paper, whose students start from random weights: no base can stand in.
        return claim.judge_scores(found, models), False
    shown = _select_scores(found, claim.source, claim.metric, readout)
    weights = claim.weights(list(shown["task"].unique()))
    evidence = collect(claim.source, claim.metric, tuple(weights.items()), readout)
    judgement = claim.judge_scores(evidence, models)
    places = _find_students(claim, models)
    if judgement.verdict != verdicts.HOLDS or not {*places.values()} <= {*evidence.means.index}:
        return judgement, False
    untrained = claim.judge_scores(evidence.replaced(places), models) if places else judgement
    return judgement, bool(places) and untrained.verdict == verdicts.HOLDS


def _find_students(claim: Claim, models: Sequence[str]) -> dict[str, str]:
    """Student -> the base that can take its place in a claim; empty if that would say nothing.

    It says something if the claim compares students with models that were not distilled, and the
    base is not one of these.
    """
    places = {}
    for sides in claim.opponents(models):
        names = [name for side in sides for name in side]
        students = {name for name in names if _name_class(claim.source, name) in STUDENT_CLASSES}
        taught, others = sorted(sides, key=lambda side: not students.issuperset(side))
        names_base = any(_split_round(claim.source, name)[0] == BASE for name in others)
        if not students.issuperset(taught) or students & {*others} or names_base:
            return {}
        places |= {name: BASE + _split_round(claim.source, name)[1] for name in taught}
    return places


def _collect_evidence(
    scores: pd.DataFrame, source: str, metric: str, weights: Mapping[str, float], readout: str
) -> Evidence:
    """Evidence on a figure's models by one readout; models of one class share their seed noise."""
    shown = _select_scores(scores, source, metric, readout)
    names = shown["model"].unique()
    return intervals.from_examples(
        intervals.task_scores(shown),
        weights=weights,
        given=[name for name in names if _split_round(source, name)[0] in GIVEN],
        class_of=functools.partial(_name_class, source),
        student_of=lambda name: _split_round(source, name)[0],
        processor_sd=PROCESSOR_SD if (metric, readout) == ("accuracy", "thesis") else 0.0,
    )


def _collect_readouts(
    scores: pd.DataFrame, figure: str, tasks: Sequence[str] | None
) -> Iterator[tuple[str, Evidence]]:
    """Each readout, with evidence on the models of a figure, all or some tasks alike."""
    rows = scores if tasks is None else scores[scores["task"].isin(tasks)]
    weights = dict.fromkeys(rows["task"].unique(), 1 / rows["task"].nunique())
    for readout in rows["readout"].unique():
        yield readout, _collect_evidence(rows, figure, "accuracy", weights, readout)


def _judge_students(
    evidence: Evidence, rivals: Sequence[str], ending: str = ""
) -> Iterator[dict[str, Any]]:
    """Judge the mean of the final students against rivals; `ending` follows all their names."""
    students = final_students.list_students()
    mean = {name + ending: 1 / len(students) for name in students}
    for rival in rivals:
        if rival + ending in evidence.means.index:
            compared = Comparison(mean, {rival + ending: 1.0}, "mean of the students", rival)
            judged = verdicts.judge([[compared]], evidence)
            row = {"rival": rival, "difference": judged.effect}
            yield row | {"low": judged.low, "high": judged.high, "verdict": judged.verdict}


def _split_round(source: str, model: str) -> tuple[str, str]:
    """Split a name of Figure 5.3, such as "only-MSE;cut;all", into the model and the rest."""
    name, separator, rest = model.partition(";") if source == "fig5_3" else (model, "", "")
    return name, separator + rest


@functools.cache
def _name_class(source: str, model: str) -> str:
    """The class of a model, named as in the figure or by identity; a class is equally noisy."""
    identities = final_students.load_models()
    if source in theirs.CHAPTER_4:
        identities = figure_models.printed(source)
    name, _ = _split_round(source, model)
    return parse(identities.get(name, name)).seed_class


@functools.cache
def _judge_published(claim: Claim) -> Judgement | None:
    """The verdict on the published numbers; None for a claim that is about our runs alone."""
    if isinstance(claim, Alike):
        return None
    source, models = claim.source, _list_models(claim)
    scores = _load_published_scores(source, claim.metric)
    score = scores["value"] if claim.metric == "F1" else effects.chance_corrected
    scores = scores.assign(score=score)
    runs = scores.pivot(index=["model", "seed"], columns="task", values="score")
    weights, noise = claim.weights(list(runs)), None
    if claim.metric == "F1":
        runs, noise = runs.dropna(subset=claim.tasks or None), measure_twin_noise()
    elif claim.metric == "accuracy":
        compared = set().union(*claim.sides(models))
        about = any(figure == source and compared == {*pair} for figure, *pair in RERUNS)
        noise = measure_published_noise(source, weights, without=source if about else "")
    evidence = intervals.from_runs(
        runs, weights=weights, noise=noise, student_of=lambda name: _split_round(source, name)[0]
    )
    return claim.judge_scores(evidence, models)


# ---- published noise ----------------------------------------------------------------------------


@functools.cache
def measure_twin_noise() -> SeedNoise:
    """How noisy the F1 of a published student of the news paper is, a mean of both sides' F1.

        sd^2 = mean over pairs of gap^2 / 2

    The pairs are `TWINS`.
    """
    table = theirs.load(theirs.NEWS).pivot(index="model", columns="task", values="value")
    gaps = [(table.loc[first] - table.loc[second]).mean() for first, second in TWINS]
    return SeedNoise(float(np.sqrt(np.square(gaps).mean() / 2)), len(gaps))


def compare_neighbours(figure: str) -> pd.DataFrame:
    """Compare each model of a published ranking with the next, best first; in Figure 5.3 by round.

    Columns: model, ahead_of, gap (of mean chance-corrected accuracy), within_noise (whether two
    published runs of one model may differ by as much), arithmetic (as `verdicts.arithmetic` says).
    """
    scores = theirs.load(figure).rename(columns={"accuracy": "value"})
    scores = scores.assign(score=effects.chance_corrected)
    means = scores.groupby("model", sort=False)["score"].mean()
    rounds = [name.rpartition(";")[2] if figure == "fig5_3" else "" for name in means.index]
    ranked = [effects.neighbours(group) for _, group in means.groupby(rounds, sort=False)]
    table = pd.concat(ranked, ignore_index=True)
    table["within_noise"] = table["gap"] <= measure_published_noise(figure).least_difference
    table["arithmetic"] = [*map(verdicts.arithmetic, means[table["better"]], means[table["worse"]])]
    return table.rename(columns={"better": "model", "worse": "ahead_of"})


# ---- scores -------------------------------------------------------------------------------------


def _list_models(claim: Claim) -> list[str]:
    return _load_published_scores(claim.source, claim.metric)["model"].unique().tolist()


@functools.cache
def _load_published_scores(figure: str, metric: str) -> pd.DataFrame:
    """Columns model, task, seed, value, chance; `ValueError` for a figure without such scores."""
    scores, chance = theirs.load(figure), np.nan
    if figure in RETRIEVAL:
        scores = scores[scores["metric"] == metric].rename(columns={"score": "value"})
        chance = scores["task"].map(theirs.load_chances("test", metric))
    elif figure in RANKINGS:
        scores = scores.rename(columns={"accuracy": "value"})
        chance = scores["chance"]
    elif figure != theirs.NEWS:
        allowed = ", ".join((*RANKINGS, *RETRIEVAL, theirs.NEWS))
        raise ValueError(f"{figure} has no scores per model and task; expected one of {allowed}")
    return scores.assign(seed=0, chance=chance)[["model", "task", "seed", "value", "chance"]]


def _select_scores(scores: pd.DataFrame, source: str, metric: str, readout: str) -> pd.DataFrame:
    """The scores of one metric and readout, with the model names that the figure prints."""
    scores = scores[scores["metric"] == metric]
    if source in RETRIEVAL:
        return scores
    scores = scores[scores["readout"] == readout]
    if source == "fig5_3":
        return scores.assign(model=scores["model"] + ";" + scores["round"])
    names = {identity: name for name, identity in figure_models.printed(source).items()}
    return scores.assign(model=scores["model"].replace(names))
