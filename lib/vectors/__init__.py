"""Vectors of your own documents: the models, how good each is, and what is saved."""

BASE = "base"  # all layers of the teacher's encoder, extended to read 4,096 tokens
CUT, CHUNKS, STUDENT = "teacher, cut", "mean of chunks", "student"
TFIDF, LSA, BOTH = "TF-IDF", "LSA", "both"  # base and LSA side by side
# The models that can be saved, the easiest to deploy first.
SIMPLEST_FIRST = (BASE, CUT, CHUNKS, STUDENT, LSA, BOTH)
