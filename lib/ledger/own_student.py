"""Whether a student of your own documents is better than its base, its teacher and TF-IDF."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lib.config.profiles import OneLine
from lib.data.dataset_folder import content
from lib.distillation.variants import Variant
from lib.evaluation import baselines
from lib.experiments import ranking
from lib.experiments.bench import Bench
from lib.statistics.measures import WORDS, describe_verdicts, format_table, measure_models
from lib.statistics.verdicts import HOLDS, REVERSED
from lib.store import progress
from lib.texts import cut_halves

BASE = "base"
MODELS = {
    "Longformer": BASE,
    "SBERT": "teacher, cut",
    "SBERT, mean of chunks": "teacher, chunks",
    "TF-IDF": "TF-IDF",
}
# The code that embeds with each model; docs/own_documents.md has the imports.
CODE = {
    BASE: "bench.base_student().encode(texts)",
    "teacher, cut": "teacher.encode(texts)",
    "teacher, chunks": "mean_of_chunks(teacher, texts)",
    "TF-IDF": "tfidf(texts, texts)",
}
STUDENT_CODE = "Student.load(out).encode(texts)"
HELD_OUT = 300  # a student is judged by the halves of at most so many documents
FEW = 20  # fewer examples say little
Judge = Callable[[Sequence[str | Variant]], pd.DataFrame]


def compare_student(
    student: Any, variant: Variant, seed: int, bench: Bench
) -> tuple[pd.DataFrame, list[str]]:
    """Judge a student, its base, its teacher, the mean of the teacher's chunks and TF-IDF.

    There are three kinds of measures: the MRR with which the halves of held-out documents find each
    other, which needs no labels; the test accuracy of a classification; and MAP and MRR of a
    retrieval. Accuracies are by the readout "compare", which converges even on few examples.

    Returns
    -------
    table
        A row for each measure and model: measure, examples (documents, test examples, queries),
        model, value, low, high, guessing (the score of a random guess), against_base, against_low,
        against_high, than_base, than_student. Intervals (95%) account for other texts, not for
        other seeds; they are NaN if scores do not vary.
    failed
        A line for each task or model that could not be judged, and one on documents without halves.

    Raises
    ------
    ValueError
        With these lines, if no task could be judged.
    """
    halves = partial(judge_halves, bench, student, variant)
    judges: dict[str, Judge] = {"halves of documents": halves}
    comparing = bench.with_readout("compare")
    for task in bench.classifications:
        judges[task] = partial(comparing.run, seeds=[seed], tasks=[task], split="test")
    for task in bench.retrievals:
        judges[task] = partial(bench.retrieve, seeds=[seed], tasks=[task])
    tables, failed = [], []
    for task, judge in judges.items():
        judged, problems = _judge_models(judge, [*MODELS, variant])
        failed += [" ".join(f"{task}{problem}".split()) for problem in problems]
        if judged is not None:
            for names, rows in judged.groupby(["task", "metric"], sort=False):
                tables.append(_measure_intervals(" ".join(names), rows))
            if "left_out" in judged and (count := judged["left_out"].iloc[0]):
                failed.append(f"{task}: documents without two halves are left out ({count})")
    if not tables:
        raise ValueError("; ".join(failed))
    return pd.concat(tables, ignore_index=True), failed


def judge_halves(
    bench: Bench, student: Any, variant: Variant, wanted: Sequence[str | Variant]
) -> pd.DataFrame:
    """How well halves of documents find each other, by a student, its base, its teacher and TF-IDF.

    No training reads these documents: the corpus' validation documents, then the validation and
    test texts of tasks, at most `HELD_OUT` in all. Each is cut to as many words as the student
    reads tokens. A document of one word has no halves.

    Parameters
    ----------
    bench : Bench
        With the student's profile and base.
    student : Student
        Trained, of `variant`.
    wanted : sequence of labels or variants
        Which of these to judge: the student's variant and the names in `MODELS`.

    Returns
    -------
    DataFrame
        A row for each model: model, task, metric, `scores` and `groups` (documents,), `chance`,
        `left_out` (how many held-out documents have no halves).

    Raises
    ------
    ValueError
        If no held-out document has two words.
    """
    documents = [(each.text, each.group or each.id) for each in bench.corpus.validation]
    for task in bench.tasks.values():
        names = sorted(task.held_out())
        documents += [(task.texts[name], task.groups.get(name, name)) for name in names]
    unique = {content(text): (text, group) for text, group in documents}
    halves, groups = [], []
    for text, group in unique.values():
        if parts := cut_halves(text, student.max_positions):
            halves.append(parts)
            groups.append(group)
    left_out = len(unique) - len(halves)
    if not halves:
        raise ValueError(f"no halves: none of the {left_out} held-out documents has two words")
    halves, groups = halves[:HELD_OUT], groups[:HELD_OUT]
    texts = [first for first, _ in halves] + [second for _, second in halves]
    teacher, base = bench.structural_teacher(), bench.base_student().to(bench.device)
    encoders: dict[str, Callable[[], Any]] = {
        "Longformer": lambda: base.encode(texts, precision=bench.precision),
        "SBERT": lambda: teacher.encode(texts),
        "SBERT, mean of chunks": lambda: baselines.mean_of_chunks(teacher, texts),
        "TF-IDF": lambda: baselines.tfidf(bench.texts("train"), texts).toarray(),
        variant.identity: lambda: student.encode(texts, precision=bench.precision),
    }
    names, scores = [str(model) for model in wanted], []
    told = f"halves of {len(halves)} documents"
    for name in progress.track(names, told, len(names)):
        scores.append(ranking.rank_halves(encoders[name]()).reshape(2, -1).mean(axis=0))
    return pd.DataFrame(
        {
            "model": names,
            "scores": scores,
            "groups": [np.array(groups)] * len(scores),
            "task": "halves of documents",
            "metric": "MRR",
            "chance": np.mean(1 / np.arange(1, len(texts))),
            "left_out": left_out,
        }
    )


def _judge_models(
    judge: Judge, models: list[str | Variant]
) -> tuple[pd.DataFrame | None, list[str]]:
    """The rows of all models that can be judged, and why others cannot.

    If judging them together fails, each is judged alone, so that only failing models lack rows.
    None if the first or the last of them, base or student, fails: then nothing can be compared.
    """
    try:
        return judge(models), []
    except Exception as error:
        together = error
    reasons, rows = {}, []
    for model in models if not isinstance(together, OneLine) else []:
        try:
            rows.append(judge([model]))
        except Exception as error:
            reasons[str(model)] = error
    if len(rows) < 2 or {str(models[0]), str(models[-1])} & reasons.keys():
        return None, [f" could not be judged: {_read_reason(together)}"]
    names = MODELS | {str(models[-1]): "the student"}
    problems = [
        f": {names[model]} could not be judged: {_read_reason(error)}"
        for model, error in reasons.items()
    ]
    return pd.concat(rows, ignore_index=True), problems


def _read_reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def describe_comparison(table: pd.DataFrame, failed: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """Format the table for reading, and write sentences on the student, with advice at the end.

    `table` and `failed` are those of `compare_student`; each measure's last row is the student.
    """
    guessing = table["low"].fillna(table["value"]) <= table["guessing"]
    guessing = guessing.groupby(table["measure"]).transform("all")
    lines = ["One seed: the intervals account for other texts, not for other seeds.", *failed]
    for measure, rows in table[guessing].groupby("measure", sort=False):
        chance = rows["guessing"].iloc[0]
        lines.append(f"{measure}: no model is above guessing ({chance:.2f})")
    for measure, rows in table[~guessing].groupby("measure", sort=False):
        line = f"{measure}: the student is {rows['than_base'].iloc[-1]} the base, where it started"
        count = rows["examples"].iloc[0]
        if count < FEW:
            line += f"; fewer than {FEW} examples ({count}) say little"
        lines.append(line)
        better = rows[rows["than_student"] == WORDS[HOLDS]].sort_values("value", ascending=False)
        if len(better):
            names = " and ".join(better["model"] + better["value"].map(" ({:.3f})".format))
            lines.append(f"{measure}: better than the student: {names}")
    student = table["model"].iloc[-1]
    best = _choose_model(table[~guessing], student)
    advice = f"Over all measures: use {best}, {CODE.get(best, STUDENT_CODE)}"
    if best != student:
        advice += ", or train with another loss or on fewer texts (training.documents)"
    return format_table(table, BASE), [*lines, advice]


def _choose_model(table: pd.DataFrame, student: str) -> str:
    """The model with the best mean among those that beat the base somewhere and lose to it nowhere.

    If the student is among them and the best model beats it nowhere, the student is chosen. If
    there are none, the base is. A model that some measure could not judge is never chosen.
    """
    everywhere = table.groupby("model")["measure"].transform("size") == table["measure"].nunique()
    columns = {"value": "mean", "than_base": set, "than_student": set}
    models = table[everywhere].groupby("model").agg(columns).sort_values("value")
    ahead = [
        name
        for name, words in models["than_base"].items()
        if WORDS[HOLDS] in words and WORDS[REVERSED] not in words
    ]
    if not ahead:
        return BASE
    best = ahead[-1]
    if student in ahead and WORDS[HOLDS] not in models.at[best, "than_student"]:
        return student
    return best


def _measure_intervals(measure: str, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a measure as `compare_student` returns them. `rows` has one for each model."""
    table, evidence = measure_models(rows)
    models = table["model"].tolist()
    names = MODELS | {models[-1]: f"student ({models[-1]})"}
    counts = rows["queries"] if "queries" in rows else rows["scores"].map(len)
    return table.assign(
        than_student=describe_verdicts(models, models[-1], evidence),
        model=table["model"].replace(names),
        measure=measure,
        examples=counts.to_numpy(),
        guessing=rows["chance"].to_numpy(),
    )
