"""SBERT (`sbert`), Paragraph Vector, TF-IDF and LSA (`words`), and rows of their vectors."""
