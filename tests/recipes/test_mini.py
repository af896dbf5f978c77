"""mini: the same texts as ever, no text of a task in the corpus, and tasks that leak nothing."""

import hashlib
import itertools
import json
from collections import Counter

import numpy as np
import pytest

from lib import recipes
from lib.config import profiles
from lib.recipes import gensim_files, mini_tasks, write_folders

# Of the texts and examples of mini. The order of rows decides batches, hence bits: whoever changes
# these changes every number of mini.
CORPUS = "b2c386de30dd1a7f93f42f3edc81441c5714e6f60771e368ad02a0af7e73d4fd"
TASKS = "c65e73f9a7a52e37137c3a246a0c60322e20e70e0a44db3adc6c75efd3cca1fb"
PAIRS = ["OC", "AAN", "S2ORC", "PAN"]


def digest(value):
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()


def test_mini_has_the_texts_and_rows_that_its_numbers_come_from(mini):
    splits = (mini.corpus.train, mini.corpus.validation)
    assert digest([[d.text for d in split] for split in splits]) == CORPUS
    plain = {}
    for name, task in mini.tasks.items():
        labels = {split: rows.tolist() for split, rows in task.labels.items()}
        plain[name] = [task.texts, task.inputs, labels, task.classes, task.groups, task.relevant]
    assert digest(plain) == TASKS


def test_the_corpus_has_no_copies_and_nothing_of_the_tasks(mini):
    documents = [*mini.corpus.train, *mini.corpus.validation]
    assert len({(d.source, d.id) for d in documents}) == len({d.text for d in documents}) == 1450
    assert not any(any(counts.values()) for counts in mini.corpus.left_out.values())
    distilled = set().union(*(gensim_files.shingles(d.text) for d in documents))
    used = mini_tasks.MiniTasks(mini.profile.build).used.items()
    unmasked = [" ".join(section.sentences[:count]) for section, count in used if count]
    task_texts = [text for task in mini.tasks.values() for text in task.texts.values()]
    assert len(unmasked) > 100 and len(task_texts) > 2000
    for text in (*unmasked, *task_texts):
        assert not gensim_files.shingles(text) & distilled, text[:80]


def test_settings_and_code_name_the_folder_and_what_is_there_is_kept(tmp_path, monkeypatch):
    settings, written = profiles.load("mini").build, []
    monkeypatch.setattr("lib.recipes.mini._write_folders", lambda *given: written.append(given))
    root = write_folders(settings, tmp_path)
    assert write_folders(settings, tmp_path) == root and len(written) == 1
    other = write_folders(settings.model_copy(update={"seed": 7}), tmp_path)
    monkeypatch.setattr(recipes, "hash_code", lambda modules: "edited")
    edited = write_folders(settings, tmp_path)
    assert len({root, other, edited}) == len(written) == 3


@pytest.mark.parametrize("split, articles", [("validation", 40), ("test", 50)])
def test_each_article_is_tested_once_by_heads_that_never_saw_it(mini, split, articles):
    for name in PAIRS:
        task = mini.tasks[name]
        examples = mini.examples(name, split)
        groups = np.array([task.groups[text_id] for text_id in examples.text_ids])[examples.inputs]
        tested = [set(groups[test].ravel()) for _, test in examples.parts]
        assert [len(part) for part in tested] == [articles // 5] * 5
        assert len(set().union(*tested)) == articles and examples.chance == 0.5
        assert len({len(train) for train, _ in examples.parts}) == 1, "heads train on as many"
        assert examples.tested.tolist() == list(range(len(examples.labels)))
        for part, (train, _) in zip(tested, examples.parts, strict=True):
            assert not part & set(groups[train].ravel())


def test_one_text_alone_says_nothing_about_the_label(mini):
    for name, split, side in itertools.product(PAIRS, mini_tasks.CHAPTERS, (0, 1)):
        task = mini.tasks[name]
        counts = (Counter(), Counter())
        for ids, label in zip(task.inputs[split], task.labels[split], strict=True):
            counts[label][ids[side]] += 1
        assert counts[0] == counts[1], (name, split)


def test_labels_are_true(mini):
    passages = {p.id: p for p in mini_tasks.MiniTasks(mini.profile.build).passages}
    for name, split in itertools.product(("OC", "AAN", "S2ORC"), mini_tasks.CHAPTERS):
        task = mini.tasks[name]
        for ids, label in zip(task.inputs[split], task.labels[split], strict=True):
            a, b = (passages[text_id] for text_id in ids)
            assert a.split == b.split == split
            assert (a.article == b.article) == (label or name == "AAN"), ids
            assert (a.section == b.section) == label or name == "OC", ids
            assert (a.use == "paired") != (b.use == "paired") or name != "S2ORC", ids
    task = mini.tasks["ARXIV"]
    for (text_id,), label in zip(task.inputs["test"], task.labels["test"], strict=True):
        assert passages[text_id].article == task.classes[label]
