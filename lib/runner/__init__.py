"""Running notebooks: which, in what order, with what shown, and the environment they need."""
