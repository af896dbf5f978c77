"""Train one student and keep it: `python -m lib.train MSE --data my_texts --out students/mine`.

Nothing is trained unless losses are named, because none were found that make a student of a few
hundred documents better than models that need no training (docs/log/2026-11-recipes.md).

With `--data`, sizes follow from the documents, and a table tells how good the student is. With
`--profile`, `torchrun --nproc_per_node 2 -m lib.train ...` spreads batches over all processes
(docs/scale.md). A failure is reported in one line, with exit code 1 (2 for a bad request).
Everything that was computed is kept, so the same command continues from there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from tqdm import tqdm

    from lib.config import environment, paths, profiles
    from lib.config.terminal import escape_unprintable, name_command
    from lib.distillation import variants
    from lib.store import provenance
    from lib.store.owned_folder import check_target
    from lib.teachers import labels
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"{missing}: run ./run_all.sh --setup once, then . .venv/bin/activate"
    ) from None

if TYPE_CHECKING:
    from lib.experiments import Bench
    from lib.experiments.students import Lesson

IS_MAIN = os.environ.get("RANK", "0") == "0"  # whether this process prints and saves
NO_TRAINING = """No training: in our trials no student of a few hundred documents was better than
models that need none (docs/own_documents.md). Compare such models on your texts:

    python -m lib.embed my_texts

To train a student anyway, name its losses, such as MSE:

    python -m lib.train MSE --data my_texts --out students/mine --export"""
_LOST_PROCESS = re.compile("memory|gloo|nccl|connection|socket|clients", re.IGNORECASE)


def main(arguments: list[str] | None = None) -> None:
    escape_unprintable()
    parser = argparse.ArgumentParser(
        prog=name_command("lib.train"), description="Train one student and save it."
    )
    parser.add_argument(
        "model",
        nargs="?",
        help="its losses, for example cosine, max-margin;MSE;γ=1.0, or, with two teachers, "
        "cosine;100d;S:768x100;C:-",
    )
    parser.add_argument("--data", type=Path, help="a dataset folder, or a folder of them")
    parser.add_argument(
        "--task", nargs="*", metavar="folder/task", help="tasks of --data to judge by; default: all"
    )
    parser.add_argument("--profile", help="default: mini, or lab with --data")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument(
        "--set",
        nargs="*",
        default=[],
        metavar="key=value",
        help="settings of the profile to change",
    )
    parser.add_argument("--out", type=Path, help="folder for the trained student")
    parser.add_argument("--export", action="store_true", help="save as a stock SentenceTransformer")
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
        variant = _parse_model(given.model)
        out = _check_out(given.out)
        environment.set_process_environment(offline=False)  # before NumPy is imported
        changes = _suggest_changes(given, out) if given.data else []
        name = given.profile or ("lab" if given.data else "mini")
        profile = profiles.load(name, overrides=changes + given.set, seeds=[given.seed])
        environment.set_process_environment(offline=profile.offline)
        from lib.experiments import Bench

        bench = Bench(profile)
        bench.check_data()
        code = 1
        _train(bench, variant, given, out)
        return 0, ""
    except KeyboardInterrupt:
        return 1, "interrupted; the same command continues from what was kept"
    except (ValueError, OSError, ArithmeticError, MemoryError, ImportError) as error:
        problem = str(error) or type(error).__name__
        if str(paths.artifacts()) in problem:
            problem += "; set THESIS_ARTIFACTS to keep results in another folder"
        return code, problem
    except RuntimeError as error:
        if not _LOST_PROCESS.search(str(error)):
            raise
        if "memory" in str(error):
            remedy = "set training.gradient_checkpointing=true or lower training.batch_size"
            return code, f"out of memory; {remedy}: {error}"
        return code, f"a process of this training has ended; run the same command again: {error}"


def _parse_model(label: str) -> variants.Variant:
    try:
        variant = variants.parse(label)
    except ValueError:
        raise profiles.make_unknown_error("model", label, variants.STRUCTURAL_LOSSES) from None
    if variant.kind != "student" or variant.pooling != "mean":
        raise ValueError(f"{label!r} cannot be saved as a student; expected a loss such as cosine")
    return variant


def _check_out(folder: Path) -> Path:
    """Check the folder to write now, not after hours of training."""
    out = check_target(folder)
    if paths.is_kept(out.resolve()):
        raise ValueError(f"{out} is where the store and data are kept; choose another folder")
    return out


def _suggest_changes(given: argparse.Namespace, out: Path) -> list[str]:
    """Changes to the profile for the user's documents. Prints them, and the notes of the check."""
    from lib.data import check
    from lib.experiments import models
    from lib.store.files import check_room

    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError(
            "--data trains in one process; for several, write a profile and name it with --profile"
        )
    folder = given.data.resolve()
    changes, summary, size = check.suggested(folder, given.task)
    for place in (paths.artifacts(), out.parent):
        check_room(place, size)
    os.environ.pop("THESIS_DATA", None)  # --data replaces it
    changes["training.precision"] = "bf16" if models.has_bfloat16() else "fp32"
    lines = [*check.findings(folder, given.task)]
    if wrong := [line for line in lines if ": error: " in line]:
        raise ValueError(f"{wrong[0]}; fix it, or judge by other tasks (`--task <names>`)")
    notes = [line for line in lines if ": note: " in line]
    print(*notes, f"suggested: {summary}, {changes['training.precision']}", sep="\n", flush=True)
    return [f"{key}={json.dumps(value)}" for key, value in changes.items()]


def _train(bench: Bench, variant: variants.Variant, given: argparse.Namespace, out: Path) -> None:
    from lib.experiments import models

    count = models.count_processes()  # refuses incomplete launcher variables before any work
    if IS_MAIN:
        print(
            "reading the corpus and the teachers' embeddings; missing embeddings are computed",
            flush=True,
        )
    if IS_MAIN and count > 1:
        place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        print(f"training begins when all {count} processes have connected to {place}", flush=True)
    lesson = bench.lesson(variant, given.seed)
    if IS_MAIN:
        print(_describe_documents(bench, lesson), flush=True)
    student, losses = _make_student(bench, lesson, variant, given.seed)
    if not IS_MAIN:
        return
    card, failed = _write_card(bench, lesson, student, losses, own=bool(given.data)), None
    if given.data:
        print("trained; now comparing it with base, teacher and TF-IDF", flush=True)
        try:
            card |= _judge(bench, student, variant, given.seed)
        except Exception as error:  # the student is saved all the same
            failed = error
    if given.export:
        student.export(out, card=card)
    else:
        student.save(out)
    print(f"saved to {out}: {len(losses)} updates, loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    if failed:
        raise failed


def _make_student(
    bench: Bench, lesson: Lesson, variant: variants.Variant, seed: int
) -> tuple[Any, list[float]]:
    """Train the student, with a progress bar, or read a stored one; returns it with its losses."""
    from lib.experiments import models, products, students

    product = bench.student_product(variant, seed)
    total = lesson.training.passes * sum(len(ids) for ids in lesson.documents.token_ids)
    options = {"unit": "token", "unit_scale": True, "disable": not IS_MAIN, "mininterval": 1}
    with tqdm(desc="training", total=total, **options) as bar:

        def advance(update: Any) -> None:
            if not bar.n:  # a resumed training does not begin at 0
                bar.n = bar.initial = total * (update.number - 1) // update.count
            bar.set_postfix_str(f"loss {update.loss:.4f}", refresh=False)
            bar.update(total * update.number // update.count - bar.n)

        if models.count_processes() > 1:  # they wait for each other, so none may wait for a lock
            checkpoint = bench.cache.scratch(product, ".checkpoint")
            student, losses, _ = students.train_student(
                lesson, checkpoint=checkpoint, callbacks=[advance]
            )
            return student, losses
        weights = products.train_or_read_student(
            bench.cache, product, lesson, [advance], resumable=True
        )
        bar.n = total
    student = models.unpack_weights(students.build_student(lesson), weights)
    note = bench.cache.find(product) or {}
    return student.to(models.find_device()), note["loss"]


def _describe_documents(bench: Bench, lesson: Lesson) -> str:
    """A line on which of the user's documents are left out or cut."""
    lengths, profile = lesson.documents.lengths, bench.profile
    reasons = [
        f"{name}: {count} {reason}"
        for name, counts in bench.corpus.left_out.items()
        for reason, count in counts.items()
        if count
    ]
    for name, task in bench.tasks.items():
        reasons += [f"{name}: {note}" for note in task.notes if "left out" in note]
    if rest := len(lengths) - _count_read(lesson):
        reasons.append(f"{rest} that fill no batch")
    limits = {
        "student": profile.student.max_positions,
        "teacher": profile.structural_teacher.max_tokens,
    }
    cut = [
        f"{(lengths > limit - 2).sum()} at the {name}'s {limit} tokens"
        for name, limit in limits.items()
    ]
    left_out = ", ".join(reasons) or "nothing"
    told = f"left out: {left_out}; of {len(lengths)} documents are cut {' and '.join(cut)}"
    if lesson.variant.contextual:
        parts = str(lesson.variant.contextual).split("+")
        facts = max(map(bench.paragraph_vector, parts), key=itemgetter("truncated"))
        read = f"; of the {facts['documents']} that Paragraph Vector was trained on"
        told += f"{read} are cut {facts['truncated']} at {labels.LONGEST:,} known words"
    return told


def _count_read(lesson: Lesson) -> int:
    """How many documents fill whole updates."""
    from lib.experiments import models

    per_update = lesson.batch_size * lesson.training.accumulation * models.count_processes()
    return len(lesson.documents.token_ids) // per_update * per_update


def _judge(bench: Bench, student: Any, variant: variants.Variant, seed: int) -> dict[str, Any]:
    """Compare the student with base, teacher and TF-IDF; prints it, and returns it for the card."""
    from lib.ledger import own_student

    cells, sentences = own_student.describe_comparison(
        *own_student.compare_student(student, variant, seed, bench)
    )
    print(cells.to_string(index=False), *sentences, sep="\n")
    return {"scores": cells.to_dict("records"), "verdict": sentences}


def _write_card(
    bench: Bench, lesson: Lesson, student: Any, losses: list[float], *, own: bool
) -> dict[str, Any]:
    """The model card's description of a training.

    `own` means that shares of the profile's folders are numbers of documents.
    """
    from transformers import AutoConfig

    from lib.experiments import models

    profile, variant = bench.profile, lesson.variant
    form = "{:g} documents, those held out among them" if own else "share {:g} of the documents"
    data: dict[str, Any] = {
        folder.folder: form.format(folder.share) for folder in profile.corpus.folders
    }
    title = f"{variant}, of documents from {', '.join(data)}"
    data["texts read in training"] = _count_read(lesson)
    section, teacher = profile.student, profile.structural_teacher
    folder = Path(section.model)
    base = AutoConfig.from_pretrained(
        models.find_model(section.model), revision=section.revision, trust_remote_code=False
    )
    teachers = []
    if variant.structural:
        teachers.append(f"{Path(teacher.model).name}, first {teacher.max_tokens} tokens")
    if variant.contextual:
        most = f"first {labels.LONGEST:,} known words"
        teachers.append(f"Paragraph Vector {variant.contextual}, {most}")
    layers = student.config.num_hidden_layers
    return {
        "title": title,
        # Of a local folder only the name, because its path is private.
        "base_model": folder.name if folder.is_dir() else section.model,
        "teachers": teachers,
        "losses": variant.losses,
        "data": data,
        "training": {
            "updates": len(losses),
            "loss": f"{losses[0]:.4f} -> {losses[-1]:.4f}",
            "seed": lesson.seed,
            "batch_size": lesson.batch_size,
            "learning_rate": lesson.training.learning_rate,
            "precision": lesson.precision,
            "layers": f"{layers} of the base's {base.num_hidden_layers}",
        },
        "provenance": provenance.commit() | provenance.versions(),
    }


if __name__ == "__main__":
    main()
