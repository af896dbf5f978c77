"""From variants to tidy records: shared inputs, training, embeddings, heads."""

from lib.experiments.runs import cost, halves_mrr, retrieve, run
