"""Dataset folders, their tasks, the corpus drawn from them, and the code that builds them."""
