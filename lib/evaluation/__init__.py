"""Measures how good an embedding is: heads, metrics, baselines (thesis Sections 4.2 and 5.2)."""
