"""What a run costs from nothing: the models that its labels ask for, their tokens, operations and bytes, and hours by
the rates of `params/costs.yaml`. Heads, drawing and the news chapter are left out."""

import shutil
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from lib.chapters import chapter4, contextual, final_students, sensitivity, teacher_distances
from lib.config import paths
from lib.config.profiles import Profile, read_yaml
from lib.distillation.variants import CONTEXTUAL_TEACHERS, NO_WEIGHTING, Variant, parse
from lib.experiments import contextual_teacher, keys, runs
from lib.experiments.models import precision
from lib.experiments.student_training import WATCHED_PARTS
from lib.published import CHAPTER_4, figure_models, load

FACTS = read_yaml("costs.yaml")
_BOXES = {"tab_heads": ["fig4_3"], "tab4_5": ["fig4_5"], "tab4_10": [*figure_models.WEIGHTINGS]}
_BOXES |= {label: [label] for label in CHAPTER_4}
_WATCHED = {
    "figA_2": [*figure_models.PROJECTIONS],
    "figA_3": ["fig4_8", "fig4_9", *figure_models.WEIGHTINGS],
}
_FINAL = {"tab5_7", "fig5_3", "fig5_4", "fig5_5", "fig5_6"}
_TEACH = {part for teacher in CONTEXTUAL_TEACHERS.values() for part in teacher.split("+")}


class Stage(NamedTuple):
    """Models with their seeds, and the profile and the split that they are trained and evaluated with."""

    profile: Profile
    split: str | None
    pairs: set[runs.Pair]


def asked(labels: Collection[str], profile: Profile) -> list[Stage]:
    """What the notebooks train or embed for the labels: Chapter 4, the longer trainings of Figure A.4, Chapter 5."""
    noise, first = profile.reference_seeds, Stage(profile, "validation", set())
    stages = {profile.training.documents: first}

    def want(models: Iterable[str | Variant], seeds: runs.Seeds, stage: Stage = first) -> None:
        for model, seed in runs.models_and_seeds(models, seeds, stage.profile):
            stage.pairs.add((model, seed if model.kind in ("student", "paragraph_vector") else 0))

    for label in labels:
        for box in _BOXES.get(label, ()):
            want(
                [*chapter4.models(box, profile).values(), *chapter4.references(box)],
                chapter4.seeds(profile),
            )
        for box in _WATCHED.get(label, ()):
            shown = chapter4.students(chapter4.models(box, profile), contextual=True)
            want(shown.values(), profile.seeds[:1])
    if "fig4_7" in labels:  # whose students have twins (testability)
        stages[-1] = Stage(profile.changed("training", contextual_rows="dealt"), None, set())
        twins = chapter4.students(chapter4.models("fig4_7", profile), contextual=True)
        want(twins.values(), profile.seeds[:1], stages[-1])
    if "fig4_4" in labels:
        want(teacher_distances.models(), profile.seeds)
    if "figA_1" in labels:
        want(contextual.DRAFTS, noise)
    if "figA_3" in labels:
        plain = NO_WEIGHTING.values()
        want(
            [
                f"{name};None;λ={lam}"
                for name in plain
                for lam in contextual.TRAINED_FACTORS.values()
            ],
            noise[:1],
        )
        want([Variant("student", structural=parse(name).structural) for name in plain], noise[:2])
    for own in sensitivity.longer(profile).values() if "figA_4" in labels else ():
        stage = stages.setdefault(own.training.documents, Stage(own, "validation", set()))
        want([*sensitivity.STUDENTS.values()][: profile.max_variants], noise[:3], stage)
    if not _FINAL.isdisjoint(labels):
        stages[0] = Stage(final_students.final_profile(profile), "test", set())
        want(final_students.MODELS.values(), final_students.seeds(profile), stages[0])
    return [stage for stage in stages.values() if stage.pairs]


def train(label: str, profile: Profile) -> None:
    """What `asked` has for a label: teachers, students and, where tasks judge them, their heads."""
    for own, split, asked_for in asked([label], profile):
        pairs, seeds = sorted(asked_for, key=str), dict[str, list[int]]()
        for variant, seed in pairs:
            seeds.setdefault(variant.identity, []).append(seed)
        limits = profile.final.rounds.values() if split == "test" else [None]
        if split is None:
            runs.embed(pairs, own, None, split)
        for limit in limits if split else ():
            runs.run(seeds, profile=own, seeds=seeds, split=split, limit=limit)


def document(profile: Profile, limit: float) -> float:
    """Mean tokens of a document of the corpus, of each at most `limit`."""
    if facts := FACTS["profiles"][profile.name].get("document"):
        return float(
            min(facts["whole"] if limit > profile.student.max_positions else facts["read"], limit)
        )
    bins = load("fig4_1").query("split == 'train'")
    return float(
        np.average(
            (bins[["bin_lo", "bin_hi"]].mean(axis=1)).clip(upper=limit), weights=bins["percent"]
        )
    )


def task_texts(profile: Profile, split: str | None, limit: float) -> tuple[float, float, float]:
    """How many texts of tasks models embed for a split, their tokens, of each at most `limit`, and how many are longer.

    Of pairs both texts count, as if no other had them; a validation split is as large as the test's. None: none."""
    if split is None:
        return 0, 0, 0
    if facts := FACTS["profiles"][profile.name].get(keys.task_set(split)):
        return facts["texts"], min(facts["tokens"], facts["texts"] * limit), facts["long"]
    sizes = load("tab5_4").set_index(["task", "split"])["documents"].to_dict()
    whole = load("tab5_5").set_index("task")["documents"].to_dict()
    inputs, sums = load("tab5_3").set_index("task")["inputs"], np.zeros(3)
    for (task, part), curve in load("fig5_2").groupby(["task", "split"]):
        if (folder := profile.tasks.folders.get(task)) is None:
            continue
        counts = [whole[task]] * (part == split) if task in whole else [sizes[task, part]]
        if task not in whole and part == "test":
            counts *= (folder.folds is None) + (split == "test")
        kept = [
            min(count, profile.tasks.limit) if split == "validation" else count for count in counts
        ]
        number = sum(kept) * (2 if inputs.get(task) == "pairs of documents" else 1)
        shares = np.diff(curve["proportion"], prepend=0, append=1)
        lengths = np.append(curve["tokens"], curve["tokens"].iloc[-1])
        sums += number * np.array([1, shares @ lengths.clip(max=limit), shares @ (lengths > limit)])
    return sums[0], sums[1], sums[2]


def operations(profile: Profile) -> tuple[float, float, float]:
    """Multiplications and additions for a token: of the student forwards and in training, and of the teacher.

    Forwards a layer takes 24 squares of its width, and 4 widths for each token of the window."""
    student, teacher, models = profile.student, profile.structural_teacher, FACTS["models"]
    shapes = [(student.layers, models[student.model], student.window)]
    shapes += [(None, models[teacher.model], teacher.max_tokens)]
    forwards, taught = (
        len(layers or range(model["layers"])) * model["width"] * (24 * model["width"] + 4 * window)
        for layers, model, window in shapes
    )
    return forwards, forwards * (4 if profile.training.gradient_checkpointing else 3), taught


def paragraph_vectors(
    stages: Iterable[Stage], profile: Profile
) -> tuple[list[float], float, float]:
    """Of those that stages ask for: their dimensions, minutes of a core to train and embed, numbers that they store."""
    texts: dict[
        tuple[str, int], dict[str, tuple[float, float]]
    ] = {}  # (label, seed): {set: texts and their tokens}
    for own, split, pairs in stages:
        whole, tasks = (task_texts(own, each, np.inf)[:2] for each in ("test", split))
        documents = {
            "train": contextual_teacher.embedded_documents(own),
            "held out": own.corpus.validation_documents,
        }
        shared = {
            f"{name} {count}": (count, count * document(own, np.inf))
            for name, count in documents.items()
        }
        for model, seed in pairs:
            seed = own.contextual_teacher.seed + seed * (model.kind == "paragraph_vector")
            for part in model.contextual.split("+") if model.contextual else ():
                sets = texts.setdefault((part, seed), {})
                sets |= shared | {"test": whole} if part in _TEACH else {split: tasks}
                if model.kind == "paragraph_vector":
                    sets |= {f"{split}, as a model's": (tasks[0], 0)}
    read = (profile.contextual_teacher.documents or profile.corpus.train_documents) * document(
        profile, np.inf
    )
    sizes, minutes, numbers = list[float](), 0.0, 0.0
    for (part, _), sets in texts.items():
        architecture, size = part.split(";")[0], int(part.split(";")[1]) * profile.width
        rows, tokens = np.sum([*sets.values()], axis=0)
        for step, count in (("training", read), ("inference", tokens)):
            fixed, slope = FACTS["paragraph_vectors"][step][architecture]
            minutes += count * FACTS["words_per_token"] / 1e6 * (fixed + slope * size)
        numbers += rows * size
        sizes.append(size)
    return sizes, minutes * profile.contextual_teacher.epochs / 10, numbers


def encoders(stages: Iterable[Stage]) -> tuple[float, float, float, float]:
    """Tokens that students are trained on, that they and the base embed, and the teacher; numbers that all store."""
    trained = read = taught = numbers = 0.0
    for own, split, pairs in stages:
        positions, limit, models = (
            own.student.max_positions,
            own.structural_teacher.max_tokens,
            FACTS["models"],
        )
        count, held, length = (
            own.training.documents,
            own.corpus.validation_documents,
            document(own, positions),
        )
        texts, tokens, _ = task_texts(own, split, positions)
        _, short, long = task_texts(own, split, limit)
        students, tests = (
            _students(pairs),
            split == "test",
        )  # which embeds long texts once more, cut
        controls = split is None  # which have no halves and are not watched on the way
        trained += len(students) * count * length
        read += (len(students) + 1) * (
            tokens + (2 - controls) * held * length + tests * long * limit
        )
        watched = sum(model.contextual is not None for model in students) * (not controls)
        read += (WATCHED_PARTS - 1) * held * length * watched
        taught += (count + 2 * held) * document(own, limit) + short
        taught += tokens * sum(model.kind == "sbert_chunks" for model, _ in pairs)
        numbers += (count + 2 * held) * length + tokens  # token ids
        numbers += (
            (len(students) + 1)
            * (3 * held + texts + tests * texts)
            * models[own.student.model]["width"]
        )
        numbers += (count + 2 * (3 * held + texts)) * models[own.structural_teacher.model]["width"]
    return trained, read, taught, numbers


def table(labels: Collection[str], profile: Profile) -> list[str]:
    """Lines for a person; none for a profile or models of which `params/costs.yaml` says nothing."""
    facts, models, student = FACTS["profiles"].get(profile.name), FACTS["models"], profile.student
    if facts is None or not labels:
        return []
    if not {student.model, profile.structural_teacher.model} <= models.keys():
        return ["", "Costs: not reckoned, as the sizes of these models are not known"]
    stages = asked(labels, profile)
    counts = Counter(
        f"{own.training.documents:,} documents"
        for own, _, pairs in stages
        for _ in _students(pairs)
    )
    trained, read, taught, stored = encoders(stages)
    sizes, minutes, numbers = paragraph_vectors(stages, profile)
    disk = {key: facts.get(key, 0) for key in ("downloads", "dataset folders")} | {
        "store": 4e-9 * (stored + numbers)
    }
    root = next(
        folder for folder in (paths.artifacts(), *paths.artifacts().parents) if folder.is_dir()
    )
    free, needed = shutil.disk_usage(root).free / 1e9, sum(disk.values())
    lines = ["", "Costs from nothing, without heads, drawing and notebook 08 (params/costs.yaml):"]
    if trained or read:
        rate = FACTS["rates"][
            f"core {precision(profile)}" if facts["device"] == "core" else facts["device"]
        ]
        forwards, training, teacher = operations(profile)
        seconds = (
            trained * training / rate["training"]
            + (read * forwards + taught * teacher) / rate["encoding"]
        )
        tokens = {"training": trained, "embedding": read, "the teacher": taught}
        lines += [
            f"students: {', '.join(f'{number} on {size}' for size, number in counts.items())}"
        ]
        lines += [
            f"  tokens: {', '.join(f'{count / 1e6:,.1f} million of {name}' for name, count in tokens.items())}"
        ]
        lines += [
            f"  {seconds / 3600:,.1f} hours of one {facts['device']} at {rate['training'] / 1e12:g} TFLOP/s,"
        ]
        lines[-1] += f" {rate['source']}"
    if sizes:
        lines += [f"Paragraph Vectors: {len(sizes)}"]
        lines += [
            f"  {minutes / 60:,.1f} hours of one core, {FACTS['paragraph_vectors']['source']}"
        ]
    base, documents = (
        models[student.model],
        profile.contextual_teacher.documents or profile.corpus.train_documents,
    )
    left_out = base["layers"] - len(student.layers or range(base["layers"]))
    weights = base["parameters"] - 12 * left_out * base["width"] ** 2
    parts = {"libraries": 0.45, "one Paragraph Vector": 4e-9 * documents * max(sizes, default=0)}
    parts |= {"a student's weights, gradients, AdamW": 16e-9 * weights if trained else 0}
    lines += [f"memory of a process: {_listed(parts)}; activations were not measured"]
    lines += [f"disk: {needed:,.1f} GB at most: {_listed(disk)}; free now: {free:.0f} GB"]
    lines[-1] += ", too little" if free < needed else ""
    return lines


def _students(pairs: Iterable[runs.Pair]) -> list[Variant]:
    return [model for model, _ in pairs if model.kind == "student"]


def _listed(sizes: dict[str, float]) -> str:
    return ", ".join(f"{name} {size:,.1f} GB" for name, size in sizes.items() if size)
