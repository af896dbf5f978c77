"""How good an embedding is: classification heads, metrics, baselines (thesis, Sections 4.2 and 5.2)."""
