"""Whether a student trained on one's own documents beats its base, by trials on small folders.

    try_recipes.py make DATA FOLDERS      # small dataset folders from large ones
    try_recipes.py speed FOLDERS          # tokens per second of training
    try_recipes.py choose FOLDERS         # successive halving, on validation parts of some folders
    try_recipes.py report FOLDERS RECIPE  # once: test parts, and folders that no choice looked at

recipes.yaml beside this file has folders, budgets and recipes. Vectors and trials are kept under
the artifact root, so a command that is stopped goes on where it was.

Models: the base as it is today, the base whose positions repeat after 128 tokens and whose window
is 256, the mean of chunks of 126 tokens (of norm 1, weighted by length), LSA, and pairs of these.
All vectors have norm 1 and are centred by the mean of the training part. What is fitted (LSA,
means, classifiers) is fitted to the training part alone.
"""

import argparse
import functools
import io
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from ruamel.yaml import YAML

from lib.config import paths
from lib.data.dataset_folder import Documents, content
from lib.data.task_files import read_task
from lib.distillation.aligned import (
    AlignedScheme,
    StretchedDocument,
    average_stretches,
    draw_spans,
    train_aligned,
)
from lib.distillation.joint_target import fit_joint_target, scale_rows
from lib.evaluation import baselines, classifiers
from lib.evaluation.heads import Job
from lib.experiments import models, ranking
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores
from lib.store.files import write_atomically
from lib.student import Student
from lib.student.positions import repeat_positions
from lib.student.stretches import embed_stretches, find_special_tokens, split_text
from lib.student.word_pieces import fit_bag
from lib.teachers.sbert import SBERT, WHEEL
from lib.texts import cut_halves, cut_words

PLAN = YAML(typ="safe", pure=True).load(Path(__file__).with_name("recipes.yaml"))
PARTS = ("train", "validation", "test")
TODAY, BASE, CHUNKS, LSA = "base, as today", "base", "chunks", "LSA"
UNTRAINED = (TODAY, BASE, CHUNKS, LSA, f"{BASE} + {LSA}", f"{CHUNKS} + {LSA}", f"{BASE} + branch")
POSITIONS, WINDOW, LONGEST, LSA_DIM = 128, 256, 4096, 256
PRECISION = "bf16" if models.has_bfloat16() else "fp32"


# ---- folders -------------------------------------------------------------------------------------


def make_folder(source: Path, task: str, out: Path, classes: int | None = None) -> None:
    """Write a small dataset folder; no text is in two parts, and no topic of events either."""
    found, sizes = read_task(source / "tasks" / task), PLAN["documents"]
    labels = found.clusters or {
        ids[0]: found.classes[label]
        for part in found.inputs
        for ids, label in zip(found.inputs[part], found.labels[part], strict=True)
    }
    first = {content(found.texts[name]): name for name in sorted(labels, reverse=True)}
    rng, names = np.random.default_rng(0), sorted(first.values())
    if found.clusters:
        topics = {name: labels[name].split("_")[0] for name in names}
        order = rng.permutation(sorted({*topics.values()})).tolist()
        names = sorted(names, key=lambda name: order.index(topics[name]))
    else:
        kept = {*rng.permutation(found.classes)[:classes].tolist()}
        names = [name for name in rng.permutation(names).tolist() if labels[name] in kept]
    place = out / "tasks" / task
    place.mkdir(parents=True)
    texts = {}
    for part in PARTS:
        chosen, names = names[: sizes[part]], names[sizes[part] :]
        while found.clusters and names and topics[names[0]] == topics[chosen[-1]]:
            chosen.append(names.pop(0))
        _write(place / f"{part}.jsonl", [{"id": name, "label": labels[name]} for name in chosen])
        texts |= {name: cut_words(found.texts[name], PLAN["words"]) for name in chosen}
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
        labels = {part: pd.factorize(rows[part]["label"], sort=True)[0] for part in PARTS}
        known = {*rows["train"]["label"]}
        searched = not {*rows["test"]["label"]} & known
        if not searched:
            names = sorted(set.union(*({*each["label"]} for each in rows.values())))
            labels = {part: np.searchsorted(names, rows[part]["label"]) for part in PARTS}
        kept = {part: [texts[name] for name in rows[part]["id"]] for part in PARTS}
        return cls(place.name, kept, labels, searched)

    @functools.cached_property
    def halves(self) -> dict[str, list[str]]:
        """Of each part: all first halves, then all second ones."""
        pairs = {part: [cut_halves(text, LONGEST) for text in self.texts[part]] for part in PARTS}
        return {part: [each[side] for side in (0, 1) for each in pairs[part]] for part in PARTS}


# ---- vectors -------------------------------------------------------------------------------------


def load_student(*, repaired: bool = True) -> Student:
    """All six layers of the teacher, reading on to 4,096 tokens."""
    window = WINDOW if repaired else 512
    student = Student.from_encoder(models.find_model(WHEEL), None, window, LONGEST, dropout=0.0)
    if repaired:
        repeat_positions(student, POSITIONS)
    student.freeze_token_embeddings()
    return student


@functools.cache
def _load_teacher() -> SBERT:
    return SBERT.load(WHEEL, max_tokens=POSITIONS)


def read_stretches(texts: list[str]) -> tuple[list[StretchedDocument], list[str]]:
    """Texts with the teacher's vectors, of norm 1, of their stretches; and these as text."""
    tokenizer = _load_teacher().tokenizer
    splits = [split_text(tokenizer, text, POSITIONS - 2, LONGEST - 2) for text in texts]
    pieces = [piece for split in splits for piece in split.pieces]
    with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
        vectors = scale_rows(_load_teacher().encode(pieces)).astype(np.float32)
    places = np.cumsum([len(split.ends) for split in splits])[:-1]
    parts = np.split(vectors, places)
    documents = [
        StretchedDocument(split.ids, split.ends, part)
        for split, part in zip(splits, parts, strict=True)
    ]
    return documents, pieces


def average_documents(documents: Iterable[StretchedDocument]) -> np.ndarray:
    return np.stack([average_stretches(each.sizes, each.stretches) for each in documents])


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
    def stretches(self, part: str) -> tuple[list[StretchedDocument], list[str]]:
        return read_stretches(self.folder.texts[part])

    def dense(self, name: str, kind: str, part: str, student: Any = None) -> np.ndarray:
        """(texts, dim) by a dense model, as it gives them."""
        path = self.find(name, kind, part)
        if path.exists():
            return np.load(path)
        texts = self.read(kind, part)
        if name == CHUNKS:
            read = self.stretches(part) if kind == "texts" else read_stretches(texts)
            vectors = average_documents(read[0])
        else:
            student = student or load_student(repaired=name != TODAY)
            vectors = student.encode(texts, precision=PRECISION)
        _save(path, np.save, vectors)
        return vectors

    @functools.cached_property
    def lsa(self) -> Any:
        return baselines.fit_lsa(self.folder.texts["train"], LSA_DIM)

    @functools.cached_property
    def bag(self) -> Any:
        """The closed-form lexical branch."""
        tokenizer = _load_teacher().tokenizer
        texts = self.folder.texts["train"]
        ids = [split_text(tokenizer, text).ids for text in texts]
        bag = fit_bag(ids, self.lsa(texts), len(tokenizer))
        return lambda new: bag.encode([split_text(tokenizer, text).ids for text in new])

    def lexical(self, kind: str, part: str, *, branch: bool = False) -> np.ndarray:
        return (self.bag if branch else self.lsa)(self.read(kind, part))

    def centred(self, name: str, kind: str, part: str) -> np.ndarray:
        """By a model, or by two of them side by side: "base + LSA", "base + branch"."""
        parts = []
        for each in name.split(" + "):
            if each in (LSA, "branch"):
                rows, train = (
                    self.lexical(*which, branch=each == "branch")
                    for which in ((kind, part), ("texts", "train"))
                )
            else:
                rows, train = (
                    self.dense(each, *which) for which in ((kind, part), ("texts", "train"))
                )
            parts.append(scale_rows(scale_rows(rows) - scale_rows(train).mean(axis=0)))
        return np.hstack(parts).astype(np.float32)


def _save(path: Path, write: Callable[[Any, Any], Any], value: Any) -> None:
    buffer = io.BytesIO()
    write(buffer, value)
    write_atomically(path, buffer.getvalue())


def judge(vectors: Vectors, names: Iterable[str], part: str) -> pd.DataFrame:
    """Scores of single examples of a part, a row for each model and measure."""
    folder, rows = vectors.folder, []
    for name in names:
        halves = ranking.rank_halves(vectors.centred(name, "halves", part))
        measures = {"halves": halves.reshape(2, -1).mean(axis=0)}
        x, labels = vectors.centred(name, "texts", part), folder.labels[part]
        if folder.searched:
            queries = read_queries(folder.texts[part], labels)
            _, each = ranking.score_queries(x, queries, "MAP", None)
            measures["task"] = each
            groups = [f"cluster {label}" for label in labels[queries.examples[:, 0]]]
        else:
            train = vectors.centred(name, "texts", "train")
            both = np.concatenate([folder.labels["train"], labels])
            places = np.arange(len(both))
            inputs, cut = places[:, None], len(train)
            job = Job(np.vstack([train, x]), inputs, both, places[:cut], places[cut:], 0)
            measures["task"] = (classifiers.by_comparing(job) == labels).astype(float)
            groups = [*range(len(labels))]
        for measure, scores in measures.items():
            kept = groups if measure == "task" else range(len(scores))
            rows.append(
                {
                    "model": name,
                    "task": f"{folder.name} {measure}",
                    "seed": 0,
                    "chance": 0.0,
                    "scores": scores,
                    "groups": np.array([f"{folder.name} {group}" for group in kept]),
                }
            )
    return pd.DataFrame(rows)


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


@functools.cache
def prepare(vectors: Vectors, target: str) -> tuple[list[StretchedDocument], ...]:
    """What is learned, and what chooses the checkpoint: the training and the validation part."""
    parts = [vectors.stretches(part) for part in ("train", "validation")]
    if target == "chunks":
        return tuple(documents for documents, _ in parts)
    lsa, (train, pieces) = vectors.lsa, parts[0]
    texts = vectors.folder.texts["train"]
    mean = {
        "dense": average_documents(train).mean(axis=0),
        "lexical": scale_rows(lsa(texts)).mean(axis=0),
    }

    def both(dense: np.ndarray, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return scale_rows(dense) - mean["dense"], scale_rows(lsa(words)) - mean["lexical"]

    stretches = np.concatenate([document.stretches for document in train])
    dense, lexical = (
        np.vstack(each)
        for each in zip(both(stretches, pieces), both(average_documents(train), texts), strict=True)
    )
    # A stretch alone is to the untrained student what it is to its teacher: the same layers.
    start = np.vstack([stretches, vectors.dense(BASE, "texts", "train")])
    joint = fit_joint_target(dense, lexical, start)
    print(f"both: {joint.kept:.3f} of the variance kept")
    made = []
    for (documents, words), part in zip(parts, ("train", "validation"), strict=True):
        stretches = joint.transform(*both(np.concatenate([d.stretches for d in documents]), words))
        wholes = joint.transform(*both(average_documents(documents), vectors.folder.texts[part]))
        places = np.cumsum([len(document.ends) for document in documents])[:-1]
        made.append(
            [
                StretchedDocument(document.ids, document.ends, rows, whole)
                for document, rows, whole in zip(
                    documents, np.split(stretches, places), wholes, strict=True
                )
            ]
        )
    return tuple(made)


def try_recipe(vectors: Vectors, recipe: str, updates: int, seed: int, part: str) -> str:
    """Train a student, or read one, and keep its vectors of a part; the name of the model."""
    name = f"{recipe}, {updates} updates, seed {seed}"
    settings = {"check_every": max(25, updates // 8), **PLAN["recipes"][recipe]}
    target = settings.pop("target", "chunks")
    needed = [("texts", "train"), ("texts", part), ("halves", part)]
    if all(vectors.find(name, *which).exists() for which in needed):
        return name
    student, weights = load_student(), vectors.place / f"{name}.npz"
    if weights.exists():
        with np.load(weights) as arrays:
            student = models.unpack_weights(student, dict(arrays))
    else:
        scheme = AlignedScheme(updates=updates, precision=PRECISION, **settings)
        documents, held_out = prepare(vectors, target)
        special = find_special_tokens(student.tokenizer)
        embed = functools.partial(embed_stretches, student, opening=len(special[0]))
        started = time.perf_counter()
        history = train_aligned(student, embed, documents, held_out, special, scheme, seed=seed)
        seconds = time.perf_counter() - started
        held = ", ".join(f"{update}: {loss:.4f}" for update, loss in history.held_out)
        print(f"{vectors.folder.name}, {name}: {seconds:.0f} s; held out {held}", flush=True)
        _save(weights, lambda file, arrays: np.savez(file, **arrays), models.pack_weights(student))
    for which in needed:
        vectors.dense(name, *which, student)
    return name


def measure_speed(vectors: Vectors, updates: int = 3) -> float:
    """Tokens per second of training."""
    documents = prepare(vectors, "chunks")[0]
    student, scheme = load_student(), AlignedScheme(updates=updates, precision=PRECISION)
    special = find_special_tokens(student.tokenizer)
    embed = functools.partial(embed_stretches, student, opening=len(special[0]))
    rng, tokens, seconds = np.random.default_rng(0), 0, 0.0
    student.train()
    for _ in range(updates):
        spans = draw_spans(documents, scheme, rng)
        sizes = [documents[row].sizes[first:last] for row, first, last in spans]
        ids = [
            np.concatenate([special[0], documents[s.document].ids[: n.sum()], special[1]]).astype(
                int
            )
            for s, n in zip(spans, sizes, strict=True)
        ]
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
            stretches, _ = embed(ids, sizes)
        stretches.square().sum().backward()
        seconds += time.perf_counter() - started
        tokens += sum(map(len, ids))
    return tokens / seconds


def judge_trial(vectors: Vectors, recipe: str, updates: int, seed: int, part: str) -> pd.DataFrame:
    """Train with a recipe, and judge the student alone and with LSA."""
    trial = try_recipe(vectors, recipe, updates, seed, part)
    frame = judge(vectors, [trial, f"{trial} + {LSA}"], part).assign(seed=seed)
    return frame.assign(model=frame["model"].str.replace(trial, recipe, regex=False))


def choose(folders: Mapping[str, Vectors]) -> str:
    """Successive halving; the recipe that is left."""
    part, alive = "validation", [*PLAN["recipes"]]
    choosing = [folders[name] for name in PLAN["choosing"]]
    untrained = [judge(vectors, UNTRAINED, part) for vectors in choosing]
    print(describe(pd.concat(untrained)), flush=True)
    for updates in PLAN["rungs"]:
        trained = [
            judge_trial(vectors, recipe, updates, 0, part)
            for recipe, vectors in itertools.product(alive, choosing)
        ]
        print(f"\n{updates} updates, validation parts of {', '.join(PLAN['choosing'])}")
        print(describe(pd.concat([*untrained, *trained])))
        table = pd.concat(trained)
        scores = table["scores"].map(np.mean).groupby(table["model"]).mean()
        alive = keep_best({recipe: scores[recipe] for recipe in alive}, PLAN["keep"])
        print("go on:", ", ".join(alive), flush=True)
    return alive[0]


def keep_best(scores: Mapping[str, float], share: float) -> list[str]:
    """The names of the better ones, the best first; one at least."""
    ordered = sorted(scores, key=lambda name: -scores[name])
    return ordered[: max(1, math.ceil(share * len(scores)) if len(scores) > 2 else 1)]


def report(folders: Mapping[str, Vectors], recipe: str) -> None:
    """A recipe at its full length on test parts, with several seeds."""
    frames = []
    for vectors in folders.values():
        frames.append(judge(vectors, UNTRAINED, "test"))
        for seed in PLAN["seeds"]:
            frames.append(judge_trial(vectors, recipe, PLAN["rungs"][-1], seed, "test"))
    table = pd.concat(frames)
    for kind in ("choosing", "reporting"):
        rows = table[table["task"].str.split().str[0].isin([*PLAN[kind]])]
        print(f"\ntest parts of the folders that are {kind}\n{describe(rows)}")


def describe(table: pd.DataFrame) -> str:
    """Values of each measure, and differences of the mean to base and chunks with 95% intervals.

    Intervals are about other texts, and about other seeds where there are several.
    """
    tasks, seeds = task_scores(table), table.groupby("model", sort=False)["seed"].nunique()
    evidence = from_examples(tasks, given=[*seeds.index[seeds == 1]])
    shown = evidence.means.loc[seeds.index].assign(
        mean=pd.Series(evidence.scores, evidence.means.index)
    )
    for other in (BASE, CHUNKS):
        rows = verdicts.compare([(name, other) for name in shown.index], evidence).itertuples()
        shown[f"against {other}"] = [
            f"{row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}]" for row in rows
        ]
    return shown.to_string(float_format="{:.3f}".format)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["make", "speed", "choose", "report"])
    parser.add_argument("paths", nargs="+")
    asked = parser.parse_args()
    every = {**PLAN["choosing"], **PLAN["reporting"]}
    if asked.command == "make":
        for name, source in every.items():
            out = Path(asked.paths[1]) / name
            make_folder(
                Path(asked.paths[0]) / source["source"], source["task"], out, source.get("classes")
            )
        return
    folders = {name: Vectors(Folder.read(Path(asked.paths[0]) / name)) for name in every}
    if asked.command == "speed":
        for name, vectors in folders.items():
            print(f"{name}: {measure_speed(vectors):.0f} tokens a second of training")
    elif asked.command == "choose":
        print("chosen:", choose(folders))
    else:
        report(folders, asked.paths[1])


if __name__ == "__main__":
    main()
