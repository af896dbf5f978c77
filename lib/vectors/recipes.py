"""Recipes by which `lib.train` trains a student of one's own documents, by name.

tests/benchmarks/results/recipes.md says what they came to. `trained.py` trains by them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """What a student learns.

    purpose: in a line, for those who choose. similarity, crops: weights, as in `AlignedScheme`.
    joint: whole documents and stretches learn vectors of the teacher and of LSA together.
    """

    purpose: str
    similarity: float = 0.0
    crops: float = 0.0
    joint: bool = False


RECIPES = {
    "aligned": Recipe("each stretch of a long text, as the teacher embeds it alone"),
    "aligned-similarity": Recipe(
        "the same, and how similar the teacher finds two stretches", similarity=20
    ),
    "aligned-crops": Recipe(
        "as aligned, and parts of one document nearer than those of others", crops=0.1
    ),
    "joint": Recipe("the teacher and LSA in one vector", similarity=20, joint=True),
}
