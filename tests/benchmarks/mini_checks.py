"""The checks by which mini's tasks were chosen: clear of chance, below the ceiling, no short cut.

    python tests/benchmarks/mini_checks.py                    some five minutes of a core
    python tests/benchmarks/mini_checks.py --tasks PAN OC     of these tasks alone

No student is trained. Every number is the share of correct answers on the examples and folds that
students are judged by, for Chapter 4 and for Chapter 5. The first table has what should say
nothing: lengths, the share of masked words, digits, capitals and signs, one text of a pair alone.
It also has counts of words that a pair has in common, and a bag of token embeddings. The second has
TF-IDF, the structural teacher and the students' base by every readout. The third counts examples,
and tokens that a student embeds.
"""

from __future__ import annotations

import argparse
import re
import string
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.tree import DecisionTreeClassifier

from lib.evaluation import readouts
from lib.evaluation.heads import Job
from lib.evaluation.readouts import READOUTS
from lib.experiments.bench import Bench

SPLITS = {"Chapter 4": "validation", "Chapter 5": "test"}
MODELS = ("TF-IDF", "SBERT", "Longformer")


def score_vectors(examples, vectors, classify):
    """Accuracy of one of `readouts.CLASSIFIERS` on (texts, dim)."""
    right = []
    for train, test in examples.parts:
        job = Job(vectors, examples.inputs, examples.labels, train, test, 0, examples.task)
        right.append(classify(job) == examples.labels[test])
    return float(np.concatenate(right).mean())


def describe_texts(texts):
    """Of each text: words; the share of masked ones; how it is written."""
    rows = []
    for text in texts:
        words = text.split()
        kinds = (str.isdigit, str.isupper, string.punctuation.__contains__)
        surface = [sum(map(kind, text)) / len(text) for kind in kinds]
        masked = sum(re.sub(r"\W", "", word) == "X" for word in words) / len(words)
        surface.append(np.mean([len(word) for word in words]))
        rows.append({"lengths": [len(words)], "share of X": [masked], "surface": surface})
    return pd.DataFrame(rows)


def find_shortcuts(examples, vectors):
    """{what should say nothing: accuracy}; vectors: the structural teacher's, (texts, dim)."""
    table = describe_texts(examples.texts)
    scores = {}
    for name in table:  # of a pair, differences and products of these numbers
        numbers = np.array(table[name].tolist(), dtype=float)
        scores[name] = score_vectors(examples, numbers, readouts.by_comparing)
    if examples.inputs.shape[1] == 2:
        for side, name in enumerate(("first text alone", "second text alone")):
            alone = replace(examples, inputs=examples.inputs[:, [side]])
            scores[name] = score_vectors(alone, vectors, readouts.by_comparing)
        scores |= score_counts(examples)
    return scores


def score_counts(examples):
    """{count: accuracy} of what the two texts of a pair have in common, word by word."""
    words = [set(re.findall(r"\w+", text.lower())) for text in examples.texts]
    content = [each - ENGLISH_STOP_WORDS for each in words]
    starts = [{word[:5] for word in each} for each in content]
    pairs = examples.inputs.tolist()
    counts = {
        "shared words": [len(words[a] & words[b]) for a, b in pairs],
        "shared words, share": [
            len(words[a] & words[b]) / len(words[a] | words[b]) for a, b in pairs
        ],
        "shared content words": [len(content[a] & content[b]) for a, b in pairs],
        "shared starts of words": [len(starts[a] & starts[b]) for a, b in pairs],
    }
    scores = {}
    for name, values in counts.items():
        right = []
        for train, test in examples.parts:
            x, y = np.array(values)[:, None], examples.labels
            stump = DecisionTreeClassifier(max_depth=1).fit(x[train], y[train])
            right.append(stump.predict(x[test]) == y[test])
        scores[name] = float(np.concatenate(right).mean())
    for name, options in (
        ("TF-IDF, cosine", {}),
        ("TF-IDF of 3 to 5 letters, cosine", {"analyzer": "char_wb", "ngram_range": (3, 5)}),
    ):
        vectors = TfidfVectorizer(sublinear_tf=True, **options).fit_transform(examples.texts)
        scores[name] = score_vectors(examples, vectors, readouts.by_similarity)
    return scores


def average_token_embeddings(teacher, texts):
    """(texts, dim): a bag of the structural teacher's tokens, whose order says nothing."""
    table = teacher.model.embeddings.word_embeddings.weight.detach().numpy()
    ids = teacher.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    return np.stack([table[row].mean(0) for row in ids]) - table.mean(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="mini")
    parser.add_argument("--tasks", nargs="*")
    arguments = parser.parse_args()
    bench = Bench.load(arguments.profile)
    names = arguments.tasks or bench.classifications
    teacher = bench.teacher.sbert
    shortcuts, readouts, sizes = {}, {}, {}
    for chapter, split in SPLITS.items():
        seen = {}
        for name in names:
            examples = bench.examples(name, split)
            vectors = teacher.encode(examples.texts)
            shortcuts[chapter, name] = find_shortcuts(examples, vectors)
            if examples.inputs.shape[1] == 2:
                bag = average_token_embeddings(teacher, examples.texts)
                score = score_vectors(examples, bag, readouts.by_similarity)
                shortcuts[chapter, name]["token embeddings, cosine"] = score
            lengths = teacher.lengths(examples.texts)
            seen |= dict(zip(examples.texts, lengths, strict=True))
            used = np.asarray(lengths)[examples.inputs[examples.tested]]
            limit = bench.profile.structural_teacher.max_tokens
            sizes[chapter, name] = {
                "tested": len(examples.tested),
                "trained": " ".join(sorted({str(len(train)) for train, _ in examples.parts})),
                "texts": len(examples.texts),
                "tokens": sum(lengths),
                "above the limit, %": 100 * np.mean(used > limit),
                "chance": examples.chance,
            }
        sizes[chapter, "all"] = {"texts": len(seen), "tokens": sum(seen.values())}
        for readout in READOUTS:
            records = bench.with_readout(readout).run(MODELS, seeds=[0], tasks=names, split=split)
            for model, task, value in records[["model", "task", "value"]].itertuples(index=False):
                readouts.setdefault((chapter, f"{model}, {readout}"), {})[task] = value
    for table in (pd.DataFrame(shortcuts), pd.DataFrame(readouts).T, pd.DataFrame(sizes).T):
        print(table.to_string(float_format="{:.3f}".format, na_rep=""), end="\n\n", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
