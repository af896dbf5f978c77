"""Whether a student trained on one's own documents beats its base, by trials on small folders.

    try_recipes.py make DATA FOLDERS  # small dataset folders from large ones
    try_recipes.py speed FOLDERS      # seconds of an update, in float32 and bfloat16
    try_recipes.py run FOLDERS        # successive halving, then the report; results/recipes.md

recipes.yaml beside this file is the plan. Vectors are kept under the artifact root, and a training
that is stopped has a checkpoint there, so the same command goes on where it was.

Models: the base as `lib.embed` has it; the base whose positions repeat after 128 tokens and whose
window is 256, from which students start; the mean of chunks of 126 tokens; LSA and TF-IDF; pairs of
these side by side. Dense vectors have norm 1 and are centred by the mean of the training part. What
is fitted (LSA, means, classifiers) is fitted to the training part alone.
"""

import argparse
import functools
import io
import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ruamel.yaml import YAML
from scipy import sparse

from lib.config import paths, profiles
from lib.data.dataset_folder import Documents, content
from lib.data.task_files import read_task
from lib.distillation import variants
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData, Scheme, distill
from lib.evaluation import classifiers
from lib.evaluation.heads import Job
from lib.experiments import ranking
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores
from lib.store.files import write_atomically
from lib.student.stretches import split_text
from lib.student.word_pieces import fit_bag
from lib.teachers.sbert import SBERT
from lib.texts import cut_halves, cut_words
from lib.vectors import dense, lexical, trained
from lib.vectors.recipes import RECIPES

PLAN = YAML(typ="safe", pure=True).load(Path(__file__).with_name("recipes.yaml"))
RESULTS = Path(__file__).with_name("results") / "recipes.md"
PARTS = ("train", "validation", "test")
BASE, REPAIRED, CHUNKS, LSA, TFIDF = "base", "base, repaired", "mean of chunks", "LSA", "TF-IDF"
BRANCH = "branch"  # LSA by word pieces, in closed form
PAIRS = (f"{BASE} + {LSA}", f"{CHUNKS} + {LSA}", f"{REPAIRED} + {LSA}", f"{REPAIRED} + {BRANCH}")
UNTRAINED = (BASE, REPAIRED, CHUNKS, TFIDF, LSA, *PAIRS)
THESIS = "thesis"
PRECISION = dense.find_precision()


# ---- folders -------------------------------------------------------------------------------------


def make_folder(source: Path, task: str, out: Path, classes: int | None = None) -> None:
    """Write a small dataset folder; no text is in two parts, and no topic of events either."""
    large, sizes = read_task(source / "tasks" / task), PLAN["documents"]
    labels = large.clusters or {
        ids[0]: large.classes[label]
        for part in large.inputs
        for ids, label in zip(large.inputs[part], large.labels[part], strict=True)
    }
    first = {content(large.texts[name]): name for name in sorted(labels, reverse=True)}
    rng, names = np.random.default_rng(0), sorted(first.values())
    if large.clusters:
        topics = {name: labels[name].split("_")[0] for name in names}
        order = rng.permutation(sorted({*topics.values()})).tolist()
        names = sorted(names, key=lambda name: order.index(topics[name]))
    else:
        kept = {*rng.permutation(large.classes)[:classes].tolist()}
        names = [name for name in rng.permutation(names).tolist() if labels[name] in kept]
    place = out / "tasks" / task
    place.mkdir(parents=True)
    texts = {}
    for part in PARTS:
        chosen, names = names[: sizes[part]], names[sizes[part] :]
        while large.clusters and names and topics[names[0]] == topics[chosen[-1]]:
            chosen.append(names.pop(0))
        _write(place / f"{part}.jsonl", [{"id": name, "label": labels[name]} for name in chosen])
        texts |= {name: cut_words(large.texts[name], PLAN["words"]) for name in chosen}
    _write(out / "documents.jsonl", [{"id": name, "text": text} for name, text in texts.items()])


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


@dataclass(frozen=True)
class Folder:
    """A folder that `make_folder` wrote: texts and labels of its parts.

    searched: whether labels are clusters, of which other texts are searched.
    """

    name: str
    texts: Mapping[str, list[str]]
    labels: Mapping[str, np.ndarray]
    searched: bool

    @classmethod
    def read(cls, place: Path) -> "Folder":
        texts = {document.id: document.text for document in Documents(place)}
        (task,) = (place / "tasks").iterdir()
        rows = {part: pd.read_json(task / f"{part}.jsonl", lines=True, dtype=str) for part in PARTS}
        names = sorted(set.union(*({*each["label"]} for each in rows.values())))
        labels = {part: np.searchsorted(names, rows[part]["label"]) for part in PARTS}
        kept = {part: [texts[name] for name in rows[part]["id"]] for part in PARTS}
        searched = not {*labels["test"]} & {*labels["train"]}
        return cls(place.name, kept, labels, searched)

    @functools.cached_property
    def halves(self) -> dict[str, list[str]]:
        """Of each part: all first halves, then all second ones."""
        pairs = {
            part: [cut_halves(text, trained.LONGEST) for text in texts]
            for part, texts in self.texts.items()
        }
        return {part: [each[side] for side in (0, 1) for each in pairs[part]] for part in PARTS}


# ---- vectors -------------------------------------------------------------------------------------


class Vectors:
    """Vectors of a folder's texts by models, each computed once and kept.

    Attributes
    ----------
    folder : Folder
    """

    def __init__(self, folder: Folder):
        self.folder = folder
        self.place = paths.artifacts() / "recipes" / folder.name
        self.place.mkdir(parents=True, exist_ok=True)

    def read(self, kind: str, part: str) -> list[str]:
        return (self.folder.halves if kind == "halves" else self.folder.texts)[part]

    def find(self, name: str, kind: str, part: str) -> Path:
        return self.place / f"{name}-{kind}-{part}.npy"

    @functools.cache  # noqa: B019 - as long as the command runs
    def lesson(self, part: str) -> trained.Lesson:
        return trained.read_lesson(self.folder.texts[part], PRECISION)

    def embed(self, name: str, kind: str, part: str, student: Any = None) -> np.ndarray:
        """(texts, dim) by a dense model, as it gives them."""
        path = self.find(name, kind, part)
        if path.exists():
            return np.load(path)
        texts = self.read(kind, part)
        if name == CHUNKS:
            whole = kind == "texts"
            lesson = self.lesson(part) if whole else trained.read_lesson(texts, PRECISION)
            vectors = trained.average_documents(lesson.documents)
        else:
            start = dense.load_base if name == BASE else trained.load_start
            vectors = (student or start()).encode(texts, precision=PRECISION)
        _save(path, vectors)
        return vectors

    @functools.cached_property
    def words(self) -> lexical.WordCounts:
        return lexical.WordCounts.read(self.folder.texts["train"])

    @functools.cached_property
    def fitted(self) -> dict[str, Callable[[list[str]], Any]]:
        """What embeds texts by their words."""
        words, texts = self.words, self.folder.texts["train"]
        lsa = lexical.fit_lexical(words.counts)
        yardstick = lexical.fit_lexical(words.counts, dim=0, least=1)
        tokenizer = trained.load_teacher().tokenizer
        ids = [split_text(tokenizer, text).ids for text in texts]
        bag = fit_bag(ids, lsa.embed(words.counts), len(tokenizer))
        return {
            TFIDF: lambda new: yardstick.weigh_words(words.count(new)),
            LSA: lambda new: lsa.embed(words.count(new)),
            BRANCH: lambda new: bag.encode([split_text(tokenizer, text).ids for text in new]),
        }

    def centred(self, name: str, kind: str, part: str) -> Any:
        """By a model, or by two of them side by side, such as "base + LSA"."""
        parts = []
        for each in name.split(" + "):
            if each in self.fitted:
                parts.append(self.fitted[each](self.read(kind, part)))
            else:
                mean = lexical.mean_row(self.embed(each, "texts", "train"))
                parts.append(lexical.centre_rows(self.embed(each, kind, part), mean))
        return lexical.join_rows(*parts) if len(parts) == 2 else parts[0]


def _save(path: Path, vectors: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, vectors)
    write_atomically(path, buffer.getvalue())


def judge(vectors: Vectors, names: Iterable[str], part: str) -> pd.DataFrame:
    """Scores of single examples of a part, a row for each model and measure."""
    folder, rows = vectors.folder, []
    labels = folder.labels[part]
    queries = read_queries(folder.texts[part], labels) if folder.searched else None
    for name in names:
        each = ranking.rank_halves(_make_dense(vectors.centred(name, "halves", part)))
        measures = {"halves": each.reshape(2, -1).mean(axis=0)}
        groups = {"halves": [*range(len(labels))], "task": [*range(len(labels))]}
        x = vectors.centred(name, "texts", part)
        if queries is not None:
            _, measures["task"] = ranking.score_queries(_make_dense(x), queries, "MAP", None)
            groups["task"] = [f"cluster {label}" for label in labels[queries.examples[:, 0]]]
        else:
            train = vectors.centred(name, "texts", "train")
            both = np.concatenate([folder.labels["train"], labels])
            places, cut = np.arange(len(both)), train.shape[0]
            stack = sparse.vstack if sparse.issparse(x) else np.vstack
            features = stack([train, x])
            job = Job(features, places[:, None], both, places[:cut], places[cut:], 0)
            measures["task"] = (classifiers.by_words(job) == labels).astype(float)
        for measure, scores in measures.items():
            rows.append(
                {
                    "model": name,
                    "task": f"{folder.name}, {measure}",
                    "seed": 0,
                    "chance": 0.0,
                    "scores": scores,
                    "groups": np.array([f"{folder.name} {group}" for group in groups[measure]]),
                }
            )
    return pd.DataFrame(rows)


def _make_dense(vectors: Any) -> np.ndarray:
    return lexical.reduce_exactly(vectors) if sparse.issparse(vectors) else vectors


def read_queries(texts: list[str], labels: np.ndarray) -> ranking.Queries:
    """Each text of a cluster of two at least, with the other ones."""
    members = {label: np.flatnonzero(labels == label) for label in np.unique(labels)}
    relevant = {
        int(row): [int(other) for other in rows if other != row]
        for rows in members.values()
        for row in rows
        if len(rows) > 1
    }
    return ranking.Queries([str(row) for row in range(len(texts))], texts, relevant)


# ---- trials --------------------------------------------------------------------------------------


def try_recipe(vectors: Vectors, recipe: str, updates: int, seed: int, part: str) -> str:
    """Train a student, if it was not, and keep its vectors of a part; the name of the model."""
    name = f"{recipe}, {updates} updates, seed {seed}"
    needed = [("texts", "train"), ("texts", part), ("halves", part)]
    if all(vectors.find(name, *which).exists() for which in needed):
        return name
    checkpoint, started = vectors.place / f"{name}.checkpoint", time.perf_counter()
    if recipe == THESIS:
        student, told = train_as_in_thesis(vectors, updates, seed, checkpoint), ""
    else:
        lessons = (vectors.lesson(part) for part in ("train", "validation"))
        options = {"updates": updates, "seed": seed, "precision": PRECISION}
        student, history = trained.train_student(
            RECIPES[recipe], *lessons, **options, checkpoint=checkpoint
        )
        losses = ", ".join(f"{update}: {loss:.4f}" for update, loss in history.held_out)
        told = f"; loss on held-out documents {losses}"
    for which in needed:
        vectors.embed(name, *which, student)
    shutil.rmtree(checkpoint, ignore_errors=True)
    checkpoint.unlink(missing_ok=True)
    log(f"{vectors.folder.name}: {name}: {time.perf_counter() - started:.0f} s{told}")
    return name


def train_as_in_thesis(vectors: Vectors, updates: int, seed: int, checkpoint: Path) -> Any:
    """As `lib.train MSE` does, but from the layers that all recipes start from."""
    profile, student = profiles.load("lab"), trained.load_start()
    settings, texts = profile.training, vectors.folder.texts["train"]
    teacher = SBERT.load(dense.find_teacher(), max_tokens=profile.structural_teacher.max_tokens)
    ids, targets = student.tokenize(texts), teacher.encode(texts)
    scheme = Scheme(
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        warmup_updates=round(settings.warmup_share * updates),
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        precision=PRECISION,
        length_bucket=settings.length_bucket,
        passes=round(updates * settings.batch_size / len(texts)),
    )
    data = DistillationData(ids, np.array([len(each) for each in ids]), targets)
    objective = Objective(variants.parse("MSE"), student.dim)
    options = {"checkpoint": checkpoint, "checkpoint_every": trained.CHECK_EVERY}
    distill(student, objective, data, scheme, seed=seed, **options)
    return student.eval()


def judge_trial(vectors: Vectors, recipe: str, updates: int, seed: int, part: str) -> pd.DataFrame:
    """Train with a recipe, and judge the student alone and with LSA."""
    trial = try_recipe(vectors, recipe, updates, seed, part)
    frame = judge(vectors, [trial, f"{trial} + {LSA}"], part).assign(seed=seed)
    return frame.assign(model=frame["model"].str.replace(trial, recipe, regex=False))


def choose(folders: Mapping[str, Vectors]) -> tuple[str, list[str]]:
    """Successive halving: the recipe that is left, and a section for each rung."""
    alive, part = [*PLAN["recipes"]], "validation"
    choosing = [folders[name] for name in PLAN["choosing"]]
    untrained, sections = [judge(vectors, UNTRAINED, part) for vectors in choosing], []
    for rung in PLAN["rungs"]:
        students = [
            judge_trial(vectors, recipe, rung["updates"], 0, part)
            for recipe, vectors in itertools.product(alive, choosing)
        ]
        scores = (
            pd.concat(students)
            .groupby("model")["scores"]
            .agg(lambda each: np.mean([*map(np.mean, each)]))
        )
        alive = keep_best({recipe: scores[recipe] for recipe in alive}, rung["keep"])
        title = f"## {rung['updates']} updates, validation parts of {list_names('choosing')}"
        table = describe(pd.concat([*untrained, *students]))
        sections.append(f"{title}\n\n{table}\n\nOn it goes with: {', '.join(alive)}.")
        write_results(sections)
    return alive[0], sections


def keep_best(scores: Mapping[str, float], count: int) -> list[str]:
    """The names of so many of the best ones, the best first."""
    return sorted(scores, key=lambda name: -scores[name])[:count]


def report(folders: Mapping[str, Vectors], recipe: str) -> list[str]:
    """Test parts, looked at once: a section for each kind of folder, and what is concluded."""
    sections, updates = [], PLAN["final"]["updates"]
    for kind in ("choosing", "reporting"):
        frames = []
        for vectors in (folders[name] for name in PLAN[kind]):
            frames.append(judge(vectors, UNTRAINED, "test"))
            frames += [
                judge_trial(vectors, recipe, updates, seed, "test") for seed in PLAN["seeds"][kind]
            ]
        table = pd.concat(frames)
        title = f"## {updates} updates, test parts of {list_names(kind)}"
        seeds = f"Seeds of {recipe}: {len(PLAN['seeds'][kind])}."
        sections.append(f"{title}\n\n{describe(table)}\n\n{seeds}")
    return [*sections, f"## Which default\n\n{conclude(table, recipe)}"]


def conclude(table: pd.DataFrame, recipe: str) -> str:
    """The rule, fixed before any score: what a recipe must do to become the default.

    On the folders that did not choose it, its mean is at or above those of the base and of the mean
    of chunks, and on none of them the interval of a difference lies below zero.
    """
    reasons, folders = [], table["task"].str.split(",").str[0]
    for other in (BASE, CHUNKS):
        row = compare_models(table, [recipe], other).iloc[0]
        if row["difference"] < 0:
            reasons.append(f"its mean is {-row['difference']:.3f} below that of the {other}")
        for name, rows in table.groupby(folders):
            row = compare_models(rows, [recipe], other).iloc[0]
            if row["high"] < 0:
                reasons.append(f"it is below the {other} on {name}, {_show(row)}")
    if reasons:
        return f"No training: of {recipe}, {'; '.join(reasons)}."
    return f"{recipe}: at or above base and mean of chunks on folders that did not choose it."


def compare_models(table: pd.DataFrame, names: Sequence[str], other: str) -> pd.DataFrame:
    """Differences of means over all measures to another model, with 95% intervals.

    They are about other texts, and about other seeds where there are several.
    """
    seeds = table.groupby("model", sort=False)["seed"].nunique()
    evidence = from_examples(task_scores(table), given=[*seeds.index[seeds == 1]])
    return verdicts.compare([(name, other) for name in names], evidence)


def describe(table: pd.DataFrame) -> str:
    """A table of values, and of differences of the mean to base and chunks."""
    scores = table["scores"].map(np.mean).groupby([table["model"], table["task"]]).mean().unstack()
    names = [*dict.fromkeys(table["model"])]
    scores = scores.loc[names, [*dict.fromkeys(table["task"])]]
    columns = {task: scores[task].map("{:.3f}".format) for task in scores}
    columns["mean"] = scores.mean(axis=1).map("{:.3f}".format)
    for other in (BASE, CHUNKS):
        rows = compare_models(table, names, other).to_dict("records")
        columns[f"mean less that of {other}"] = [
            "" if n == other else _show(r) for n, r in zip(names, rows, strict=True)
        ]
    lines = [["model", *columns], ["---"] * (len(columns) + 1)]
    lines += [[name, *cells] for name, *cells in zip(names, *columns.values(), strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _show(row: Mapping[str, Any]) -> str:
    return f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"


# ---- commands ------------------------------------------------------------------------------------


def list_names(kind: str) -> str:
    return " and ".join(PLAN[kind])


def write_results(sections: Sequence[str]) -> None:
    sizes = PLAN["documents"]
    head = [
        "# Recipes for students of one's own documents",
        "Written by `python tests/benchmarks/try_recipes.py run`; its plan is "
        "[recipes.yaml](../recipes.yaml). "
        f"A folder has {sizes['train']} documents to learn from, {sizes['validation']} to choose "
        f"by and {sizes['test']} to report on, of {PLAN['words']} words at most. "
        "Halves are judged by MRR, tasks by accuracy, events by MAP. "
        "The mean is that of all columns before it. Intervals (95%) are about other texts, "
        "and about other seeds where a model has two.",
    ]
    RESULTS.write_text("\n\n".join([*head, *sections]) + "\n")


def log(line: str) -> None:
    print(time.strftime("%H:%M:%S"), line, flush=True)


def measure_speed(vectors: Vectors, updates: int = 4) -> None:
    """Seconds of an update in each precision; the looks at held-out documents are left out."""
    lesson = vectors.lesson("train")
    for precision in ("fp32", "bf16"):
        times: list[float] = []
        trained.train_student(
            RECIPES["aligned-similarity"],
            lesson,
            lesson,
            updates=updates,
            seed=0,
            precision=precision,
            advance=lambda *_, times=times: times.append(time.process_time()),
        )
        log(f"{vectors.folder.name}, {precision}: {np.diff(times)} core-seconds an update")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["make", "speed", "run"])
    parser.add_argument("paths", nargs="+", type=Path)
    asked = parser.parse_args()
    every = {**PLAN["choosing"], **PLAN["reporting"]}
    if asked.command == "make":
        for name, source in every.items():
            place, out = asked.paths[0] / source["source"], asked.paths[1] / name
            make_folder(place, source["task"], out, source.get("classes"))
        return
    folders = {name: Vectors(Folder.read(asked.paths[0] / name)) for name in every}
    if asked.command == "speed":
        measure_speed(folders[next(iter(folders))])
        return
    recipe, sections = choose(folders)
    write_results([*sections, *report(folders, recipe)])
    log("done")


if __name__ == "__main__":
    main()
