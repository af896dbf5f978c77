"""Loads the encoder that `python -m lib.embed` saved: `load(folder).encode(texts)`."""

from lib.vectors.encoder import Chunks, Encoder, load

__all__ = ["Chunks", "Encoder", "load"]
