"""The eight mini tasks: splits, balance, leaks."""

import hashlib
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lib import tasks
from lib.data import corpus
from lib.data.build.mini import gensim_files, passage_pool

ROOT = Path(__file__).parents[3]
NAMES = ["ARXIV", "IMDB", "OC", "AAN", "S2ORC", "PAN", "WINES", "GAMES"]
PAIRS = ["OC", "AAN", "S2ORC", "PAN"]


@pytest.fixture(scope="module")
def mini():
    return tasks.load("gensim", NAMES)


@pytest.fixture(scope="module")
def passages():
    return {passage.id: passage for passage in passage_pool.build(45, 70, 42)}


def digest(found):
    content = [
        [t.name, t.texts, t.inputs, {s: v.tolist() for s, v in t.labels.items()}, t.relevant] for t in found.values()
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def test_splits_sizes_and_balance(mini):
    for name in ("ARXIV", *PAIRS):
        task = mini[name]
        assert list(task.inputs) == list(task.labels) == ["train", "validation", "test"]
        for split, examples in task.inputs.items():
            assert len(examples) == len(task.labels[split]) == len(set(examples))
            assert len(set(np.bincount(task.labels[split], minlength=len(task.classes)))) == 1, "classes are balanced"
            assert {i for ids in examples for i in ids} <= set(task.texts)
    assert len(mini["ARXIV"].classes) == 11 and len(mini["ARXIV"].inputs["validation"]) == 77
    assert all(len(mini[name].inputs["validation"]) >= 500 for name in PAIRS)
    assert all(len(mini[name].inputs["train"]) >= 600 for name in PAIRS)
    imdb = mini["IMDB"]
    assert (list(imdb.inputs), imdb.folds, imdb.classes) == (["train"], 5, ["neg", "pos"])
    assert np.bincount(imdb.labels["train"]).tolist() == [100, 100]


def test_no_text_is_in_two_splits_of_a_task(mini):
    for name in ("ARXIV", *PAIRS):
        held = [{i for ids in examples for i in ids} for examples in mini[name].inputs.values()]
        assert not any(a & b for a, b in itertools.combinations(held, 2)), name


def test_one_text_alone_says_nothing_about_the_label(mini):
    for name, split in itertools.product(PAIRS, tasks.SPLITS):
        task = mini[name]
        for side in (0, 1):
            counts = [
                Counter(ids[side] for ids, y in zip(task.inputs[split], task.labels[split], strict=True) if y == label)
                for label in (0, 1)
            ]
            # S2ORC leaves out the few pairs that no negative could be found for.
            allowed = 0.02 * len(task.inputs[split]) if name == "S2ORC" else 0
            assert (counts[0] - counts[1]).total() <= allowed, (name, split)


def test_labels_are_true(mini, passages):
    def passage(text_id):
        return passages[text_id.split("/sentence")[0]]

    for split in tasks.SPLITS:
        for (a, b), y in zip(mini["OC"].inputs[split], mini["OC"].labels[split], strict=True):
            assert (passage(a).article == passage(b).article) == y and passage(a).split == passage(b).split == split
        for name in ("AAN", "S2ORC"):
            for (a, b), y in zip(mini[name].inputs[split], mini[name].labels[split], strict=True):
                assert passage(a).article != passage(b).article
                assert bool(passage(a).targets & passage(b).targets) == y
    for (text_id,), y in zip(mini["ARXIV"].inputs["test"], mini["ARXIV"].labels["test"], strict=True):
        assert passages[text_id].article == mini["ARXIV"].classes[y]


def test_pan_positives_share_words_in_the_copy_and_negatives_do_not(mini):
    task = mini["PAN"]
    overlap = {0: [], 1: []}
    for ids, y in zip(task.inputs["validation"], task.labels["validation"], strict=True):
        part, source = sorted(ids, key=lambda i: not i.startswith("suspicious"))
        words = [Counter(w for w in task.texts[i].lower().split() if len(w) > 5) for i in (part, source)]
        overlap[int(y)].append((words[0] & words[1]).total())
        assert not gensim_files.shingles(task.texts[part]) & gensim_files.shingles(task.texts[source]), "obfuscated"
    assert np.mean(overlap[1]) > 4 * np.mean(overlap[0])


def whole(form, text):
    return re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.I)


def test_titles_and_anchors_are_masked(passages):
    titles = {re.sub(r" \(.*", "", passage.article) for passage in passages.values()}
    for passage in passages.values():
        text = passage.text
        assert not any(whole(title, text) for title in titles), passage.id
        assert not any(whole(word, text) for word in re.findall(r"\w{4,}", passage.article)), passage.id
        for target in passage.targets:
            assert not any(whole(form, text) for form in passage_pool.shared_targets()[target]), (passage.id, target)


def test_sentences_of_s2orc_are_masked_and_link(mini, passages):
    found = [i for i in mini["S2ORC"].texts if "/sentence" in i]
    assert len(found) >= 200
    for text_id in found:
        origin, number = text_id.split("/sentence-")
        sentence = passages[origin].sentences[int(number)]
        assert mini["S2ORC"].texts[text_id] == sentence.text and passage_pool.MASK in sentence.text and sentence.targets


def test_shared_pages_are_linked_from_two_to_five_articles():
    linking = {}
    for article in gensim_files.articles():
        for target in {link.target for paragraph in article.paragraphs for link in paragraph.links}:
            linking.setdefault(target, set()).add(article.title)
    shared = passage_pool.shared_targets()
    assert len(shared) > 1000 and all(2 <= len(linking[target]) <= 5 for target in shared)


def test_nothing_of_the_tasks_is_in_the_corpus(mini):
    documents = corpus.gensim_corpus(540, 60)
    distilled = set().union(*(gensim_files.shingles(d.text) for d in (*documents.train, *documents.validation)))
    pool_texts = [p.text for paragraphs in gensim_files.pool_paragraphs().values() for p in paragraphs]
    task_texts = [text for task in mini.values() for text in task.texts.values()]
    assert len(pool_texts) > 2000 and len(task_texts) > 2000
    for text in (*pool_texts, *task_texts):
        assert not gensim_files.shingles(text) & distilled, text[:80]


def test_wines_by_the_ratings_file(mini):
    rows = [list(map(float, line.split())) for line in gensim_files.path(gensim_files.RATINGS).read_text().splitlines()]
    task = mini["WINES"]
    assert len(task.texts) == 50 and len(task.relevant) == 47 and "3 of 50" in task.notes[0]
    for i, j in itertools.combinations(range(50), 2):
        a, b = f"lee/{i:02d}", f"lee/{j:02d}"
        assert (b in task.relevant.get(a, [])) == (a in task.relevant.get(b, [])) == (rows[i][j] > 0.5)


def test_games_targets_are_the_articles_other_passages(mini, passages):
    task = mini["GAMES"]
    assert set(task.texts) == set(passages)
    for source, targets in task.relevant.items():
        assert passages[source].split == "test"
        assert set(targets) == {i for i, p in passages.items() if p.article == passages[source].article} - {source}


def test_a_student_embeds_few_enough_texts(mini):
    texts = {}
    for task in mini.values():
        for text_id, text in task.texts.items():
            assert texts.setdefault(text_id, text) == text, "one id, one text"
    # About 1.33 tokens a word: 67,600 words are 90,000 tokens.
    assert 60_000 < sum(len(text.split()) for text in texts.values()) < 67_600


def test_same_in_another_process_and_whatever_else_is_loaded(mini):
    code = (
        "import sys; sys.path.insert(0, 'tests/data/mini'); from test_mini_tasks import digest, NAMES\n"
        "from lib import tasks\n"
        "print(digest(tasks.load('gensim', NAMES)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONHASHSEED": "11"}
    )
    assert found.stdout.strip() == digest(mini)
    assert digest(tasks.load("gensim", ["PAN", "OC"])) == digest({name: mini[name] for name in ("PAN", "OC")})


def test_settings_are_kept_and_refused():
    small = tasks.load("gensim", ["OC"], pool_articles=12, passage_words=60, train_pairs=100, validation_pairs=40)["OC"]
    assert [len(examples) for examples in small.inputs.values()] == [100, 40, 40]
    with pytest.raises(ValueError, match="pool_articles: 99 articles .* lower pool_articles or passage_words"):
        tasks.load("gensim", ["OC"], pool_articles=99)
    with pytest.raises(ValueError, match="pool_articles: ARXIV has 11 classes.*got 5"):
        tasks.load("gensim", ["OC"], pool_articles=5)
