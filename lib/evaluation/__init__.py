"""Measures how good an embedding is: classifiers, rankings, metrics (thesis Sections 4.2, 5.3)."""
