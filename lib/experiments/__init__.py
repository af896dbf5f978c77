"""From variants to tidy records: shared inputs, training, embeddings, heads."""

from lib.experiments.runs import halves_mrr, retrieve, run
