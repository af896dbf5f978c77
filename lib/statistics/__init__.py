"""Judges which differences exceed the noise: effects, intervals and verdicts from scores."""
