"""What embeds documents for clustering: the teacher, students distilled from it, and what needs no training."""

import itertools
import zlib
from typing import Any

import numpy as np

from lib.config.profiles import Profile
from lib.experiments import models
from lib.news import designs, distil, events, inputs
from lib.news.students import LazyRows, Rows, Sizes, Student, without_onednn
from lib.news.widths import TOKEN_DIM, scaled
from lib.store import executors
from lib.store.records import Recipe, store

TOKENS, TFIDF, ONE, TEACHER = "teacher tokens, averaged", "TF-IDF", "one cluster", "teacher"
UNTUNED = "teacher, untuned"  # beside a tuned one
TFIDF_BEFORE = (
    "TF-IDF, words of the texts distilled on"  # knows what students know, and no word of the day
)
GIVEN = (ONE, TFIDF, TFIDF_BEFORE, TEACHER, UNTUNED, TOKENS)  # trained by nobody here


def of(model: str, seed: int, profile: Profile) -> dict[str, Any]:
    """A model's vectors of "train", "public", "private" and perhaps "rated" texts, (documents, dim), TF-IDF's as sparse
    rows, and its `megabytes`; students have `held_out`, the loss by epoch."""
    if model in GIVEN:
        return _given(model, profile)
    recipe = student_recipe(model, seed, profile)
    return store().arrays(recipe, lambda: _student(model, seed, profile), model=model, seed=seed)


def prepare(pairs: list[tuple[str, int]], profile: Profile) -> None:
    """Compute what is missing of the (model, seed) in processes: first the teacher's vectors, then students."""
    missing = [
        pair
        for pair in pairs
        if pair[0] not in GIVEN and not store().has(student_recipe(*pair, profile))
    ]
    if missing:
        if profile.news.tuned_teacher:  # once, before many processes want it
            executors.submit(
                [(inputs.reader, (profile, profile.news.max_tokens))], None, "teacher, tuned"
            )
        reading = [
            (inputs.read, (use, profile))
            for use in sorted(inputs.texts(profile), key="distilled".__ne__)
        ]
        executors.submit([*reading, (inputs.inputs_of, (profile,))], None, "teacher")
        # What takes long goes first, here as above, so that no core waits at the end.
        missing.sort(
            key=lambda pair: [name in pair[0] for name in ("GRU", "Transformer(2", "BiLSTM")],
            reverse=True,
        )
        executors.submit([(of, (*pair, profile)) for pair in missing], None, "students")


def student_recipe(model: str, seed: int, profile: Profile) -> Recipe:
    """All that makes a student and its vectors."""
    settings = profile.news.model_dump(mode="json", exclude={"events", "texts", "words"})
    return inputs.recipe_of(
        "news_student", profile, [model, seed, profile.width, settings], "lib.news.embedders"
    )


@without_onednn()
def _student(model: str, seed: int, profile: Profile) -> dict[str, np.ndarray]:
    """Train a student, embed the texts with it."""
    import torch

    section, design = profile.news, designs.parse(model)
    given, vectors = inputs.inputs_of(profile), inputs.teacher_vectors(profile)
    ids: dict[str, Rows] = {**inputs.token_ids(profile)}
    if (
        design.architecture == "bag"
    ):  # what holds it, sentence-transformers' StaticEmbedding, knows no special tokens
        ids = {use: LazyRows(rows, lambda row: row[1:-1]) for use, rows in ids.items()}
    side = inputs.read_sides(profile)["train"]
    # Another identity is another run, as in the paper: twins of two schedules share no random number.
    own = int(np.random.SeedSequence([seed, zlib.crc32(model.encode())]).generate_state(1)[0])
    torch.manual_seed(own)
    student = Student(design, sizes(profile, given))
    start = {"teacher": "tokens", "new": "reduced" if section.tokens == "pca" else ""}.get(
        design.tokens
    )
    if start:
        with torch.no_grad():
            student.embedding.weight.copy_(
                torch.from_numpy(given[start])[:, : student.embedding.embedding_dim]
            )
    student.to(models.device())
    use = "train" if design.annotated or design.loss in ("triplet", "complex") else "distilled"
    examples, held_out = np.arange(len(ids[use]))[:, None], events.held_out(section.documents)
    if use == "train":
        examples = (
            np.unique(side.pairs)[:, None] if design.annotated else events.triplets(side, own)
        )
        examples = np.random.default_rng(own).permutation(examples)[
            : None if design.annotated else section.triplets
        ]
        held_out = events.held_out(len(examples))
    parts = np.split(examples, [len(examples) - held_out])
    history = distil.train(student, ids[use], vectors[use], parts, seed=own, settings=section)
    result = {use: student.encode(part) for use, part in ids.items() if use != "distilled"}
    return result | {"megabytes": np.array(student.megabytes), "held_out": np.array(history)}


def sizes(profile: Profile, given: dict[str, np.ndarray]) -> Sizes:
    """The widths of a profile's students: the paper's times its `width`, in steps of eight; the teacher's output."""
    vocabulary, wide = given["tokens"].shape
    token, hidden, feed_forward = (
        scaled(number, profile.width) for number in (TOKEN_DIM, 128, 1024)
    )
    return Sizes(vocabulary, token, hidden, int(given["output"]), wide, feed_forward)


def _given(model: str, profile: Profile) -> dict[str, Any]:
    uses = {use: part for use, part in inputs.texts(profile).items() if use != "distilled"}
    if model in (TFIDF, TFIDF_BEFORE):
        from sklearn.feature_extraction.text import TfidfVectorizer

        # Words of the texts to be clustered need no label either, and news are full of new names.
        words = TfidfVectorizer(stop_words="english", sublinear_tf=True)
        if model == TFIDF:
            return {use: words.fit_transform(part) for use, part in uses.items()}
        words.fit(itertools.chain(inputs.texts(profile)["distilled"], uses["train"]))
        return {use: words.transform(part) for use, part in uses.items()}
    if model == UNTUNED:
        return inputs.untuned(profile)
    given = inputs.inputs_of(profile)
    if model == TEACHER:
        vectors = inputs.teacher_vectors(profile)
        return {use: vectors[use] for use in uses} | {"megabytes": given["megabytes"]}
    ids, tokens = inputs.token_ids(profile), given["tokens"]
    rows = {use: np.stack([tokens[row[1:-1]].mean(0) for row in ids[use]]) for use in uses}
    return rows | {"megabytes": np.array(4 * tokens.size / 2**20)}
