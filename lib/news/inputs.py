"""What students are made from: all texts, the teacher's vectors and token ids of them, and its token embeddings.

Each is computed once and kept in the store. Its recipe names the code of this module, which knows no student, so what
changes in students' code computes nothing here anew.
"""

import itertools
from typing import Any

import numpy as np

from lib.config.profiles import Profile
from lib.experiments import keys, models, structural_teacher
from lib.news import events, tuning
from lib.news.widths import TOKEN_DIM, scaled
from lib.store.files import fingerprint
from lib.store.records import Recipe, once, store
from lib.store.source_keys import source_key

SPREAD = 0.5  # standard deviation of new token embeddings that start from principal components
PIECE = 800  # texts that one process embeds with the teacher: 20 seconds


def texts(profile: Profile) -> dict[str, list[str]]:
    """Every text by its use: "distilled" (held-out ones last), the three sides, and "rated" where there are ratings."""
    sides, rated = read_sides(profile), events.rated_stories(profile)
    uses = {"distilled": events.distillation_texts(profile, sides)} | {name: [*sides[name].texts] for name in sides}
    return uses | ({"rated": rated[0]} if rated else {})


def recipe_of(kind: str, profile: Profile, settings: Any, module: str = "lib.news.inputs") -> Recipe:
    """module: whose code makes the value; what this module makes does not depend on how students are trained."""

    def read() -> list[str]:
        pairs = [[side.pairs.tolist(), side.positive.tolist()] for side in read_sides(profile).values()]
        return [fingerprint(texts(profile)), fingerprint(pairs)]

    data = once({"kind": "news_texts", "profile": profile.model_dump(mode="json")}, read)
    stop = (*keys.NOT_ENTERED, "lib.published", "lib.news.tuning")  # tuning's recipe, in this one, has its code
    made_by = [source_key(module, "lib.config.environment", stop=stop)]
    made_by.append([models.device(), keys.versions("torch", "transformers", "numpy", "scikit-learn")])
    teacher = keys.structural_teacher(profile)
    if profile.news.tuned_teacher:
        teacher = tuning.recipe(profile, read_sides(profile)["train"])
    return {"kind": kind, "settings": settings, "data": data, "teacher": teacher, "code": made_by}


def read_sides(profile: Profile) -> dict[str, events.Side]:
    """The three sides, read once in a process."""
    recipe = {"kind": "news_sides", "profile": profile.model_dump(mode="json")}
    return once(recipe, lambda: events.read(profile))


def teacher_vectors(profile: Profile) -> dict[str, np.ndarray]:
    """The teacher's vectors by use, (texts, dim), each computed once."""
    uses = texts(profile)
    rows = np.concatenate([piece(start, profile) for start in range(0, sum(map(len, uses.values())), PIECE)])
    borders = np.cumsum([len(part) for part in uses.values()])[:-1]
    return dict(zip(uses, np.split(rows, borders), strict=True))


def piece(start: int, profile: Profile) -> np.ndarray:
    """Vectors of some of all texts, in their order."""

    def embed() -> dict[str, np.ndarray]:
        every = list(itertools.chain(*texts(profile).values()))[start : start + PIECE]
        border = max(0, min(PIECE, len(texts(profile)["distilled"]) - start))
        parts = ((window_tokens(profile), every[:border]), (profile.news.max_tokens, every[border:]))
        return {"vectors": np.concatenate([reader(profile, n).encode(part) for n, part in parts if part])}

    settings = [start, PIECE, profile.news.max_tokens, window_tokens(profile)]
    return store().arrays(recipe_of("news_teacher", profile, settings), embed)["vectors"]


def reader(profile: Profile, max_tokens: int) -> Any:
    """The teacher, a `TunedTeacher` where the profile wants it, else an `SBERT`, reading so many tokens of a text."""
    encoder = _encoder(profile, max_tokens)
    if profile.news.tuned_teacher:
        return tuning.load(encoder, profile, read_sides(profile)["train"])
    return encoder


def untuned(profile: Profile) -> dict[str, np.ndarray]:
    """The structural teacher's `megabytes` and its vectors of what is clustered, by use, (texts, dim): what tuning is
    compared with."""

    def embed() -> dict[str, np.ndarray]:
        encoder = _encoder(profile, profile.news.max_tokens)
        vectors = {use: encoder.encode(part) for use, part in texts(profile).items() if use != "distilled"}
        return vectors | {"megabytes": _megabytes(encoder)}

    return store().arrays(recipe_of("news_untuned", profile, profile.news.max_tokens), embed)


def _encoder(profile: Profile, max_tokens: int) -> Any:
    section = profile.structural_teacher.model_copy(update={"max_tokens": max_tokens})
    return structural_teacher.load(profile.model_copy(update={"structural_teacher": section}))


def _megabytes(teacher: Any) -> np.ndarray:
    return np.array(4 * sum(weights.numel() for weights in teacher.model.parameters()) / 2**20)


def window_tokens(profile: Profile) -> int:
    """Where windows to distil on are cut: a word has at least one token, so whole ones are of equal length, and
    batches of them need no padding."""
    return min(profile.news.words + 2, profile.news.max_tokens)


def inputs_of(profile: Profile) -> dict[str, np.ndarray]:
    """Of all texts the teacher's token `ids` (flat) and `lengths`, special ones included; its own `tokens` (vocabulary,
    dim) and the start of new ones, `reduced` (vocabulary, token): their principal components; `megabytes`, its size;
    `output`, the width of its vectors.
    """

    def make() -> dict[str, np.ndarray]:
        from sklearn.decomposition import PCA

        teacher, rows = reader(profile, profile.news.max_tokens), list[list[int]]()
        for use, part in texts(profile).items():
            limit = window_tokens(profile) if use == "distilled" else profile.news.max_tokens
            rows += teacher.tokenizer(part, max_length=limit, truncation=True, verbose=False)["input_ids"]
        tokens = teacher.model.get_input_embeddings().weight.cpu().numpy()
        width = scaled(TOKEN_DIM, profile.width)
        reduced = PCA(width, svd_solver="covariance_eigh").fit_transform(tokens)
        vectors = {"tokens": tokens, "reduced": (SPREAD * reduced / reduced.std()).astype(np.float32)}
        ids = {"ids": np.concatenate(rows), "lengths": np.array([len(row) for row in rows])}
        return ids | vectors | {"megabytes": _megabytes(teacher), "output": np.array(teacher.dim)}

    settings = [profile.width, SPREAD, profile.news.max_tokens, window_tokens(profile)]
    recipe = recipe_of("news_inputs", profile, settings)
    return once(recipe, lambda: store().arrays(recipe, make))


def token_ids(profile: Profile) -> dict[str, list[np.ndarray]]:
    """The token ids of all texts by use, (tokens,) int64 each."""
    inputs, uses = inputs_of(profile), texts(profile)
    rows = iter(np.split(inputs["ids"], np.cumsum(inputs["lengths"])[:-1]))
    return {use: [*itertools.islice(rows, len(part))] for use, part in uses.items()}
