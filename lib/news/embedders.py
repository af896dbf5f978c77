"""What embeds documents for clustering: the teacher, students distilled from it, and what needs no training.

Each is computed once and kept in the store under a recipe of all that made it, its source included.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import numpy as np

from lib.config.profiles import Profile
from lib.experiments import keys, structural_teacher
from lib.news import designs, distil, events
from lib.news.students import Sizes, Student
from lib.store import executors
from lib.store.files import fingerprint
from lib.store.records import Recipe, once, store
from lib.store.source_keys import source_key

OWN = ("bag;cosine", "BiGRU(2)+1 linear;attentive;random tokens;cosine")  # students that the paper does not have
TOKENS, TFIDF, ONE, TEACHER = "teacher tokens, averaged", "TF-IDF", "one cluster", "teacher"
TFIDF_BEFORE = "TF-IDF, words of the texts distilled on"  # knows what students know, and no word of the day
GIVEN = (ONE, TFIDF, TFIDF_BEFORE, TEACHER, TOKENS)  # trained by nobody here
SPREAD = 0.5  # standard deviation of new token embeddings that start from principal components
PIECE = 800  # texts that one process embeds with the teacher: 20 seconds


def texts(profile: Profile) -> dict[str, list[str]]:
    """Every text by its use: "distilled" (held-out ones last), the three sides, and "rated" where there are ratings."""
    sides = _sides(profile)
    rated = events.rated_stories(profile)
    uses = {"distilled": events.distillation_texts(profile, sides)}
    uses |= {name: list(side.texts) for name, side in sides.items()}
    return uses | ({"rated": rated[0]} if rated else {})


def of(model: str, seed: int, profile: Profile) -> dict[str, np.ndarray]:
    """A model's vectors of "train", "public", "private" and perhaps "rated" texts, (documents, dim), and its
    `megabytes`; students have `held_out`, the loss by epoch."""
    if model in GIVEN:
        return _given(model, profile)
    recipe = student_recipe(model, seed, profile)
    return store().arrays(recipe, lambda: _student(model, seed, profile), model=model, seed=seed)


def prepare(pairs: list[tuple[str, int]], profile: Profile) -> None:
    """Compute what is missing of the (model, seed) in processes: first the teacher's vectors, then students."""
    recipes = [(pair, student_recipe(*pair, profile)) for pair in pairs if pair[0] not in GIVEN]
    missing = [pair for pair, recipe in recipes if not store().has(recipe)]
    if missing:
        inputs_of(profile)
        count = sum(map(len, texts(profile).values()))
        executors.submit([(_piece, (start, profile)) for start in range(0, count, PIECE)], None, "teacher")
        executors.submit([(of, (*pair, profile)) for pair in missing], None, "students")


def student_recipe(model: str, seed: int, profile: Profile) -> Recipe:
    """All that makes a student and its vectors."""
    settings = profile.news.model_dump(mode="json", exclude={"events", "texts", "words"})
    return recipe_of("news_student", profile, [model, seed, profile.width, settings])


def recipe_of(kind: str, profile: Profile, settings: Any, module: str = "lib.news.embedders") -> Recipe:
    """module: whose code makes the value; vectors of the teacher do not depend on how students are trained."""

    def read() -> list[str]:
        sides = _sides(profile)
        pairs = [[side.pairs.tolist(), side.positive.tolist()] for side in sides.values()]
        return [fingerprint(texts(profile)), fingerprint(pairs)]

    data = once({"kind": "news_texts", "profile": profile.model_dump(mode="json")}, read)
    made_by = [source_key(module, "lib.config.environment", stop=(*keys.NOT_ENTERED, "lib.published"))]
    made_by.append(keys.versions("torch", "transformers", "numpy", "scikit-learn"))
    teacher = keys.structural_teacher(profile)
    return {"kind": kind, "settings": settings, "data": data, "teacher": teacher, "code": made_by}


def _sides(profile: Profile) -> dict[str, events.Side]:
    recipe = {"kind": "news_sides", "profile": profile.model_dump(mode="json")}
    return once(recipe, lambda: events.read(profile))


def teacher_vectors(profile: Profile) -> dict[str, np.ndarray]:
    """The teacher's vectors by use, (texts, dim), each computed once."""
    uses = texts(profile)
    count = sum(map(len, uses.values()))
    rows = np.concatenate([_piece(start, profile) for start in range(0, count, PIECE)])
    borders = np.cumsum([len(part) for part in uses.values()])[:-1]
    return dict(zip(uses, np.split(rows, borders), strict=True))


def _piece(start: int, profile: Profile) -> np.ndarray:
    """Vectors of some of all texts, in their order."""

    def embed() -> dict[str, np.ndarray]:
        every = list(itertools.chain(*texts(profile).values()))[start : start + PIECE]
        border = max(0, min(PIECE, len(texts(profile)["distilled"]) - start))
        parts = {window_tokens(profile): every[:border], profile.news.max_tokens: every[border:]}
        return {"vectors": np.concatenate([reader(profile, n).encode(part) for n, part in parts.items() if part])}

    settings = [start, PIECE, profile.news.max_tokens, window_tokens(profile)]
    return store().arrays(recipe_of("news_teacher", profile, settings, "lib.news.events"), embed)["vectors"]


def reader(profile: Profile, max_tokens: int) -> Any:
    """The teacher as it reads that many tokens of a text."""
    section = profile.structural_teacher.model_copy(update={"max_tokens": max_tokens})
    return structural_teacher.load(profile.model_copy(update={"structural_teacher": section}))


def window_tokens(profile: Profile) -> int:
    """Where windows to distil on are cut: a word has at least one token, so whole ones are of equal length, and
    batches of them need no padding."""
    return min(profile.news.words + 2, profile.news.max_tokens)


def inputs_of(profile: Profile) -> dict[str, np.ndarray]:
    """Of all texts the teacher's token `ids` (flat) and `lengths`, special ones included; its own `tokens` (vocabulary,
    dim) and the start of new ones, `reduced` (vocabulary, token): their principal components. Its size and time.
    """

    def make() -> dict[str, np.ndarray]:
        from sklearn.decomposition import PCA

        teacher, every, options = (
            reader(profile, profile.news.max_tokens),
            texts(profile),
            {"truncation": True, "verbose": False},
        )
        limits = dict.fromkeys(every, profile.news.max_tokens) | {"distilled": window_tokens(profile)}
        rows = [teacher.tokenizer(part, max_length=limits[use], **options) for use, part in every.items()]
        ids = list(itertools.chain(*(part["input_ids"] for part in rows)))
        tokens = teacher.model.get_input_embeddings().weight.numpy()
        width = _scaled(designs.TOKEN_DIM, profile)
        reduced = PCA(width, svd_solver="covariance_eigh").fit_transform(tokens)
        vectors = {"tokens": tokens, "reduced": (SPREAD * reduced / reduced.std()).astype(np.float32)}
        weights = sum(part.numel() for part in teacher.model.parameters())
        lengths = np.array([len(row) for row in ids])
        ids = np.fromiter(itertools.chain.from_iterable(ids), dtype=np.int64)
        return {"ids": ids, "lengths": lengths, **vectors, "megabytes": np.array(4 * weights / 2**20)}

    settings = [profile.width, SPREAD, profile.news.max_tokens, window_tokens(profile)]
    recipe = recipe_of("news_inputs", profile, settings, "lib.news.events")
    return once(recipe, lambda: store().arrays(recipe, make))


def token_ids(profile: Profile) -> dict[str, list[list[int]]]:
    """The token ids of all texts by use."""
    inputs, uses = inputs_of(profile), texts(profile)
    rows = iter(np.split(inputs["ids"], np.cumsum(inputs["lengths"])[:-1]))
    return {use: [row.tolist() for row in itertools.islice(rows, len(part))] for use, part in uses.items()}


def _student(model: str, seed: int, profile: Profile) -> dict[str, np.ndarray]:
    """Train a student, embed the texts with it."""
    import torch

    section, design = profile.news, designs.parse(model)
    inputs, ids, vectors = inputs_of(profile), token_ids(profile), teacher_vectors(profile)
    if design.architecture == "bag":  # what holds it, sentence-transformers' StaticEmbedding, knows no special tokens
        ids = {use: [row[1:-1] for row in rows] for use, rows in ids.items()}
    side = _sides(profile)["train"]
    # Another identity is another run, as in the paper: twins of two schedules share no random number.
    own = int(np.random.SeedSequence([seed, zlib.crc32(model.encode())]).generate_state(1)[0])
    torch.manual_seed(own)
    student = Student(design, sizes(profile, inputs))
    start = {"teacher": "tokens", "new": "reduced" if section.tokens == "pca" else ""}.get(design.tokens)
    if start:
        with torch.no_grad():
            student.embedding.weight.copy_(torch.from_numpy(inputs[start])[:, : student.embedding.embedding_dim])
    use = "train" if design.annotated or design.loss in ("triplet", "complex") else "distilled"
    examples, held_out = np.arange(len(ids[use]))[:, None], events.held_out(section.documents)
    if use == "train":
        examples = np.unique(side.pairs)[:, None] if design.annotated else distil.triplets(side, own)
        examples = np.random.default_rng(own).permutation(examples)
        held_out = events.held_out(len(examples))
    options = section.model_dump(include={"epochs", "batch_size", "patience", "plateau_patience"})
    rates = {"rate": section.rates.get(design.architecture, section.rates["other"])}
    rates["token_rate"] = section.rates.get("tokens", rates["rate"])
    parts = np.split(examples, [len(examples) - held_out])
    history = distil.train(student, ids[use], vectors[use], *parts, seed=own, **rates, **options)
    result = {use: student.encode(part) for use, part in ids.items() if use != "distilled"}
    return result | {"megabytes": np.array(student.megabytes), "held_out": np.array(history)}


def sizes(profile: Profile, inputs: dict[str, np.ndarray]) -> Sizes:
    """The widths of a profile's students: the paper's times its `width`, in steps of eight; the teacher's output."""
    vocabulary, dim = inputs["tokens"].shape
    token, hidden, feed_forward = (_scaled(number, profile) for number in (designs.TOKEN_DIM, 128, 1024))
    return Sizes(vocabulary, token, hidden, dim, dim, feed_forward)


def _scaled(number: int, profile: Profile) -> int:
    return max(8, 8 * round(number * profile.width / 8))


def _given(model: str, profile: Profile) -> dict[str, np.ndarray]:
    uses = {use: part for use, part in texts(profile).items() if use != "distilled"}
    if model == TFIDF:
        from sklearn.feature_extraction.text import TfidfVectorizer

        # Words are counted on the texts to be clustered: no label is needed for that, and news are full of new names.
        words = TfidfVectorizer(stop_words="english", sublinear_tf=True)
        return {use: words.fit_transform(part).toarray() for use, part in uses.items()}
    if model == TFIDF_BEFORE:
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer().fit([*texts(profile)["distilled"], *uses["train"]])
        return {use: words.transform(part).toarray() for use, part in uses.items()}
    inputs = inputs_of(profile)
    if model == TEACHER:
        vectors = teacher_vectors(profile)
        return {use: vectors[use] for use in uses} | {"megabytes": inputs["megabytes"]}
    ids, tokens = token_ids(profile), inputs["tokens"]
    rows = {use: np.stack([tokens[row[1:-1]].mean(0) for row in ids[use]]) for use in uses}
    return rows | {"megabytes": np.array(4 * tokens.size / 2**20)}
