"""Vectors of your own documents: the models, how good each is, and what is saved."""
