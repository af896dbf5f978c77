"""Dataset folders, the one way texts and tasks come in, and the distillation corpus drawn from them."""
