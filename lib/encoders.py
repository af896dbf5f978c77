"""Load the encoder that `python -m lib.embed` saved, in two lines:

import lib.encoders
vectors = lib.encoders.load("my_texts_vectors/encoder").encode(texts)
"""

from lib.vectors.encoder import Chunks, Encoder, load

__all__ = ["Chunks", "Encoder", "load"]
