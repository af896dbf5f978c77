"""Which differences exceed the noise: effects, intervals, verdicts, from numbers alone."""
