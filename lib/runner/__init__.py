"""Running notebooks: what a command asks for, what is up to date, the frame of a notebook."""
