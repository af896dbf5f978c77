"""The teachers: `sbert` is the structural one, `paragraph_vector` the contextual one."""
