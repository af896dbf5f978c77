"""The teachers: `sbert`, the structural one, and `paragraph_vector`, the contextual one."""
