"""The second paper, "Distilled Model for Russian News Clustering": clustering by small students."""
