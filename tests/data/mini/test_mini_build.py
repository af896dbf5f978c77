"""The folders of mini: the same texts as ever, from the whole code of the builder."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from lib.config import paths, profiles
from lib.data import build, builders, check, sources
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


def test_the_corpus_mixes_evenly_with_the_lengths_that_are_published(mini):
    documents = mini.corpus.train
    assert (len(documents), len(mini.corpus.validation)) == (1400, 50)
    for n in (10, 100, 480, 1400):
        assert abs(sum(d.source == "news" for d in documents[:n]) - n / 2) <= 1
    lengths = np.array(gensim_files.tokens([d.text for d in documents]))
    assert abs(100 * np.mean(lengths > 48) - 71) <= 3
    assert abs(100 * np.mean(lengths[:480] > 48) - 71) <= 6
    quantiles = np.linspace(0.1, 0.9, 9)
    wanted = np.quantile(gensim_files.published_lengths(1400), quantiles)
    # Documents end with a sentence.
    assert np.quantile(lengths, quantiles) == pytest.approx(wanted, rel=0.15, abs=14)


def test_published_lengths_are_an_eighth_of_figure_4_1():
    lengths = gensim_files.published_lengths(1000)
    assert abs(100 * np.mean(lengths > 384 / 8) - 71) <= 2 and lengths.max() <= 640
    assert abs(np.median(lengths) - 1250 / 8) < 5


def test_the_wanted_lengths_are_the_same_on_every_processor():
    """NumPy's quicksort orders ties, such as bins of two sources, by a processor's vectors."""
    program = (
        "from lib.data.builders.mini.gensim_files import published_lengths; "
        "print(*published_lengths(1450).round(6))"
    )
    here = gensim_files.published_lengths(1450).round(6)
    for features in ("X86_V4 AVX512_ICL AVX512_SPR", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"):
        environment = {"NPY_DISABLE_CPU_FEATURES": features, "PYTHONPATH": str(paths.ROOT)}
        words = [sys.executable, "-W", "ignore", "-c", program]
        options = {"capture_output": True, "text": True, "check": True}
        printed = subprocess.run(words, env=os.environ | environment, **options).stdout
        assert [*map(float, printed.split())] == here.tolist()
    rows = pd.read_csv(gensim_files.LENGTHS).query("label == 'fig4_1' and split == 'train'")
    assert rows["bin_lo"].is_monotonic_increasing  # the file says which of two comes first


def test_documents_are_sentences_of_their_source_that_follow_each_other(mini):
    stories = {" ".join(text.split()) for text in gensim_files.lines(gensim_files.NEWS)}
    for document in mini.corpus.validation:
        if document.source == "news":
            text = " ".join(document.text.split())
            assert any(text in story for story in stories), document.id
        else:
            parts = [s for s in gensim_files.sections() if s.article == document.group]
            article = " ".join(sentence for part in parts for sentence in part.sentences)
            assert document.text in article, document.id


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


def test_the_folders_pass_the_check_and_say_where_they_come_from(mini, capsys):
    assert check.main([str(mini.root)]) == 0
    printed = capsys.readouterr().out
    assert "wikipedia: 725 documents" in printed and "news: 725 documents" in printed
    assert "not read" not in printed
    folders = [path for path in mini.root.iterdir() if path.is_dir()]
    assert len(folders) == 6
    for folder in folders:
        readme = (folder / "README.md").read_text()
        assert "Source: " in readme and "icence" in readme


def test_too_many_documents_are_refused_and_the_seed_changes_the_order(monkeypatch):
    for name, few in (("lines", 30), ("sections", 60)):  # of gensim's files
        monkeypatch.setattr(gensim_files, name, read_first(getattr(gensim_files, name), few))
    assert gensim_files.corpus_texts(24, {}, seed=1) != gensim_files.corpus_texts(24, {}, seed=2)
    with pytest.raises(ValueError, match="build.documents: .* no more than [0-9]+ "):
        gensim_files.corpus_texts(5000, {}, seed=1)


def read_first(read, count):
    return lambda *given: list(read(*given))[:count]


def test_near_copies_are_found():
    story = " ".join(f"word{n}" for n in range(60))
    copies = [story, "something else", story.replace("word3 ", "new "), story.upper()]
    assert gensim_files.without_copies(copies) == [0, 1]


def test_settings_and_the_code_of_the_whole_builder_name_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(builders, "write_once", lambda folder, write: folder)
    settings = profiles.load("mini").build
    root = builders.folder(settings, tmp_path)
    assert root.parent == tmp_path and root.name.startswith("mini-")
    assert builders.folder(settings.model_copy(update={"seed": 7}), tmp_path) != root
    fingerprint = builders.fingerprint_code

    def edit(modules, stop):
        code = fingerprint(modules, stop)
        parts = {name.rpartition(".")[2] for name in code}
        assert {"mini", "gensim_files", "mini_tasks", "wikitext", "writing"} <= parts
        assert not parts & {"task_files", "dataset_folder", "written_once", "sealed", "schema"}
        return {**code, "lib.data.builders.mini.wikitext": "edited"}

    monkeypatch.setattr(builders, "fingerprint_code", edit)
    assert builders.folder(settings, tmp_path) != root


def read_files(root):
    held = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in held}


def test_a_damaged_folder_is_written_again_alone(tmp_path, monkeypatch):
    built = sources.find_built(profiles.load("smoke").build, tmp_path)
    root = shutil.copytree(built, tmp_path / built.name)
    monkeypatch.setattr(
        sources, "find_built", lambda settings, _: builders.folder(settings, tmp_path)
    )
    before = read_files(root)
    (root / "passages/tasks/topic/train.jsonl").write_text("")
    shutil.rmtree(root / "sentences")
    with pytest.warns(UserWarning) as caught:
        assert build.main(["smoke"]) == 0
    assert [str(each.message) for each in caught] == [
        f"{root / 'passages'} is damaged and is written again"
    ]
    assert read_files(root) == before


def test_a_profile_without_a_builder_asks_for_documents(capsys):
    assert build.main(["lab"]) == 2
    assert "your own documents: set THESIS_DATA" in capsys.readouterr().err
