"""Where the time of a lab run goes: one student of each kind, with the profile's sizes, by stage.

    THESIS_DATA=... python tests/benchmarks/bench_lab.py     # lab, this machine
    THESIS_DATA=... python tests/benchmarks/bench_lab.py --profile lab_gpu  # the published counts
    python tests/benchmarks/bench_lab.py --profile smoke --out results.md  # checks the code
    python tests/benchmarks/bench_lab.py --profile mini --paragraph-vectors  # by words

One process and one thread, in an artifact root of its own that begins empty and is removed. What
all students share is timed once: token ids, the teacher pass (the structural teacher over all
texts), the Paragraph Vector, the base. Then for each student its training, the embedding of all
texts, and its heads on all tasks. Seconds are of the wall. Last comes this device's line of
`params/costs.yaml`, by which `./run_all.sh <profile> --dry-run` reckons: operations in a second of
training the first student and of embedding with it.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lib.config import environment

KINDS = {
    "structural, cosine": "cosine",
    "structural, max-margin": "max-margin;MSE;γ=1.0",
    "contextual": "only-contextual;100d;S:768;C:768",
    "both, plain sum": "cosine;100d;S:768;C:768;None;λ=0.5",
}
SETS = ("train", "validation", "halves", "tasks")


def timed(call: Callable, *arguments) -> float:
    """The seconds of a call."""
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


def stages(profile) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Seconds of what is shared, by stage, and of each kind of student."""
    from lib.distillation import variants
    from lib.experiments import (
        accuracies,
        contextual_teacher,
        embeddings,
        structural_teacher,
        student_training,
        text_sets,
    )
    from lib.tasks import classification_names

    tasks = classification_names(profile)
    shared = {
        "texts and token ids": sum(timed(text_sets.token_ids, name, profile) for name in SETS)
    }
    shared["teacher pass"] = sum(
        timed(structural_teacher.embeddings, name, profile) for name in SETS
    )
    shared["Paragraph Vector"] = timed(contextual_teacher.paragraph_vector, "DM;100d", profile)
    shared["base, embedded"] = timed(embeddings.of, "Longformer", 0, profile)
    start = embeddings.of("Longformer", 0, profile)["validation"]
    students = {}
    for kind, label in KINDS.items():
        variant = variants.parse(label)
        before = None if variant.contextual is None else start
        training = timed(
            student_training.train_student, variant, 0, profile, before, lambda *_: None
        )
        embedding = timed(
            embeddings.of, variant, 0, profile
        )  # goes on from the checkpoint after the last update
        heads = sum(
            timed(accuracies.evaluate, [(variant, 0)], task, profile, "validation", None)
            for task in tasks
        )
        students[kind] = {"training": training, "embedding": embedding, "heads": heads}
        print(
            kind,
            *(f"{stage} {seconds:.1f} s" for stage, seconds in students[kind].items()),
            sep=", ",
            flush=True,
        )
    return shared, students


def rate(profile, device: str, seconds: dict[str, float]) -> str:
    """The device's line of `rates` in params/costs.yaml: operations by `costs.operations`. seconds:
    of one student.
    """
    from lib.experiments import models, text_sets
    from lib.ledger import costs

    forwards, training, _ = costs.operations(profile)
    sizes = {name: text_sets.token_ids(name, profile).lengths.sum() for name in SETS}
    trained = sizes.pop("train") * training / seconds["training"]
    encoded = sum(sizes.values()) * forwards / seconds["embedding"]
    name = f"core {models.precision(profile)}" if device == "cpu" else "GPU"
    source = f"measured on {device}, bench_lab.py --profile {profile.name}"
    return f"  {name}: {{training: {trained:.2g}, encoding: {encoded:.2g}, source: '{source}'}}"


def paragraph_vectors(profile) -> str:
    """The lines of `paragraph_vectors` in params/costs.yaml: minutes of processor time for a
    million words, a straight line over the published dimensions. Trained on 1,000 documents of the
    corpus, a fifth of which
    are embedded.
    """
    import numpy as np

    from lib.experiments import text_sets
    from lib.teachers.paragraph_vector import ParagraphVector

    def minutes(call: Callable, texts: list[str]) -> float:
        begin = time.process_time()
        call(texts)
        return (time.process_time() - begin) / 60 * 1e6 / sum(len(text.split()) for text in texts)

    texts = [document.text for document in text_sets.corpus(profile).train[:1000]]
    train = functools.partial(
        ParagraphVector.train, **profile.contextual_teacher.model_dump(exclude={"documents"})
    )
    sizes, lines = (100, 768, 1024), {"training": {}, "inference": {}}
    for architecture in ("DM", "DBOW"):
        measured = []
        for size in sizes:
            model = ParagraphVector.parse(f"{architecture};{size};lowercase;2")
            measured.append(
                (minutes(functools.partial(train, model), texts), minutes(model.encode, texts[::5]))
            )
            print(architecture, size, *(f"{each:.2f}" for each in measured[-1]), flush=True)
        for step, values in zip(lines, zip(*measured, strict=True), strict=True):
            slope, fixed = np.polyfit(sizes, values, 1)
            lines[step][architecture] = [float(f"{fixed:.2g}"), float(f"{slope:.2g}")]
    return "\n".join(f"  {step}: {values}".replace("'", "") for step, values in lines.items())


def table(title: str, shared: dict[str, float], students: dict[str, dict[str, float]]) -> str:
    """Markdown: seconds, and in brackets the share of the row's sum in percent."""

    def row(name: str, seconds: dict[str, float]) -> str:
        total = sum(seconds.values())
        return " | ".join(
            [
                f"| {name}",
                *(f"{s:.1f} ({100 * s / total:.0f})" for s in seconds.values()),
                f"{total:.1f} |",
            ]
        )

    def head(name: str, columns) -> str:
        return f"| {name} | {' | '.join(columns)} | sum |\n|{'---|' * (len(columns) + 2)}"

    lines = [
        f"# {title}",
        "",
        "Seconds, and percent of the row.",
        "",
        head("once", shared),
        row("all students", shared),
    ]
    lines += [
        "",
        head("each", next(iter(students.values()))),
        *(row(*each) for each in students.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the table, and write it where `--out` says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", default="lab")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="key=value", help="changes to the profile"
    )
    parser.add_argument(
        "--paragraph-vectors", action="store_true", help="only these, by architecture and dimension"
    )
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(
        dir=os.environ.get("THESIS_ARTIFACTS"), prefix="bench-lab-"
    ) as folder:
        os.environ["THESIS_ARTIFACTS"] = folder
        environment.set_process_environment(offline=True)
        from lib.config import profiles
        from lib.experiments import models

        profile = profiles.load(options.profile, overrides=options.set)
        if options.paragraph_vectors:
            print(paragraph_vectors(profile))
            return
        device = models.device()
        if device == "cuda":
            import torch

            device = torch.cuda.get_device_name()
        title = (
            f"One student of each kind of `{' '.join([options.profile, *options.set])}`, {device}"
        )
        shared, students = stages(profile)
        text = table(title, shared, students)
        print(f"{text}\n{rate(profile, device, next(iter(students.values())))}")
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
