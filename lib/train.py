"""Train one student and keep it: `python -m lib.train MSE --data my_texts --out students/mine`.

With `--data`, sizes follow from the documents, and a table tells how good the student is
(docs/own_documents.md). With `--profile`, `torchrun --nproc_per_node 2 -m lib.train ...` spreads
batches over processes (docs/scale.md). The same command continues from what was kept.
"""

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lib.config import environment
from lib.messages import exit_in_one_line


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lib.train", description=__doc__)
    add = parser.add_argument
    add("model", help="losses: max-margin;MSE;γ=1.0, or cosine;100d;S:768x100;C:-")
    add("--data", type=Path, help="a dataset folder, or a folder of them")
    add("--task", nargs="*", action="extend", metavar="folder/task", help="to judge by; else all")
    add("--profile", help="default: mini, or lab with --data")
    add("--seed", type=int, default=0, help="default: 0")
    add("--set", nargs="*", action="extend", default=[], metavar="key=value", help="settings")
    add("--out", type=Path, required=True, help="folder for the trained student")
    add("--export", action="store_true", help="save as a stock SentenceTransformer")
    given = parser.parse_args(arguments)
    with exit_in_one_line(parser, code=1):
        environment.set_process_environment(offline=False)  # before NumPy is imported
        train(given)


def train(given: argparse.Namespace) -> None:
    """Train the student unless the store has it, judge it, and save it."""
    from tqdm import tqdm

    from lib.data import check
    from lib.distillation import variants
    from lib.experiments.bench import Bench
    from lib.store import check_target

    variant = variants.parse(given.model)
    if variant.kind != "student" or variant.pooling != "mean" or variant.cut:
        raise ValueError(f"{given.model!r} cannot be saved as a student; expected a loss")
    if "WORLD_SIZE" in os.environ and "LOCAL_RANK" not in os.environ:  # it would wait for ever
        raise ValueError("WORLD_SIZE is set without LOCAL_RANK: start processes by torchrun")
    if given.task and not given.data:
        raise ValueError("--task names a task of --data, which is missing")
    check_target(given.out, "student")  # now, not after hours of training
    changes = {}
    if given.data:
        os.environ.pop("THESIS_DATA", None)  # --data replaces it
        changes, summary = check.suggested(given.data.resolve(), given.task)
        print(f"suggested: {summary}", flush=True)
    overrides = [*(f"{key}={json.dumps(value)}" for key, value in changes.items()), *given.set]
    name = given.profile or ("lab" if given.data else "mini")
    bench = Bench.load(name, overrides=overrides, seeds=[given.seed])
    environment.set_process_environment(offline=bench.profile.offline)
    model = bench.model(variant, given.seed)
    if os.environ.get("RANK", "0") != "0":  # another process prints and saves
        if not model.store.has(model.weights):
            model.train()  # without the store's lock, as all processes take part in every update
        return
    with tqdm(desc="training", total=model.updates, unit="update") as bar:
        losses = model.outcome([lambda number, loss: bar.update(number - bar.n)])["loss"]
    base, told = bench.profile.student.model, f"{losses[0]:.4f} -> {losses[-1]:.4f}"
    facts = {"seed": given.seed, "updates": len(losses), "loss": told}
    card = {
        "title": f"{variant.identity}, of documents from {', '.join(bench.profile.corpus.names)}",
        "base_model": Path(base).name if Path(base).is_dir() else base,  # no private path
        "teachers": [each.product.label for each in (model.structural, model.contextual) if each],
        "losses": variant.losses,
        "training": model.settings.model_dump(mode="json") | facts,
        "provenance": environment.commit() | environment.versions(),
    }
    if given.data:  # judge it as `lib.embed` does, on texts that no training has read
        card |= compare_student(bench, model)
    save = partial(model.loaded.export, card=card) if given.export else model.loaded.save
    save(given.out)
    print(f"saved to {given.out}: loss {told}")


def compare_student(bench: Any, student: Any) -> dict[str, Any]:
    """Print how good a student is beside models that need no training; `scores` and `verdict`."""
    import numpy as np

    from lib.data.dataset_folder import content
    from lib.experiments.models import Centred
    from lib.teachers.rows import SIZE
    from lib.vectors import BASE, CHUNKS, CUT, STUDENT, TFIDF
    from lib.vectors.judging import Pool, compare_models, draw_sample, judge_all

    models = {BASE: bench.base, CUT: bench.teacher, STUDENT: student}
    models |= {CHUNKS: replace(bench.teacher, chunk=SIZE + 2), TFIDF: bench.model("TF-IDF")}

    def make_models(texts: Sequence[str]) -> dict[str, Any]:
        every = draw_sample(np.array([*texts, *student.documents], dtype=object))
        return models | {CHUNKS: Centred(bench.store, models[CHUNKS], every)}

    held_out = [(each.text, each.group) for each in bench.corpus.validation]
    for task in bench.tasks.values():
        held_out += [(task.texts[i], task.groups.get(i, "")) for i in sorted(task.held_out())]
    texts, groups = zip(*held_out, strict=True)
    pool = Pool(np.array(texts, dtype=object), np.array([*map(content, texts)], np.uint64), groups)
    read = student.documents.documents
    trained = read.table["group"].to_numpy()[read.rows]
    if mates := np.isin(trained, [*{*groups} - {""}]).sum():
        print(f"note: {mates} training documents share groups with judged texts: scores too high")
    report = compare_models(judge_all(pool, bench.tasks, make_models))
    print(report["line"])
    return {"scores": report["table"], "verdict": report["line"]}


if __name__ == "__main__":
    main()
