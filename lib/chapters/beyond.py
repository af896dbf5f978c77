"""What Section 5.4 leaves open (notebook 10): further teachers, targets and negatives, and vectors
that need no student.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lib import words
from lib.chapters import chapter4
from lib.config.profiles import grid
from lib.distillation.variants import parse
from lib.evaluation import readouts
from lib.evaluation.readouts import Examples
from lib.experiments.bench import JUDGING, Bench
from lib.experiments.model import Model
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores
from lib.store import Product, hash_arrays, hash_texts
from lib.vectors.models import combine, fit_words, list_dense
from lib.vectors.names import BASE, BOTH, CHUNKS, CLASSIFIER, CUT, LSA, STUDENT, TFIDF

READOUTS = {"compare": "heads that compare", "none": "no head"}  # they need little or no training
START = "untrained student"  # of Figure B.2; `BASE` has all layers of the encoder
TEACHERS = ("SBERT", "SBERT, mean of chunks", "PV;2048d", "DBOW;1024d", "LSA")
UNTRAINED = (BASE, CUT, CHUNKS, TFIDF, LSA, BOTH, CLASSIFIER)  # in the order of Figure B.1
ROUNDS = 3  # of timing; the shortest time counts
# Columns that are the same for all models on a task.
_OF_TASK = ["task", "metric", "readout", "split", "device", "groups", "chance"]


def list_ingredients() -> dict[str, str]:
    """Name in Figure B.2 -> identity, the untrained student first."""
    return {START: "Longformer"} | grid("beyond")["ingredients"]


def run_students(models: Mapping[str, str], bench: Bench) -> pd.DataFrame:
    """Records of models, name -> identity, as of `Bench.run`; students have the reference seeds."""
    names = {identity: name for name, identity in models.items()}
    students = [variant.identity for variant in chapter4.select_students(models).values()]
    seeds = chapter4.assign_seeds(bench.profile, students)
    return chapter4.rename_models(bench.run(list(names), seeds=seeds), names)


def judge_steps(records: pd.DataFrame) -> pd.DataFrame:
    """Figure B.2's data, from `run_students` of the ingredients by each of `READOUTS`.

    Columns: step, readout (a value of `READOUTS`), and those of `verdicts.compare`, with q over the
    steps of a readout.
    """
    steps, tables = grid("beyond")["steps"], []
    classes = {name: parse(model).seed_class for name, model in list_ingredients().items()}
    for readout, shown in records.groupby("readout", sort=False):
        evidence = from_examples(task_scores(shown), given=[START], class_of=classes.__getitem__)
        table = verdicts.compare(steps.values(), evidence)
        table.insert(0, "step", list(steps))
        table.insert(1, "readout", READOUTS[str(readout)])
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def list_untrained(bench: Bench) -> dict[str, tuple[Model, ...]]:
    """Figure B.1's models that need no training, by name; `CLASSIFIER` has two.

    They are fitted to the corpus that Paragraph Vectors read, and means to held-out documents.
    """
    documents = bench.first_texts(bench.profile.contextual_teacher.documents)
    fitted, dense = fit_words(bench.store, documents), list_dense(bench.store, bench.profile)
    models = combine(dense, fitted, bench.held_out)
    base, _ = models[BOTH].models
    return {name: (model,) for name, model in models.items()} | {CLASSIFIER: (models[TFIDF], base)}


def run_table(bench: Bench) -> pd.DataFrame:
    """Records of Figure B.1's models by heads that compare, as `Bench.run` returns them."""
    judged, store, rows = bench.with_readout("compare"), bench.store, []
    students = run_students(grid("beyond")["compared_students"], judged)
    untrained = list_untrained(bench)
    for task, facts in students.drop_duplicates("task").set_index("task", drop=False).iterrows():
        examples = judged.examples(task, "validation")
        read = [hash_texts(examples.texts), examples.inputs, examples.labels]
        read += [each for part in examples.parts for each in part]
        bench.embed([model for models in untrained.values() for model in models], examples.texts)
        for name, models in untrained.items():
            classifier = {TFIDF: "words", CLASSIFIER: "joint"}.get(name, "compare")
            inputs = {"models": [model.product for model in models], "classifier": classifier}
            inputs["examples"] = hash_arrays(*read)
            product = Product("record", inputs, JUDGING, ("scikit-learn",), f"{task}: {name}")
            record = store.get(product, partial(_judge, models, examples, classifier))
            row = facts[_OF_TASK].to_dict() | {"model": name, "identity": name, "seed": 0}
            row |= {"value": float(record["accuracy"]), "by_head": record["heads"].tolist()}
            vectors = ", ".join(model.product.name for model in models)
            row |= {"fingerprint": product.name, "embedding_fingerprint": vectors}
            rows.append(row | {"scores": record["scores"]})
    return pd.concat([pd.DataFrame(rows), students], ignore_index=True)


def _judge(models: Sequence[Model], examples: Examples, classifier: str) -> dict[str, Any]:
    vectors = tuple(model.embed(examples.texts) for model in models)
    given = (examples.task, 0, vectors if len(vectors) > 1 else vectors[0])
    # An article is a class of ARXIV: folds that part no article cannot choose the joint weight.
    return readouts.judge_models([given], replace(examples, groups=None), classifier)[0]


def measure_costs(bench: Bench) -> dict[str, float]:
    """CPU milliseconds per held-out document, by the names of Figure B.1's models.

    Models are measured in turn on one thread. The shortest of several rounds counts, because other
    programs can only make a round longer. Students differ only in their weights, so all take as
    long as `STUDENT`.
    """
    models, texts = list_untrained(bench), [*bench.held_out]
    models = {name: models[name][0] for name in (BASE, CUT, CHUNKS, TFIDF, LSA)}
    models[STUDENT] = bench.base
    inputs = {"models": [model.product for model in models.values()], "rounds": ROUNDS}
    product = Product("costs", inputs | {"texts": hash_arrays(hash_texts(texts))})

    def measure() -> dict[str, float]:
        import torch

        times, threads = dict.fromkeys(models, np.inf), torch.get_num_threads()
        torch.set_num_threads(1)
        for name in [*models] * ROUNDS:
            started = time.process_time()
            models[name].encode(texts)
            seconds = time.process_time() - started
            times[name] = min(times[name], 1000 * seconds / len(texts))
        torch.set_num_threads(threads)
        return times

    times = {name: float(value) for name, value in bench.store.get(product, measure).items()}
    return times | {BOTH: times[BASE] + times[LSA], CLASSIFIER: times[BASE] + times[TFIDF]}


def tabulate_models(records: pd.DataFrame, costs: Mapping[str, float]) -> pd.DataFrame:
    """Figure B.1's data, from `run_table` and `measure_costs`, a row for each model.

    Columns: model, trained (whether it is a student), score (chance-corrected, mean over tasks),
    low and high (over test texts); difference, difference_low, difference_high and verdict, all
    against `BASE`; and milliseconds.
    """
    tasks, models = task_scores(records), records["model"].unique()
    table = verdicts.above_chance(tasks, [*models]).drop(columns="passed")
    table.insert(1, "trained", ~table["model"].isin(UNTRAINED))
    evidence = from_examples(tasks, given=UNTRAINED)
    against = verdicts.compare([(name, BASE) for name in models if name != BASE], evidence)
    against = against.rename(columns={"low": "difference_low", "high": "difference_high"})
    columns = ["difference", "difference_low", "difference_high", "verdict"]
    table = table.join(against.set_index("left")[columns], on="model")
    paid = table["model"].where(~table["trained"], STUDENT)
    return table.assign(milliseconds=paid.map(costs))


def describe_model(data: pd.DataFrame, name: str) -> str:
    """A clause on how a model of `tabulate_models` compares with the base, and its cost."""
    row = data.set_index("model").loc[name]
    ends = {"low": row["difference_low"], "high": row["difference_high"]}
    told = words.comparison(name, BASE, {**row, **ends})
    return f"{told}, at {words.rounded(row['milliseconds'])} ms a document"
