"""What the students of every chapter start from."""

from lib.chapters.contextual import mean_cosine
from lib.chapters.teacher_distances import cosines
from lib.experiments.bench import Bench

LOSS, BY_FREQUENCY = "loss of masked words", "loss of guessing by frequency"
ALIKE, NEAR = "cosine between texts", "cosine to the teacher"


def measure_base(bench: Bench) -> dict[str, float]:
    """Measure the base on held-out documents.

    `ALIKE` is the mean cosine between its embeddings of two texts, which is high in raw language
    models; `NEAR` that between its embedding of a text and the structural teacher's. A language
    model also has `LOSS` and `BY_FREQUENCY`, in nats per word to guess.
    """
    embeddings, teacher = (each.embed(bench.held_out)[:] for each in (bench.base, bench.teacher))
    numbers, learned = {}, bench.base.history()
    if learned is not None:
        numbers = {LOSS: float(learned["held_out"]), BY_FREQUENCY: float(learned["unigram"])}
    near = float(cosines(embeddings, teacher).mean())
    return numbers | {ALIKE: mean_cosine(embeddings), NEAR: near}
