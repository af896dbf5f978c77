"""Dataset folders, their tasks, and the corpus drawn from them."""
