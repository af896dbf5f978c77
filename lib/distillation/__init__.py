"""Training a student to mimic its teachers (thesis, Chapter 3)."""
