"""The folders of mini: the same texts as ever, and no text of a task in the corpus."""

import hashlib
import json

from lib.config import profiles
from lib.data import builders
from lib.data.builders.mini import gensim_files, mini_tasks

# Of the texts and examples of mini. The order of rows decides batches, hence bits: whoever changes
# these changes every number of mini.
CORPUS = "b2c386de30dd1a7f93f42f3edc81441c5714e6f60771e368ad02a0af7e73d4fd"
TASKS = "c65e73f9a7a52e37137c3a246a0c60322e20e70e0a44db3adc6c75efd3cca1fb"


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
    used = mini_tasks.MiniTasks(mini.build).used.items()
    unmasked = [" ".join(section.sentences[:count]) for section, count in used if count]
    task_texts = [text for task in mini.tasks.values() for text in task.texts.values()]
    assert len(unmasked) > 100 and len(task_texts) > 2000
    for text in (*unmasked, *task_texts):
        assert not gensim_files.shingles(text) & distilled, text[:80]


def test_settings_and_code_name_the_folder_and_what_is_there_is_kept(tmp_path, monkeypatch):
    settings, written = profiles.load("mini").build, []
    writers = {name: lambda folder, n=name: written.append(n) for name in ("news", "stories")}
    monkeypatch.setattr("lib.data.builders.mini.list_writers", lambda build, home: writers)
    root = builders.folder(settings, tmp_path)
    assert root.parent == tmp_path and root.name.startswith("mini-")
    (root / "news" / ".thesis-companion.json").unlink()
    (root / "news").rmdir()
    assert builders.folder(settings, tmp_path) == root
    assert written == ["news", "stories", "news"], "only what is missing is written again"
    others = [builders.folder(settings.model_copy(update={"seed": 7}), tmp_path)]
    monkeypatch.setattr(builders, "hash_code", lambda modules: "edited")
    others.append(builders.folder(settings, tmp_path))
    assert len({root, *others}) == 3
