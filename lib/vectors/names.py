"""What the models of the table are called."""

BASE = "base"  # all layers of the teacher's encoder, reading on to 4,096 tokens
CUT = "teacher, cut"
CHUNKS = "mean of chunks"
STUDENT = "student"
TFIDF = "TF-IDF"
LSA = "LSA"
BOTH = "both"  # base and LSA side by side
CLASSIFIER = "TF-IDF + dense"  # what a linear classifier of texts reads best
ORDER = (BASE, CUT, CHUNKS, STUDENT, TFIDF, LSA, BOTH, CLASSIFIER)  # of the table
# What can be saved, the simplest first. Where texts do not tell two models apart, the one with
# fewer parts is taken, because it is easier to deploy: a whole text in one pass; a stock model that
# reads its beginning; pieces of a text; a model that was trained; a part that was fitted to these
# documents; two parts.
SIMPLEST_FIRST = (BASE, CUT, CHUNKS, STUDENT, LSA, BOTH)
