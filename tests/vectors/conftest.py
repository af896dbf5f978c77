"""A place for what is kept, and dataset folders, for tests of vectors."""

import numpy as np

from tests.data.conftest import apart  # noqa: F401

SUBJECTS = {
    "river": "river water boats sea harbour tide sail wind coast fish".split(),
    "court": "court judge jury trial law witness sentence appeal crime prison".split(),
}
COMMON = "soil seeds plants rails ticket signal flour butter salt harbour boat tide the of".split()


def make_text(number, sentences=6):
    """A text of one of two subjects, in turn."""
    generator, words = np.random.default_rng(number), [*SUBJECTS.values()][number % 2]
    drawn = (generator.choice(words, 3) for _ in range(sentences))
    return " ".join(f"The {a} of the {b} is near the {c} of {number}x." for a, b, c in drawn)


def draw_coins(copies, spaced=False, count=60):
    """Rows of random words with the labels of a coin, each text given several times."""
    generator = np.random.default_rng(1)
    texts = [" ".join(generator.choice(COMMON, 40)) for _ in range(count)]
    labels = generator.choice(["x", "y"], count).tolist()
    rows = [
        {"id": f"{number}-{copy}", "text": texts[number].replace(" ", "  ", copy if spaced else 0)}
        for copy in range(copies)
        for number in range(count)
    ]
    return [row | {"label": labels[place % count]} for place, row in enumerate(rows)]
