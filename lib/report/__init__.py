"""A small site of everything that was made."""
