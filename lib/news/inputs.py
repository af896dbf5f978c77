"""What students are made from: all texts, the teacher's vectors and token ids of them, and its token embeddings.

Each is computed once and kept in the store; vectors, token ids and the texts to distil on stay on disk. Its recipe
names the code of this module, which knows no student, so what changes in students' code computes nothing here anew.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from lib.config.profiles import Profile
from lib.data.written_once import sha256
from lib.experiments import keys, models, structural_teacher
from lib.experiments.text_sets import TokenIds
from lib.news import events, tuning
from lib.news.widths import TOKEN_DIM, scaled
from lib.store.files import fingerprint
from lib.store.records import Recipe, once, store
from lib.store.source_keys import source_key

SPREAD = 0.5  # standard deviation of new token embeddings that start from principal components
PIECE = 800  # texts that the teacher embeds between two writes: 20 seconds of a processor
_STOP = (*keys.NOT_ENTERED, "lib.published", "lib.news.tuning")  # tuning's recipe has its code


def read_sides(profile: Profile) -> dict[str, events.Side]:
    """The three sides, read once in a process."""
    recipe = {"kind": "news_sides", "profile": profile.model_dump(mode="json")}
    return once(recipe, lambda: events.read(profile))


def texts(profile: Profile) -> dict[str, Sequence[str]]:
    """Every text by its use: "distilled" (held-out ones last), the three sides, and "rated" where there are ratings."""
    sides, rated = read_sides(profile), events.rated_stories(profile)
    uses = {"distilled": _windows(profile)} | {name: side.texts for name, side in sides.items()}
    return uses | ({"rated": rated[0]} if rated else {})


def _windows(profile: Profile) -> events.Windows:
    """The texts to distil on. The store keeps where their words stand; they stay in their folders."""

    def read() -> events.Windows:
        draw = functools.partial(events.drawn_windows, profile, read_sides(profile))
        rows = store().arrays(_windows_recipe(profile), lambda: {"rows": draw()})["rows"]
        return events.Windows(events.text_folders(profile), rows)

    return once({"kind": "news_texts", "profile": profile.model_dump(mode="json")}, read)


def _windows_recipe(profile: Profile) -> Recipe:
    settings = [
        profile.news.model_dump(mode="json", include={"documents", "words"}),
        profile.corpus.seed,
    ]
    files = [[sha256(path) for path in folder.files] for folder in events.text_folders(profile)]
    tested = [
        [side.texts, side.groups] for name, side in read_sides(profile).items() if name != "train"
    ]
    code = source_key("lib.news.events", stop=_STOP)
    return {
        "kind": "news_windows",
        "settings": settings,
        "files": files,
        "tested": fingerprint(tested),
        "code": code,
    }


def recipe_of(
    kind: str, profile: Profile, settings: Any, module: str = "lib.news.inputs"
) -> Recipe:
    """module: whose code makes the value; what this module makes does not depend on how students are trained."""

    def read() -> list[Any]:
        pairs = [
            [side.pairs.tolist(), side.positive.tolist()] for side in read_sides(profile).values()
        ]
        clustered = {use: [*part] for use, part in texts(profile).items() if use != "distilled"}
        return [fingerprint(clustered), fingerprint(pairs), _windows_recipe(profile)]

    data = once({"kind": "news_data", "profile": profile.model_dump(mode="json")}, read)
    made_by = [source_key(module, "lib.config.environment", stop=_STOP)]
    made_by.append(
        [models.device(), keys.versions("torch", "transformers", "numpy", "scipy", "scikit-learn")]
    )
    teacher = keys.structural_teacher(profile)
    if profile.news.tuned_teacher:
        teacher = tuning.recipe(profile, read_sides(profile)["train"])
    return {"kind": kind, "settings": settings, "data": data, "teacher": teacher, "code": made_by}


def teacher_vectors(profile: Profile) -> dict[str, np.ndarray]:
    """The teacher's vectors of all texts by use, (texts, dim)."""
    return {use: read(use, profile)["vectors"] for use in texts(profile)}


def token_ids(profile: Profile) -> dict[str, TokenIds]:
    """The teacher's token ids of all texts by use, special ones included."""
    arrays = {use: read(use, profile) for use in texts(profile)}
    return {use: TokenIds(part["ids"], part["lengths"]) for use, part in arrays.items()}


def read(use: str, profile: Profile) -> dict[str, np.ndarray]:
    """What the teacher makes of the texts of a use, mapped from disk: `vectors` (texts, dim), token `ids` of one text
    behind another, `lengths` (texts,)."""
    teacher = functools.cache(lambda: reader(profile, max_tokens(use, profile)))

    def embed(part: Sequence[str]) -> dict[str, np.ndarray]:
        part = [*part]  # read from disk once
        rows, _ = teacher().tokenize(part)
        lengths = np.array([len(row) for row in rows])
        return {"vectors": teacher().encode(part), "ids": np.concatenate(rows), "lengths": lengths}

    recipe = recipe_of("news_teacher", profile, [use, max_tokens(use, profile)])
    return once(
        recipe, lambda: store().mapped(recipe, lambda: texts(profile)[use], embed, piece=PIECE)
    )


def reader(profile: Profile, max_tokens: int) -> Any:
    """The teacher, a `TunedTeacher` where the profile wants it, else an `SBERT`, reading so many tokens of a text."""
    encoder = _encoder(profile, max_tokens)
    if profile.news.tuned_teacher:
        return tuning.load(encoder, profile, read_sides(profile)["train"])
    return encoder


def untuned(profile: Profile) -> dict[str, np.ndarray]:
    """What tuning is compared with: the teacher's `megabytes` and its vectors of what is clustered, by use."""

    def embed() -> dict[str, np.ndarray]:
        encoder = _encoder(profile, profile.news.max_tokens)
        vectors = {
            use: encoder.encode(part) for use, part in texts(profile).items() if use != "distilled"
        }
        return vectors | {"megabytes": _megabytes(encoder)}

    return store().arrays(recipe_of("news_untuned", profile, profile.news.max_tokens), embed)


def _encoder(profile: Profile, max_tokens: int) -> Any:
    section = profile.structural_teacher.model_copy(update={"max_tokens": max_tokens})
    return structural_teacher.load(profile.model_copy(update={"structural_teacher": section}))


def _megabytes(teacher: Any) -> np.ndarray:
    return np.array(4 * sum(weights.numel() for weights in teacher.model.parameters()) / 2**20)


def max_tokens(use: str, profile: Profile) -> int:
    """Where texts are cut. A word has at least one token, so whole windows are of equal length and need no padding."""
    most = profile.news.max_tokens
    return min(profile.news.words + 2, most) if use == "distilled" else most


def inputs_of(profile: Profile) -> dict[str, np.ndarray]:
    """The teacher's own `tokens` (vocabulary, dim) and the start of new ones, `reduced` (vocabulary, token): their
    principal components; `megabytes`, its size; `output`, the width of its vectors.
    """

    def make() -> dict[str, np.ndarray]:
        from sklearn.decomposition import PCA

        teacher = reader(profile, profile.news.max_tokens)
        tokens = teacher.model.get_input_embeddings().weight.cpu().numpy()
        width = scaled(TOKEN_DIM, profile.width)
        reduced = PCA(width, svd_solver="covariance_eigh").fit_transform(tokens)
        vectors = {
            "tokens": tokens,
            "reduced": (SPREAD * reduced / reduced.std()).astype(np.float32),
        }
        return vectors | {"megabytes": _megabytes(teacher), "output": np.array(teacher.dim)}

    recipe = recipe_of("news_inputs", profile, [profile.width, SPREAD])
    return once(recipe, lambda: store().arrays(recipe, make))
