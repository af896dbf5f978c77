"""How good an embedding is: heads, metrics and baselines (thesis, Sections 4.2 and 5.2)."""
