"""The records behind the figures and tables of each chapter."""
