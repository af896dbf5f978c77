"""The checks by which mini's sizes were chosen: tasks between chance and ceiling, texts as long as
the published ones.

    python tests/benchmarks/mini_checks.py                     tasks, lengths, tokens; three minutes
    python tests/benchmarks/mini_checks.py --epochs 10 20 40   also the contextual teachers

No student is trained. Each task is learnt from frozen embeddings: TF-IDF, the structural teacher,
the student's base. "logistic" sees |u - v| and u * v of a pair, "concatenated" is the thesis'
input: (u, v) and one hidden layer. Intervals are 95 % of a bootstrap over articles of the
validation examples (IMDB: sentences); a pair weighs as its two articles.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from lib import published
from lib.config import profiles
from lib.data import corpus, task_files
from lib.student import Student
from lib.teachers.labels import CONTEXTUAL_TEACHERS
from lib.teachers.paragraph_vector import ParagraphVector
from lib.teachers.sbert import SBERT, _local_folder

DRAWS = 1000


def predictions(features, inputs, labels, train, test, concatenated):
    """Labels of `test`, learnt on `train`; features are standardised on the texts of train."""
    used = np.unique(inputs[train])
    features = StandardScaler().fit(features[used]).transform(features)
    if inputs.shape[1] == 1:
        x = features[inputs[:, 0]]
    else:
        u, v = features[inputs[:, 0]], features[inputs[:, 1]]
        x = np.hstack([u, v] if concatenated else [abs(u - v), u * v])
    if concatenated:
        model = MLPClassifier((50,), alpha=1.0, batch_size=32, max_iter=25, random_state=0)
    else:
        model = LogisticRegression(C=0.01 if inputs.shape[1] == 1 else 0.001, max_iter=500)
    return model.fit(x[train], labels[train]).predict(x[test])


def interval(correct, groups):
    """Accuracy and its 95 % interval; groups: (examples, 1 or 2)."""
    names, places = np.unique(groups, return_inverse=True)
    draws = np.random.default_rng(0).multinomial(
        len(names), np.full(len(names), 1 / len(names)), size=DRAWS
    )
    first, last = (
        draws[:, places.reshape(groups.shape)[:, 0]],
        draws[:, places.reshape(groups.shape)[:, -1]],
    )
    weights = np.where(groups[:, 0] == groups[:, -1], first, first * last)
    return correct.mean(), *np.quantile((weights * correct).sum(1) / weights.sum(1), [0.025, 0.975])


def evaluate(task, embed, concatenated=False):
    """(accuracy, low, high) on the validation examples of a classification task."""
    ids = list(task.texts)
    row = {text_id: number for number, text_id in enumerate(ids)}
    splits = ["train"] if task.folds else ["train", "validation"]
    examples = [example for split in splits for example in task.inputs[split]]
    inputs = np.array([[row[text_id] for text_id in example] for example in examples])
    labels = np.concatenate([task.labels[split] for split in splits])
    groups = np.array(
        [[task.groups.get(text_id, text_id) for text_id in example] for example in examples]
    )
    size = len(task.inputs["train"])
    cuts = [(np.arange(size), np.arange(size, len(labels)))]
    if task.folds:
        cuts = list(StratifiedKFold(task.folds).split(labels, labels))
    correct = []
    for train, test in cuts:
        features = embed([task.texts[i] for i in ids], np.unique(inputs[train]))
        correct.append(
            predictions(features, inputs, labels, train, test, concatenated) == labels[test]
        )
    return interval(
        np.concatenate(correct).astype(float), groups[np.concatenate([test for _, test in cuts])]
    )


def tf_idf(texts, train):
    """TF-IDF of the 2,000 most frequent words of the training texts."""
    model = TfidfVectorizer(max_features=2000, sublinear_tf=True, stop_words="english")
    return model.fit([texts[row] for row in train]).transform(texts).toarray()


def remembered(encode):
    """The embeddings of texts, each text encoded once."""
    held = {}

    def embed(texts, _):
        if new := [text for text in dict.fromkeys(texts) if text not in held]:
            held.update(zip(new, encode(new), strict=True))
        return np.stack([held[text] for text in texts])

    return embed


def shown(result):
    return "{:.3f} [{:.3f}, {:.3f}]".format(*result)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="mini")
    parser.add_argument("--epochs", type=int, nargs="*", default=[])
    arguments = parser.parse_args()
    profile = profiles.load(arguments.profile)
    tasks, documents = task_files.of_profile(profile), corpus.read(profile)
    classified = {name: task for name, task in tasks.items() if task.kind == "classification"}
    section, limit = profile.structural_teacher, profile.structural_teacher.max_tokens
    teacher = SBERT.load(section.model, max_tokens=limit)
    student = profile.student
    base = Student.from_encoder(
        _local_folder(student.model, student.revision),
        student.layers,
        student.window,
        student.max_positions,
    )
    models = {
        "TF-IDF": tf_idf,
        "teacher": remembered(teacher.encode),
        "base": remembered(base.encode),
    }
    over = published.load("tab5_4").set_index(["task", "split"])["over_384_percent"]
    rows = []
    for name, task in classified.items():
        sizes = "/".join(str(len(examples)) for examples in task.inputs.values())
        split = "train" if task.folds else "test"
        lengths = teacher.lengths(
            [task.texts[i] for example in task.inputs[split] for i in example]
        )
        row = {
            "task": name,
            "examples": sizes,
            "texts": len(task.texts),
            "chance": 1 / len(task.classes),
        }
        row |= {
            "over the limit, %": 100 * np.mean(lengths > limit),
            "published": over[name, "test"],
        }
        row |= {
            f"{model}, logistic": shown(evaluate(task, embed)) for model, embed in models.items()
        }
        if len(task.inputs["train"][0]) == 2:
            for model in ("teacher", "base"):
                row[f"{model}, concatenated"] = shown(
                    evaluate(task, models[model], concatenated=True)
                )
        rows.append(row)
    print(pd.DataFrame(rows).fillna("").T.to_string(header=False, float_format="{:.2f}".format))

    validation = {
        t.texts[i]
        for t in classified.values()
        for s in t.inputs
        if s != "test"
        for e in t.inputs[s]
        for i in e
    }
    tests = {text for task in tasks.values() for text in task.texts.values()} - validation
    for what, texts in (("Chapter 4", validation), ("tests only", tests)):
        print(f"{what}: {len(texts)} texts, {teacher.lengths(sorted(texts)).sum()} tokens")
    for count in (profile.training.documents, profile.final.documents, len(documents.train)):
        lengths = teacher.lengths([document.text for document in documents.train[:count]])
        share = 100 * np.mean(lengths > limit)
        print(
            f"corpus, first {count}: {lengths.sum()} tokens, "
            f"{share:.1f} % over the limit (published: 71 %)"
        )

    settings = profile.contextual_teacher.model_dump(exclude={"documents", "epochs"})
    for epochs in arguments.epochs:
        for label in dict.fromkeys(CONTEXTUAL_TEACHERS.values()):
            model = ParagraphVector.parse(label, width=profile.width)
            model.train([document.text for document in documents.train], epochs=epochs, **settings)
            embed = remembered(model.encode)
            results = {name: evaluate(task, embed) for name, task in classified.items()}
            chances = [1 / len(task.classes) for task in classified.values()]
            clear = sum(
                low > chance for (_, low, _), chance in zip(results.values(), chances, strict=True)
            )
            mean = np.mean([accuracy for accuracy, _, _ in results.values()])
            print(
                f"{label}, {epochs} epochs, {model.seconds:.1f} s: "
                f"mean {mean:.3f} of chance {np.mean(chances):.3f}"
            )
            print(
                f"  {clear} tasks clear:",
                *(f"{name} {shown(result)}" for name, result in results.items()),
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # convergence of the small models
    main()
