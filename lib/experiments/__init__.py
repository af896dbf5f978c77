"""From labels of models to tidy records: shared inputs, training, embeddings, scores."""

from lib.experiments.bench import Bench
