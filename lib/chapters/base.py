"""What the students of every chapter start from."""

from lib.chapters.contextual import mean_cosine
from lib.chapters.teacher_distances import cosines
from lib.experiments.bench import Bench

LOSS, BY_FREQUENCY = "loss of masked words", "loss of guessing by frequency"
ALIKE, NEAR = "cosine between texts", "cosine to the teacher"


def measure_base(bench: Bench) -> dict[str, float]:
    """Measure the base on held-out documents; `ALIKE` is high in raw language models.

    A base that learned to guess words also has `LOSS` and `BY_FREQUENCY`, in nats a hidden word.
    """
    base, teacher = (model.embed(bench.held_out)[:] for model in (bench.base, bench.teacher))
    cosine = {ALIKE: mean_cosine(base), NEAR: float(cosines(base, teacher).mean())}
    if (history := bench.base.history()) is None:
        return cosine
    return {LOSS: float(history["held_out"]), BY_FREQUENCY: float(history["unigram"]), **cosine}
