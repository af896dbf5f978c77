"""Vectors of a person's own documents: what embeds them, how good that is, and what is saved."""
