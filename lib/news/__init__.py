"""The second paper, "Distilled Model for Russian News Clustering": small students, clustered."""
