"""The eight mini tasks: splits, balance, leaks."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest

from lib.config.schema import MiniBuild
from lib.data import task_files
from lib.data.builders.mini import gensim_files, mini_tasks, passage_pool

PAIRS = ["OC", "AAN", "S2ORC", "PAN"]


@pytest.fixture(scope="module")
def passages(mini):
    settings = mini.profile.build
    pool = passage_pool.build(settings.pool_articles, settings.passage_words, settings.seed)
    return {passage.id: passage for passage in pool}


def test_splits_sizes_and_balance(mini):
    for name in ("ARXIV", *PAIRS):
        task = mini.tasks[name]
        assert list(task.inputs) == list(task.labels) == ["train", "validation", "test"]
        for split, examples in task.inputs.items():
            assert len(examples) == len(task.labels[split]) == len(set(examples))
            assert len(set(np.bincount(task.labels[split], minlength=len(task.classes)))) == 1, "classes are balanced"
            assert {i for ids in examples for i in ids} <= set(task.texts)
    assert len(mini.tasks["ARXIV"].classes) == 11 and len(mini.tasks["ARXIV"].inputs["validation"]) == 77
    assert all(len(mini.tasks[name].inputs["validation"]) >= 500 for name in PAIRS)
    assert all(len(mini.tasks[name].inputs["train"]) >= 600 for name in PAIRS)
    imdb = mini.tasks["IMDB"]
    assert (list(imdb.inputs), imdb.folds, imdb.classes) == (["train"], 5, ["neg", "pos"])
    assert np.bincount(imdb.labels["train"]).tolist() == [100, 100]


def test_no_text_is_in_two_splits_of_a_task(mini):
    for name in ("ARXIV", *PAIRS):
        held = [{i for ids in examples for i in ids} for examples in mini.tasks[name].inputs.values()]
        assert not any(a & b for a, b in itertools.combinations(held, 2)), name


def test_one_text_alone_says_nothing_about_the_label(mini):
    for name, split in itertools.product(PAIRS, task_files.SPLITS):
        task = mini.tasks[name]
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

    for split in task_files.SPLITS:
        for (a, b), y in zip(mini.tasks["OC"].inputs[split], mini.tasks["OC"].labels[split], strict=True):
            assert (passage(a).article == passage(b).article) == y and passage(a).split == passage(b).split == split
        for name in ("AAN", "S2ORC"):
            for (a, b), y in zip(mini.tasks[name].inputs[split], mini.tasks[name].labels[split], strict=True):
                assert passage(a).article != passage(b).article
                assert bool(passage(a).targets & passage(b).targets) == y
    for (text_id,), y in zip(mini.tasks["ARXIV"].inputs["test"], mini.tasks["ARXIV"].labels["test"], strict=True):
        assert passages[text_id].article == mini.tasks["ARXIV"].classes[y]


def test_pan_positives_share_words_in_the_copy_and_negatives_do_not(mini):
    task = mini.tasks["PAN"]
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
    found = [i for i in mini.tasks["S2ORC"].texts if "/sentence" in i]
    assert len(found) >= 200
    for text_id in found:
        origin, number = text_id.split("/sentence-")
        sentence = passages[origin].sentences[int(number)]
        assert (
            mini.tasks["S2ORC"].texts[text_id] == sentence.text
            and passage_pool.MASK in sentence.text
            and sentence.targets
        )


def test_shared_pages_are_linked_from_two_to_five_articles():
    linking = {}
    for article in gensim_files.articles():
        for target in {link.target for paragraph in article.paragraphs for link in paragraph.links}:
            linking.setdefault(target, set()).add(article.title)
    shared = passage_pool.shared_targets()
    assert len(shared) > 1000 and all(2 <= len(linking[target]) <= 5 for target in shared)


def test_wines_by_the_ratings_file(mini):
    rows = [list(map(float, line.split())) for line in gensim_files.path(gensim_files.RATINGS).read_text().splitlines()]
    task = mini.tasks["WINES"]
    assert len(task.texts) == 50 and len(task.relevant) == 47
    for i, j in itertools.combinations(range(50), 2):
        a, b = f"lee/{i:02d}", f"lee/{j:02d}"
        assert (b in task.relevant.get(a, [])) == (a in task.relevant.get(b, [])) == (rows[i][j] > 0.5)


def test_games_targets_are_the_articles_other_passages(mini, passages):
    task = mini.tasks["GAMES"]
    assert set(task.texts) == set(passages)
    for source, targets in task.relevant.items():
        assert passages[source].split == "test"
        assert set(targets) == {i for i, p in passages.items() if p.article == passages[source].article} - {source}


def test_a_student_embeds_few_enough_texts(mini):
    texts = {(i, text) for task in mini.tasks.values() for i, text in task.texts.items()}
    assert len({text_id for text_id, _ in texts}) == len(texts), "one id, one text, whatever the folder"
    # About 1.33 tokens a word: 67,600 words are 90,000 tokens.
    assert 45_000 < sum(len(text.split()) for _, text in texts) < 67_600


def test_settings_are_kept_and_refused():
    settings = MiniBuild(
        builder="mini", documents=4, pool_articles=20, passage_words=60, train_pairs=100, validation_pairs=40, seed=1
    )
    pairs = mini_tasks.MiniTasks(settings).same_article()
    assert [len(examples) for examples in pairs.values()] == [100, 40, 40]
    with pytest.raises(ValueError, match="pool_articles: 99 articles .* lower pool_articles or passage_words"):
        passage_pool.build(99, 70, 42)
