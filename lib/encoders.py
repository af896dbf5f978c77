"""Loads the encoder that `python -m lib.embed` saved: `load(folder).encode(texts)`."""

from lib.vectors.encoder import Encoder, Passages, load

__all__ = ["Encoder", "Passages", "load"]
