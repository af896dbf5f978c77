"""Dataset folders, their tasks, the corpus drawn from them, and the builders that write them."""
