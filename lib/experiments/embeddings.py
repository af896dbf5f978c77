"""The embeddings of every model: trained where needed, computed once, kept under a key of all that made them."""

import numpy as np
from scipy import sparse

from lib.config.schema import Profile
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.evaluation import baselines
from lib.experiments import (
    contextual_teacher,
    keys,
    models,
    structural_teacher,
    student_training,
    text_sets,
)
from lib.store.records import store


@keys.data_at_rest()
def of(
    variant: Variant | str, seed: int, profile: Profile, split: str | None = "validation"
) -> dict[str, np.ndarray]:
    """One model's arrays: "tasks" (texts, dim), "validation" (documents, dim), "halves" of these (first halves, then
    second ones), and a student's training history. The mean of chunks, Paragraph Vectors and TF-IDF have "tasks" alone.

    The history: "loss" (updates,), and with a contextual teacher "watched" (measurements, 4): update, held-out CCA of
    the embeddings and of their projections, and the contextual share of the gradient. split: asked for "validation",
    "tasks" has rows for the texts of training and validation only; for "test" for all, and base and students
    have them once more, as "cut", embedded up to the structural teacher's limit; None, for controls, leaves "tasks" and
    "halves" out, and what is watched on the way. TF-IDF's "tasks" are sparse. Files count as they are at the beginning.
    """
    variant = variants.parse(variant) if isinstance(variant, str) else variant
    recipe = keys.embeddings(variant, seed, profile, split)
    note = {"model": variant.uncut.identity, "seed": seed, "device": models.device()}
    arrays = store().arrays(recipe, lambda: _compute(variant, seed, profile, split), **note)
    if variant.kind == "tfidf":
        values = (arrays[name] for name in ("data", "indices", "indptr"))
        return {"tasks": sparse.csr_array(tuple(values), shape=tuple(arrays["shape"]))}
    if variant.cut:
        if "cut" not in arrays:
            raise ValueError(f"{variant}: texts are cut for the split 'test' alone, got {split!r}")
        arrays["tasks"] = arrays["cut"]
    if variant.kind == "student":
        student_training.remove_checkpoint(
            variant, seed, profile
        )  # not before the embeddings are in the store
    return arrays


def _compute(
    variant: Variant, seed: int, profile: Profile, split: str | None
) -> dict[str, np.ndarray]:
    sets = keys.embedded_sets(split)
    if variant.kind == "sbert":
        return {
            name: structural_teacher.embeddings(text_set, profile)["embeddings"]
            for name, text_set in sets.items()
        }
    if variant.kind == "paragraph_vector":
        return {
            "tasks": contextual_teacher.embeddings(
                variant.contextual, sets["tasks"], profile.reseeded(seed)
            )
        }
    if variant.kind == "sbert_chunks":
        texts = text_sets.texts(sets["tasks"], profile)
        return {"tasks": baselines.mean_of_chunks(structural_teacher.load(profile), texts)}
    if variant.kind == "tfidf":
        vectors = baselines.tfidf(
            text_sets.texts("train", profile), text_sets.texts(sets["tasks"], profile)
        )
        arrays = {name: getattr(vectors, name) for name in ("data", "indices", "indptr")}
        return arrays | {"shape": np.array(vectors.shape)}
    arrays = {}
    if variant.kind == "base":
        student = models.base_student(profile).to(models.device())
    else:
        start = (
            of(Variant("base"), 0, profile)["validation"]
            if variant.contextual is not None
            else None
        )
        parts = 1 if split is None else student_training.WATCHED_PARTS
        student, objective, history = student_training.train_student(
            variant, seed, profile, start, parts=parts
        )
        arrays["loss"] = np.asarray(history.loss)
    ids = {name: text_sets.token_ids(text_set, profile) for name, text_set in sets.items()}
    arrays |= {
        name: student.encode(rows, precision=models.precision(profile))
        for name, rows in ids.items()
    }
    if split == "test":
        limit = profile.structural_teacher.max_tokens
        long = [row for row, tokens in enumerate(ids["tasks"]) if len(tokens) > limit]
        cut = [
            [*ids["tasks"][row][: limit - 1], ids["tasks"][row][-1]] for row in long
        ]  # the last token is special
        arrays["cut"] = arrays["tasks"].copy()
        arrays["cut"][long] = student.encode(cut, precision=models.precision(profile))
    if variant.contextual is not None:
        watch = student_training.held_out_watch(variant, profile)
        end = (len(history.loss), *watch.measure(arrays["validation"], objective))
        arrays["watched"] = np.asarray([*history.watched, end])
    return arrays
