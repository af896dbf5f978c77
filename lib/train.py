"""Train one student and keep it: `python -m lib.train MSE --data my_texts --out students/mine`.

With `--data`, sizes follow from the documents, and a table tells how good the student is. With
`--profile`, `torchrun --nproc_per_node 2 -m lib.train ...` spreads batches over all processes
(docs/scale.md). A failure is reported in one line, with exit code 1 (2 for a bad request).
Everything that was computed is kept, so the same command continues from there.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from tqdm import tqdm

    from lib.config import environment, profiles, versions
    from lib.config.console import escape_unprintable, name_command
    from lib.distillation import variants
    from lib.jobs import WorkerError
    from lib.teachers import labels
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"{missing}: run ./run_all.sh --setup once, then . .venv/bin/activate"
    ) from None

if TYPE_CHECKING:
    import pandas as pd

    from lib.experiments.bench import Bench
    from lib.experiments.students import TrainedStudent

NAMES = {  # of the table's models, the simplest first
    "Longformer": "base",
    "SBERT": "teacher, cut",
    "SBERT, mean of chunks": "teacher, chunks",
    "TF-IDF": "TF-IDF",
}
TOKENS_PER_WORD = 1.35
IS_MAIN = os.environ.get("RANK", "0") == "0"  # whether this process prints and saves
NO_TRAINING = """No training: in our trials no student of a few hundred documents was better than
models that need none (docs/own_documents.md). Compare such models on your texts:

    python -m lib.embed my_texts

To train a student anyway, name its losses, such as MSE:

    python -m lib.train MSE --data my_texts --out students/mine --export"""


def main(arguments: list[str] | None = None) -> None:
    escape_unprintable()
    told = "Train one student and save it."
    parser = argparse.ArgumentParser(prog=name_command("lib.train"), description=told)
    add = parser.add_argument
    add("model", nargs="?", help="losses: max-margin;MSE;γ=1.0, or cosine;100d;S:768x100;C:-")
    add("--data", type=Path, help="a dataset folder, or a folder of them")
    add("--task", nargs="*", metavar="folder/task", help="to judge by; default: all of --data")
    add("--profile", help="default: mini, or lab with --data")
    add("--seed", type=int, default=0, help="default: 0")
    add("--set", nargs="*", default=[], metavar="key=value", help="settings to change")
    add("--out", type=Path, help="folder for the trained student")
    add("--export", action="store_true", help="save as a stock SentenceTransformer")
    given = parser.parse_args(arguments)
    if given.model is None:
        print(NO_TRAINING)
        return
    if given.out is None:
        parser.error("the following arguments are required: --out")
    code, problem = _run(given)
    if code:
        parser.exit(code, " ".join(f"{parser.prog}: {problem}".split()) + "\n")


def _run(given: argparse.Namespace) -> tuple[int, str]:
    """Exit code and, if it is not 0, what went wrong."""
    code = 2
    try:
        variant = variants.parse(given.model)
        if variant.kind != "student" or variant.pooling != "mean":
            raise ValueError(f"{given.model!r} cannot be saved as a student; expected a loss")
        environment.set_process_environment(offline=False)  # before NumPy is imported
        from lib.store import check_target

        out = check_target(given.out, "student")  # now, not after hours of training
        changes = _suggest_changes(given.data.resolve(), given.task) if given.data else []
        name = given.profile or ("lab" if given.data else "mini")
        profile = profiles.load(name, overrides=changes + given.set, seeds=[given.seed])
        environment.set_process_environment(offline=profile.offline)
        from lib.experiments.bench import Bench

        bench = Bench(profile)
        bench.check_data()
        code = 1
        _train(bench, variant, given, out)
        return 0, ""
    except KeyboardInterrupt:
        return 1, "interrupted; the same command continues from what was kept"
    except (ValueError, OSError, ArithmeticError, ImportError, MemoryError, WorkerError) as error:
        return code, str(error) or type(error).__name__
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        remedy = "set training.gradient_checkpointing=true or lower training.batch_size"
        return code, f"out of memory; {remedy}: {error}"


def _suggest_changes(folder: Path, tasks: list[str] | None) -> list[str]:
    """Changes to the profile for the user's documents. Prints them, and the notes of the check."""
    from lib.data import check
    from lib.experiments.devices import has_bfloat16

    changes, summary = check.suggested(folder, tasks)
    os.environ.pop("THESIS_DATA", None)  # --data replaces it
    precision = "bf16" if has_bfloat16() else "fp32"
    notes = [line for line in check.findings(folder, tasks) if ": note: " in line]
    print(*notes, f"suggested: {summary}, {precision}", sep="\n", flush=True)
    changes["training.precision"] = precision
    return [f"{key}={json.dumps(value)}" for key, value in changes.items()]


def _train(bench: Bench, variant: variants.Variant, given: argparse.Namespace, out: Path) -> None:
    from lib.experiments.devices import count_ranks
    from lib.vectors.comparison import format_table

    count = count_ranks()  # refuses incomplete launcher variables before any work
    model = bench.model(variant, given.seed)
    if IS_MAIN:
        print("reading the corpus and the teachers' embeddings; missing ones are computed")
        bench.embed([model], [])  # what the student learns from
    _make_student(model, alone=count == 1)
    if not IS_MAIN:
        return
    failed = None
    card = _write_card(bench, model, bool(given.data), count)
    if given.data:
        print("trained; now comparing it with base, teacher and TF-IDF", flush=True)
        try:
            table, lines = compare_student(bench, model)
            cells = format_table(table)
            print(cells.to_string(index=False), *lines, sep="\n")
            card |= {"scores": cells.to_dict("records"), "verdict": lines}
        except Exception as error:  # the student is saved all the same
            failed = error
    if given.export:
        model.loaded.export(out, card)
    else:
        model.loaded.save(out)
    training = card["training"]
    print(f"saved to {out}: {training['updates']} updates, loss {training['loss']}")
    if failed:
        raise failed


def _make_student(model: TrainedStudent, *, alone: bool) -> None:
    """Train the student, with a progress bar, unless the store has it."""
    store, total = model.store, model.updates
    with tqdm(desc="training", total=total, unit="update", disable=not IS_MAIN) as bar:

        def advance(update: Any) -> None:
            if not bar.n:  # a resumed training does not begin at 0
                bar.n = bar.initial = update.number - 1
            bar.set_postfix_str(f"loss {update.loss:.4f}", refresh=False)
            bar.update()

        if alone:
            model.get_weights([advance])
        elif not store.has(model.weights):
            # Processes wait for each other in every update, so none may wait for a lock.
            arrays = model.train([advance], store.path(model.weights, ".checkpoint"))
            if IS_MAIN:
                store.get(model.weights, lambda: arrays)
                model.get_weights()  # which removes the checkpoint
        bar.n = total


def compare_student(bench: Bench, student: TrainedStudent) -> tuple[pd.DataFrame, list[str]]:
    """Compare a student with its base, its teacher, the mean of the teacher's chunks and TF-IDF.

    Measures are the MRR with which halves of held-out documents find each other, which needs no
    labels; accuracies by the readout "compare", which converges on few examples; MAP and MRR.

    Returns a table as by `comparison.make_table`, and lines on it and on what could not be judged.
    The last one recommends the simplest model that cannot be distinguished from the best, on
    measures with some model above guessing. Raises `ValueError` if there is no measure.
    """
    from lib.vectors import comparison, measures

    own, judged = f"student ({student.variant})", bench.with_readout("compare")
    names = {**NAMES, student.variant.identity: own}
    frames, lines = [], ["One seed: the intervals account for other texts, not for other seeds."]
    for task in (measures.HALVES, *bench.classifications, *bench.retrievals):
        options = {"seeds": [student.seed], "tasks": [task]}
        try:
            if task == measures.HALVES:
                rows = _judge_halves(bench, student.seed, [*names])
            elif task in bench.classifications:
                rows = judged.run([*names], split="test", **options)
            else:
                rows = bench.retrieve([*names], **options)
        except ValueError as error:  # only this measure is lost
            lines.append(f"{task} could not be judged: {' '.join(str(error).split())}")
            continue
        if missing := [names[each] for each in names if each not in {*rows["model"]}]:
            lines.append(f"{task}: there are no words for {missing[0]}")
        counts = rows["queries"] if "queries" in rows else rows["scores"].map(len)
        rows = rows.assign(model=rows["model"].map(names), examples=counts)
        frames += [frame for _, frame in rows.groupby(["task", "metric"], sort=False)]
    if not frames:
        raise ValueError("; ".join(lines[1:]))
    table = comparison.make_table(frames)
    for _, row in table[table["model"] == own].iterrows():
        lines.append(f"{row['measure']}: the student is {row['than_base']} the base, its start")
    tables = [rows for _, rows in table.groupby("measure", sort=False)]
    told = [each for each, rows in zip(frames, tables, strict=True) if comparison.is_told(rows)]
    simplest = ["base", "teacher, cut", "teacher, chunks", own]
    best = comparison.choose_model(told, None, simplest).model if told else "base"
    advice = f"Over all measures: use {best} (docs/own_documents.md has the code)"
    return table, [*lines, *comparison.describe_table(table), advice]


def _judge_halves(bench: Bench, seed: int, names: list[str]) -> pd.DataFrame:
    """Judge models by the halves of documents that no training has read."""
    from lib.vectors import measures

    documents = {each.text: each.group or each.id for each in bench.corpus.validation}
    for task in bench.tasks.values():
        documents |= {task.texts[i]: task.groups.get(i, i) for i in sorted(task.held_out())}
    texts, groups = [*documents], [*documents.values()]
    models = {name: bench.model(name, seed) for name in names}
    halves = measures.draw_halves(texts, TOKENS_PER_WORD)
    return measures.judge_halves(halves, texts, groups, models)


def _write_card(bench: Bench, model: TrainedStudent, own: bool, count: int) -> dict[str, Any]:
    """Describe a training by `count` processes; if `own`, shares are numbers of documents."""
    profile, variant, losses = bench.profile, model.variant, model.history()["loss"]
    form = "{:g} documents, those held out among them" if own else "share {:g} of the documents"
    data = {folder.folder: form.format(folder.share) for folder in profile.corpus.folders}
    updates = len(losses) // model.training.passes
    texts_read = str(updates * model.batch_size * model.training.accumulation * count)
    section, teachers = profile.structural_teacher, []
    if variant.structural:
        teachers.append(f"{Path(section.model).name}, first {section.max_tokens} tokens")
    if variant.contextual:
        most = f"first {labels.LONGEST:,} known words"
        teachers.append(f"Paragraph Vector {variant.contextual}, {most}")
    base = Path(profile.student.model)
    return {
        "title": f"{variant}, of documents from {', '.join(data)}",
        # Of a local folder only the name, because its path is private.
        "base_model": base.name if base.is_dir() else profile.student.model,
        "teachers": teachers,
        "losses": variant.losses,
        "data": data | {"texts read in training": texts_read},
        "training": {
            "updates": len(losses),
            "loss": f"{losses[0]:.4f} -> {losses[-1]:.4f}",
            "seed": model.seed,
            "batch_size": model.batch_size,
            "learning_rate": model.training.learning_rate,
            "precision": model.base.precision,
        },
        "provenance": versions.commit() | versions.versions(),
    }


if __name__ == "__main__":
    main()
