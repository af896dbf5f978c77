"""What may be set, where things are, and which notebook makes which figure."""
