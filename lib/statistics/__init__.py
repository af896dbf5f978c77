"""Which differences exceed the noise: effects, intervals, verdicts. Numbers come in as arguments."""
