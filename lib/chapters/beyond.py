"""What Section 5.4 leaves open (notebook 10): further teachers, targets and negatives, and vectors
that need no student.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lib import words
from lib.chapters import chapter4
from lib.config.profiles import grid
from lib.config.schema import Profile
from lib.distillation.held_out_cca import chance_cca
from lib.distillation.variants import parse
from lib.experiments.bench import Bench
from lib.experiments.judging import Examples
from lib.experiments.products import find_code
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores
from lib.store.cache import Cache, Product, hash_content, hash_items
from lib.vectors import dense, untrained
from lib.vectors.names import BASE, BOTH, CHUNKS, CLASSIFIER, CUT, LSA, STUDENT, TFIDF

READOUTS = {"compare": "heads that compare", "none": "no head"}  # they need little or no training
START = "untrained student"  # of Figure B.2; `BASE` has all layers of the encoder
TEACHERS = ("SBERT", "SBERT, mean of chunks", "PV;2048d", "DBOW;1024d", "LSA")
UNTRAINED = (BASE, CUT, CHUNKS, TFIDF, LSA, BOTH, CLASSIFIER)  # in the order of Figure B.1
_DENSE = (BASE, CHUNKS, CUT)
# Columns that are the same for all models on a task.
_OF_TASK = ["task", "metric", "readout", "split", "device", "groups", "chance"]
_CODE = find_code("lib.vectors.untrained")
_PACKAGES = ("scikit-learn", "numpy", "scipy")


# ---- what each ingredient adds ------------------------------------------------------------------


def list_ingredients() -> dict[str, str]:
    """Name in Figure B.2 -> identity, the untrained student first."""
    return {START: "Longformer"} | grid("beyond")["ingredients"]


def run_teachers(bench: Bench) -> pd.DataFrame:
    """Records of the teachers themselves by heads that compare, as `Bench.run` returns them."""
    return bench.with_readout("compare").run(TEACHERS, seeds=bench.profile.seeds[:1])


def run_ingredients(bench: Bench) -> pd.DataFrame:
    """Records of Figure B.2's trained and untrained students, as of `Bench.run`, by `READOUTS`."""
    models = list_ingredients()
    frames = [
        bench.with_readout(readout).run(list(models.values()), seeds=_assign_seeds(bench))
        for readout in READOUTS
    ]
    names = {identity: name for name, identity in models.items()}
    return chapter4.rename_models(pd.concat(frames, ignore_index=True), names)


def judge_steps(records: pd.DataFrame) -> pd.DataFrame:
    """Figure B.2's data, from `run_ingredients`: a row for each step and readout.

    Columns: step, readout (a value of `READOUTS`), and those of `verdicts.compare`; q is over the
    steps of a readout. A difference is between chance-corrected means over tasks and seeds.
    """
    steps, identities = grid("beyond")["steps"], list_ingredients()
    tables = []
    for readout, shown in records.groupby("readout", sort=False):
        evidence = from_examples(
            task_scores(shown),
            given=[START],
            class_of=lambda name: parse(identities[name]).seed_class,
        )
        table = verdicts.compare(steps.values(), evidence)
        table.insert(0, "step", list(steps))
        table.insert(1, "readout", READOUTS[str(readout)])
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def tabulate_treatment(bench: Bench) -> pd.DataFrame:
    """How close Figure B.2's students came to their contextual teacher, with the first seed.

    Columns: model; share (of the contextual loss in the gradient, mean over the training); before
    and after (held-out CCA with the teacher); chance (held-out CCA of documents paired at random).
    """
    seed, rows = bench.profile.seeds[0], []
    for name, identity in list_ingredients().items():
        variant = parse(identity)
        if variant.kind != "student" or variant.contextual is None:
            continue
        student = bench.embeddings(variant, seed)
        watched, teacher = student["watched"], bench.contextual_rows(variant, "validation")[:]
        ends = watched[0, 1], watched[-1, 1]
        rows.append((name, watched[:, 3].mean(), *ends, chance_cca(student["validation"], teacher)))
    return pd.DataFrame(rows, columns=["model", "share", "before", "after", "chance"])


def describe_step(steps: pd.DataFrame, name: str) -> str:
    """What a step of `judge_steps` changes by each readout, as clauses."""
    told = {"heads that compare": "by heads that compare", "no head": "without a head"}
    clauses = [
        f"{told[row['readout']]}, {words.comparison(row['left'], row['right'], row)}"
        for _, row in steps[steps["step"] == name].iterrows()
    ]
    return "; ".join(clauses)


# ---- students and models that need no training --------------------------------------------------


def run_table(bench: Bench) -> pd.DataFrame:
    """Records of Figure B.1's models by heads that compare, as `Bench.run` returns them.

    The models that need no training are those of `lib.vectors`, with the profile's teacher and
    encoder. TF-IDF and LSA are fitted to the corpus that Paragraph Vectors read.
    """
    judged = bench.with_readout("compare")
    models = grid("beyond")["compared_students"]
    students = judged.run(list(models.values()), seeds=_assign_seeds(bench))
    names = {identity: name for name, identity in models.items()}
    students = chapter4.rename_models(students, names)
    examples = {task: judged.examples(task, "validation") for task in students["task"].unique()}
    vectors = _embed_untrained(bench, examples)
    products = {
        (task, name): _name_record(name, part, examples[task])
        for task, parts in vectors.items()
        for name, part in parts.items()
    }
    bench.run_jobs(
        [
            (keep_record, (bench.cache, product, name, vectors[task][name], examples[task]))
            for (task, name), product in products.items()
            if bench.cache.find(product) is None
        ],
        "models without training",
    )
    # The examples, their groups and chance are those of the students on the same task.
    like = students.drop_duplicates("task").set_index("task", drop=False)
    rows = []
    for (task, name), product in products.items():
        record = bench.cache.record(product, _miss_record)
        row = like.loc[task, _OF_TASK].to_dict() | {"model": name, "identity": name, "seed": 0}
        row |= {"value": record["accuracy"], "by_head": record["heads"]}
        row |= {"scores": np.array(record["scores"]), "fingerprint": product.key}
        rows.append(row | {"embedding_fingerprint": product.inputs["vectors"]})
    return pd.concat([pd.DataFrame(rows), students], ignore_index=True)


def measure_costs(bench: Bench) -> dict[str, float]:
    """Milliseconds per held-out document on one thread, by the names of Figure B.1's models.

    All students take the same time, that of `STUDENT`, because they differ only in their weights.
    Times are stored, because a second measurement would differ.
    """
    profile, texts = bench.profile, [*bench.texts("validation")]
    inputs = {
        "student": profile.student.model_dump(mode="json"),
        "teacher": profile.structural_teacher.model_dump(mode="json"),
        "texts": hash_content(hash_items(texts)),
        "computed": [bench.device, bench.precision],
    }

    def measure() -> dict[str, float]:
        fitted = _fit_words(bench)
        student = bench.base_student().to(bench.device)
        encoders = {name: dense.list_models(profile=profile)[name].load() for name in _DENSE}
        encoders |= {TFIDF: fitted.weigh, LSA: fitted.embed}
        encoders[STUDENT] = lambda part: student.encode(part, precision=bench.precision)
        times = untrained.measure_milliseconds(encoders, texts)
        both = {BOTH: times[BASE] + times[LSA], CLASSIFIER: times[BASE] + times[TFIDF]}
        return times | both

    return bench.cache.record(Product("costs", inputs, (_CODE,), _PACKAGES), measure)


def tabulate_models(records: pd.DataFrame, costs: Mapping[str, float]) -> pd.DataFrame:
    """Figure B.1's data.

    Parameters
    ----------
    records : DataFrame
        As `run_table` returns them.
    costs : mapping
        As `measure_costs` returns them.

    Returns
    -------
    DataFrame
        A row for each model: model, trained (whether it is a student), score (chance-corrected,
        mean over tasks), low and high (over test texts); difference, difference_low,
        difference_high and verdict, all against `BASE`; and milliseconds.
    """
    tasks, models = task_scores(records), [*records["model"].unique()]
    table = verdicts.above_chance(tasks, models).drop(columns="passed")
    trained = ~table["model"].isin(UNTRAINED)
    table.insert(1, "trained", trained)
    evidence = from_examples(tasks, given=UNTRAINED)
    against = verdicts.compare([(name, BASE) for name in models if name != BASE], evidence)
    against = against.rename(columns={"low": "difference_low", "high": "difference_high"})
    columns = ["difference", "difference_low", "difference_high", "verdict"]
    table = table.join(against.set_index("left")[columns], on="model")
    table["milliseconds"] = [
        costs[STUDENT if row.trained else row.model] for row in table.itertuples()
    ]
    return table


def describe_model(data: pd.DataFrame, name: str) -> str:
    """A clause on how a model of `tabulate_models` compares with the base, and its cost."""
    row = data.set_index("model").loc[name]
    against = {"difference": row["difference"], "verdict": row["verdict"]}
    against |= {"low": row["difference_low"], "high": row["difference_high"]}
    time = words.rounded(row["milliseconds"])
    return f"{words.comparison(name, BASE, against)}, at {time} ms a document"


def keep_record(
    cache: Cache, product: Product, name: str, vectors: Any, examples: Examples
) -> None:
    """The job that judges an untrained model on a task, unless the cache has its record."""
    cache.record(product, lambda: untrained.judge_model(name, vectors, examples))


def add_vectors(cache: Cache, profile: Profile, name: str, texts: Sequence[str]) -> None:
    """The job that embeds the texts that the cache lacks, with a dense model of the table."""
    model = dense.list_models(profile=profile)[name]
    cache.rows(model.table, texts, model.make_rows)


def _embed_untrained(bench: Bench, examples: Mapping[str, Examples]) -> dict[str, dict[str, Any]]:
    """Task -> vectors of its texts by each of `UNTRAINED`."""
    held_out = [*bench.texts("validation")]
    texts = list(dict.fromkeys(text for part in examples.values() for text in part.texts))
    models = {name: dense.list_models(profile=bench.profile)[name] for name in _DENSE}
    bench.run_jobs(
        [
            (add_vectors, (bench.cache, bench.profile, name, [*texts, *held_out]))
            for name, model in models.items()
            if not bench.cache.has_rows(model.table, [*texts, *held_out])
        ],
        "vectors without training",
    )

    def read(part: Sequence[str]) -> dict[str, np.ndarray]:
        return {
            name: bench.cache.rows(model.table, part, model.make_rows)["vectors"][:]
            for name, model in models.items()
        }

    fitted, means = _fit_words(bench), read(held_out)
    return {
        task: untrained.combine_models(part.texts, read(part.texts), means, fitted)
        for task, part in examples.items()
    }


def _fit_words(bench: Bench) -> untrained.Words:
    read = bench.first_texts(bench.profile.contextual_teacher.documents)
    return bench.remember(
        ["words of the table", hash_content(read.names)], lambda: untrained.fit_words(read)
    )


def _name_record(name: str, vectors: Any, examples: Examples) -> Product:
    """The product that holds how well a model's vectors classify a task's examples."""
    parts = [
        each
        for part in (vectors if isinstance(vectors, tuple) else (vectors,))
        for each in ((part.data, part.indices, part.indptr) if hasattr(part, "tocsr") else (part,))
    ]
    folds = [rows for fold in examples.parts for rows in fold]
    inputs = {
        "model": name,
        "vectors": hash_content(*parts),
        "examples": hash_content(examples.inputs, examples.labels, *folds),
    }
    return Product("record", inputs, (_CODE,), _PACKAGES, f"{examples.task}: {name}")


def _assign_seeds(bench: Bench) -> dict[str, list[int]]:
    """The seeds of each model. Students are compared singly, so all have the reference seeds."""
    identities = [identity for name, identity in list_ingredients().items() if name != START]
    return chapter4.assign_seeds(bench, identities)


def _miss_record() -> Any:
    raise LookupError("a stored record vanished while it was being read: run again")
