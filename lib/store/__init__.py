"""Keeps computed products under keys of what they were made from, and runs jobs in processes."""
