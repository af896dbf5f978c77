"""The tested package behind the notebooks: losses, models, data, evaluation, plotting."""
