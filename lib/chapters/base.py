"""What the students of every chapter start from."""

from lib.chapters.contextual import mean_cosine
from lib.chapters.teacher_distances import cosines
from lib.experiments.bench import Bench

LOSS, BY_FREQUENCY = "loss of masked words", "loss of guessing by frequency"
ALIKE, NEAR = "cosine between texts", "cosine to the teacher"


def measure_base(bench: Bench) -> dict[str, float]:
    """Measure the base on held-out documents.

    Returns
    -------
    dict
        If the base is a language model, `LOSS` and `BY_FREQUENCY`, in nats per word to guess.
        `ALIKE`, the mean cosine between its embeddings of two texts, which is high in raw language
        models. `NEAR`, the mean cosine between its embedding of a text and the structural
        teacher's.
    """
    embeddings = bench.embeddings("Longformer", bench.profile.seeds[0], split=None)["validation"]
    teacher, learned = bench.structural("validation")["embeddings"][:], bench.language_model()
    numbers = (
        {} if learned is None else {LOSS: learned["held_out"], BY_FREQUENCY: learned["unigram"]}
    )
    near = float(cosines(embeddings, teacher).mean())
    return numbers | {ALIKE: mean_cosine(embeddings), NEAR: near}
