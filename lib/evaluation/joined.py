"""Two kinds of vectors of the same texts, side by side: of meaning, and of words."""

import numpy as np
from jaxtyping import Float


def join_rows(
    dense: Float[np.ndarray, "texts dim"], lexical: Float[np.ndarray, "texts words"]
) -> Float[np.ndarray, "texts joined"]:
    """Both vectors of a text, each scaled to norm 1, as one of norm 1, float32.

    The cosine of two joined rows is the mean of the two cosines. A row of zeros, of a text without
    a known word, stays one.
    """
    parts = []
    for part in (dense, lexical):
        norms = np.linalg.norm(part, axis=1, keepdims=True)
        parts.append(np.divide(part, norms, out=np.zeros_like(part), where=norms > 0))
    return np.hstack(parts).astype(np.float32) * np.float32(np.sqrt(0.5))
