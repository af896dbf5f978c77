"""From labels of models to tidy records: shared inputs, training, embeddings, scores."""
