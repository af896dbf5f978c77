"""Which differences exceed the noise."""
