"""One page of everything that was made."""
