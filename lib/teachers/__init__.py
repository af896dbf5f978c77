"""The two teachers: `sbert`, the structural one, and `paragraph_vector`, the contextual one, by its `labels`."""
