"""Section 5.4 (notebook 10): students of further teachers, targets and negatives, and vectors that
need no student.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lib.chapters import chapter4
from lib.config.profiles import grid
from lib.evaluation import readouts
from lib.evaluation.readouts import Examples
from lib.experiments.bench import JUDGING, Bench, hash_examples
from lib.experiments.model import Model
from lib.store import Product, Store, hash_arrays, hash_texts
from lib.vectors import BASE, BOTH, CHUNKS, CLASSIFIER, CUT, LSA, STUDENT, TFIDF
from lib.vectors.own import combine, list_models

UNTRAINED = (BASE, CUT, CHUNKS, TFIDF, LSA, BOTH, CLASSIFIER)  # in the order of Figure B.1
ROUNDS = 3  # of timing; the shortest time counts


def run_students(models: Mapping[str, str], bench: Bench) -> pd.DataFrame:
    """Records of models, name -> identity, as of `Bench.run`; students have the reference seeds."""
    names = {identity: name for name, identity in models.items()}
    students = [variant.identity for variant in chapter4.select_students(models).values()]
    seeds = chapter4.assign_seeds(bench.profile, students)
    return chapter4.rename_models(bench.run(list(names), seeds=seeds), names)


def list_untrained(bench: Bench) -> dict[str, tuple[Model, ...]]:
    """Figure B.1's models that need no training, by name; `CLASSIFIER` has two.

    They are fitted to the corpus that Paragraph Vectors read, and means to held-out documents.
    """
    documents = bench.first_texts(bench.profile.contextual_teacher.documents)
    models = combine(list_models(bench.store, documents, bench.profile), bench.held_out)
    base, _ = models[BOTH].models
    return {name: (model,) for name, model in models.items()} | {CLASSIFIER: (models[TFIDF], base)}


def run_table(bench: Bench) -> pd.DataFrame:
    """Records of Figure B.1's models by heads that compare, as `Bench.run` returns them."""
    judged, rows = bench.with_readout("compare"), []
    students = run_students(grid("beyond")["compared_students"], judged)
    untrained = list_untrained(bench)
    shared = students.drop_duplicates("task").set_index("task", drop=False)
    shared = shared[["task", "metric", "readout", "split", "device", "groups", "chance"]]
    for task, facts in shared.iterrows():
        examples = judged.examples(task, "validation")
        bench.embed([model for models in untrained.values() for model in models], examples.texts)
        for name, models in untrained.items():
            row = facts.to_dict() | {"model": name, "identity": name, "seed": 0}
            rows.append(row | _find_record(name, models, examples, bench.store))
    return pd.concat([pd.DataFrame(rows), students], ignore_index=True)


def _find_record(
    name: str, models: Sequence[Model], examples: Examples, store: Store
) -> dict[str, Any]:
    classifier = {TFIDF: "words", CLASSIFIER: "joint"}.get(name, "compare")
    inputs = {"models": [model.product for model in models], "classifier": classifier}
    inputs["examples"] = hash_examples(examples)
    product = Product("record", inputs, JUDGING, ("scikit-learn",), f"{examples.task}: {name}")
    record = store.get(product, partial(_judge, models, examples, classifier))
    return {
        "value": float(record["accuracy"]),
        "by_head": record["heads"].tolist(),
        "scores": record["scores"],
        "fingerprint": product.name,
        "embedding_fingerprint": ", ".join(model.product.name for model in models),
    }


def _judge(models: Sequence[Model], examples: Examples, classifier: str) -> dict[str, Any]:
    vectors = tuple(model.embed(examples.texts) for model in models)
    given = (examples.task, 0, vectors if len(vectors) > 1 else vectors[0])
    # An article is a class of ARXIV: folds that part no article cannot choose the joint weight.
    return readouts.judge_models([given], replace(examples, groups=None), classifier)[0]


def measure_costs(bench: Bench) -> dict[str, float]:
    """CPU milliseconds per held-out document, by the names of Figure B.1's models.

    Models are measured in turn on one thread. The shortest of several rounds counts, because other
    programs can only make a round longer. All students take as long as `STUDENT`.
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
