"""Running notebooks: what a command asks for, what is up to date, and the frame of every
notebook."""
