"""The eight mini tasks: splits, balance, lengths, leaks."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest

from lib import published
from lib.data import task_files
from lib.data.builders.mini import gensim_files, mini_tasks, thesaurus
from lib.evaluation import classifiers
from lib.evaluation.heads import Job
from lib.experiments import judging
from lib.teachers.sbert import SBERT

PAIRS = ["OC", "AAN", "S2ORC", "PAN"]
LIMIT = 48


@pytest.fixture(scope="module")
def passages(mini):
    return mini_tasks.MiniTasks(mini.build).by_id


@pytest.fixture(scope="module")
def teacher(mini):
    return SBERT.load(mini.teacher.model, max_tokens=mini.teacher.max_tokens)


def read(mini, name, split):
    return judging.read_examples(name, mini.tasks[name], split, mini.limit)


def test_splits_sizes_and_balance(mini):
    for name in ("ARXIV", *PAIRS):
        task = mini.tasks[name]
        splits = list(task_files.SPLITS) if name == "ARXIV" else list(mini_tasks.CHAPTERS)
        assert list(task.inputs) == list(task.labels) == splits
        assert not [note for note in task.notes if name != "ARXIV" or "groups" not in note]
        for split, pairs in task.inputs.items():
            counts = np.bincount(task.labels[split], minlength=len(task.classes))
            assert len(pairs) == len(set(map(frozenset, pairs))), "no pair twice"
            assert len(set(counts)) == 1, "classes are balanced"
        sizes = {split: len(pairs) for split, pairs in task.inputs.items()}
        if name == "ARXIV":
            assert len(task.classes) == 11 and set(sizes.values()) == {165}
        else:
            assert sizes["train"] >= 900 and sizes["test"] >= 1150
    imdb = mini.tasks["IMDB"]
    assert (list(imdb.inputs), imdb.folds, imdb.classes) == (["train"], 5, ["neg", "pos"])
    assert np.bincount(imdb.labels["train"]).tolist() == [100, 100]


def test_chapters_share_no_text_of_a_pair_task(mini):
    held = [
        {text for name in PAIRS for ids in mini.tasks[name].inputs[split] for text in ids}
        for split in mini_tasks.CHAPTERS
    ]
    assert min(map(len, held)) > 700 and not held[0] & held[1]
    topics = [set(itertools.chain(*ids)) for ids in mini.tasks["ARXIV"].inputs.values()]
    assert not any(a & b for a, b in itertools.combinations(topics, 2))


@pytest.mark.parametrize("split, articles", [("validation", 40), ("test", 50)])
def test_each_article_is_tested_once_by_heads_that_never_saw_it(mini, split, articles):
    for name in PAIRS:
        task, examples = mini.tasks[name], read(mini, name, split)
        groups = np.array([task.groups[text_id] for text_id in examples.text_ids])
        tested = [set(groups[examples.inputs[test]].ravel()) for _, test in examples.parts]
        assert len(tested) == 5 and len(set().union(*tested)) == sum(map(len, tested)) == articles
        assert {len(part) for part in tested} == {articles // 5}
        assert len({len(train) for train, _ in examples.parts}) == 1, "heads train on as many"
        assert examples.tested.tolist() == list(range(len(examples.labels)))
        assert examples.chance == 0.5
        for part, (train, _) in zip(tested, examples.parts, strict=True):
            assert not part & set(groups[examples.inputs[train]].ravel())


def test_copies_are_hidden_in_words_of_an_article_of_the_same_block(mini, passages):
    task = mini.tasks["PAN"]
    copies = [text_id for text_id in task.texts if text_id.startswith("copies/")]
    assert len(copies) > 300
    for split in ("validation", "test"):
        examples = read(mini, "PAN", split)
        for _, test in examples.parts:
            ids = {examples.text_ids[row] for row in examples.inputs[test].ravel()}
            hosts = {passages[i.split("/", 2)[2]].article for i in ids & {*copies}}
            assert hosts <= {task.groups[text_id] for text_id in ids}


def test_one_text_alone_says_nothing_about_the_label(mini):
    for name, split, side in itertools.product(PAIRS, mini_tasks.CHAPTERS, (0, 1)):
        task = mini.tasks[name]
        counts = (Counter(), Counter())
        for ids, label in zip(task.inputs[split], task.labels[split], strict=True):
            counts[label][ids[side]] += 1
        assert counts[0] == counts[1], (name, split)


def test_labels_are_true(mini, passages):
    for name, split in itertools.product(("OC", "AAN", "S2ORC"), mini_tasks.CHAPTERS):
        task = mini.tasks[name]
        for ids, label in zip(task.inputs[split], task.labels[split], strict=True):
            a, b = (passages[text_id] for text_id in ids)
            assert a.split == b.split == split
            if name == "AAN":
                assert a.article == b.article and (a.section == b.section) == label, ids
            else:
                assert (a.article == b.article) == label, ids
            if name == "S2ORC":
                assert (a.section == b.section) == label, ids
                assert (a.use == "paired") != (b.use == "paired"), ids
    task = mini.tasks["ARXIV"]
    for (text_id,), label in zip(task.inputs["test"], task.labels["test"], strict=True):
        assert passages[text_id].article == task.classes[label]


def test_no_count_of_words_finds_copies_as_well_as_the_structural_teacher(mini, teacher):
    """Threshold of one number, learnt on other articles; SBERT reads 48 tokens of a text."""
    examples = read(mini, "PAN", "validation")
    words = [set(re.findall(r"\w+", text.lower())) for text in examples.texts]
    vocabulary = sorted(set().union(*words))
    places = {word: place for place, word in enumerate(vocabulary)}
    counts = np.zeros((len(words), len(vocabulary)))
    for row, each in enumerate(words):
        counts[row, [places[word] for word in each]] = 1
    tfidf = counts * np.log(len(words) / counts.sum(0))
    vectors = {"words": counts, "TF-IDF": tfidf, "teacher": teacher.encode(examples.texts)}
    scores = {}
    for name, rows in vectors.items():
        jobs = [
            Job(rows, examples.inputs, examples.labels, train, test, 0, "PAN")
            for train, test in examples.parts
        ]
        right = [classifiers.by_similarity(job) == examples.labels[job.test] for job in jobs]
        scores[name] = np.concatenate(right).mean()
    shared = [len(words[a] & words[b]) for a, b in examples.inputs]
    labels = examples.labels
    scores["shared words"] = max(
        np.mean((np.array(shared) >= least) == labels) for least in range(max(shared))
    )
    best = max(score for name, score in scores.items() if name != "teacher")
    assert 0.8 < scores["teacher"] < 0.97 and best < scores["teacher"] - 0.02, scores


def test_copies_keep_function_words_alone_and_lose_what_has_no_neighbour():
    neighbours = {"king": ["queen", "prince"], "zx81": []}
    words = ["the", "king", "zx81", "of", "king"] * 8
    copy = mini_tasks.obfuscate(words, neighbours, np.random.default_rng(0))
    assert {*copy} == {"the", "of", "queen", "prince"} and len(copy) < max(mini_tasks.COPY_WORDS)
    runs = gensim_files.shingles(" ".join(words))
    assert not runs & gensim_files.shingles(" ".join(copy))


def test_neighbours_are_other_words_of_the_same_meaning_or_kind():
    near = thesaurus.find_neighbours(["king", "large", "produced", "X", "1897", "zzyzx"])
    assert "queen" in near["king"] and "huge" in near["large"]
    assert near["X"] == near["1897"] == near["zzyzx"] == []
    for word in ("king", "large", "produced"):
        assert 2 <= len(near[word]) <= 5
        assert not any(other[:4] == word[:4] for other in near[word]), "no form of the word"


def test_shares_above_the_limit_follow_table_5_4(mini):
    printed = published.load("tab5_4").query("split == 'test'").set_index("task").over_384_percent
    for name in ("ARXIV", *PAIRS):
        task = mini.tasks[name]
        texts = [task.texts[text_id] for ids in task.inputs["test"] for text_id in ids]
        lengths = np.array(gensim_files.tokens(texts))
        assert abs(100 * np.mean(lengths > LIMIT) - printed[name]) <= 8, name


def test_one_letter_is_no_title_and_a_short_title_has_no_plural(mini, passages):
    words = Counter(word for p in passages.values() for word in p.text.lower().split())
    assert words["a"] > 500 and words["as"] > 200 and not words["art"]


def test_titles_are_masked(passages):
    def holds(form, text):
        return re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.I)

    titles = {re.sub(r" \(.*", "", passage.article) for passage in passages.values()} - {"A"}
    masked = 0
    for passage in passages.values():
        forms = {*titles, *re.findall(r"\w{4,}", passage.article)}
        assert not any(holds(form, passage.text) for form in forms), passage.id
        masked += bool(holds(mini_tasks.MASK, passage.text))
    assert masked > len(passages) / 4


def test_wines_by_the_ratings_file(mini):
    ratings = np.loadtxt(gensim_files.path(gensim_files.RATINGS))
    task = mini.tasks["WINES"]
    assert len(task.texts) == 50 and len(task.relevant) == 47
    for i, j in itertools.combinations(range(50), 2):
        a, b = f"lee/{i:02d}", f"lee/{j:02d}"
        alike = ratings[i, j] > 0.5
        assert (b in task.relevant.get(a, [])) == (a in task.relevant.get(b, [])) == alike


def test_games_targets_are_the_articles_other_passages(mini, passages):
    task = mini.tasks["GAMES"]
    assert set(task.texts) == set(passages) and len(task.relevant) > 150
    early, late = (
        {
            mini.tasks["OC"].groups[text_id]
            for ids in mini.tasks["OC"].inputs[split]
            for text_id in ids
        }
        for split in mini_tasks.CHAPTERS
    )
    tested = late - early
    assert early < late and len(tested) == 10
    for source, targets in task.relevant.items():
        article = passages[source].article
        others = {i for i, passage in passages.items() if passage.article == article} - {source}
        assert article in tested and set(targets) == others


def test_a_student_embeds_few_enough_texts(mini):
    texts = {text for task in mini.tasks.values() for text in task.texts.items()}
    assert len({text_id for text_id, _ in texts}) == len(texts), "one id, one text"
    chapters = {
        split: {
            text
            for name, task in mini.tasks.items()
            if task.kind == "classification"
            for text in read(mini, name, split).texts
        }
        for split in ("validation", "test")
    }
    # Every student of Chapter 4 embeds the first, the few of Chapter 5 all of the rest.
    assert sum(gensim_files.tokens(sorted(chapters["validation"]))) < 70_000
    late = chapters["test"] | {
        text
        for task in mini.tasks.values()
        if task.kind == "retrieval"
        for text in task.texts.values()
    }
    assert sum(gensim_files.tokens(sorted(late))) < 150_000


def test_what_the_dump_does_not_hold_is_refused(mini):
    for settings, message in (
        ({"articles": 99}, "build.articles: the dump holds no more than [0-9]+ with enough"),
        ({"topic_passages": 200}, "build.topic_passages: .* holds [0-9]+ of 600"),
        ({"articles": 10}, "build.articles: a block of PAN has no pair .* or fewer build.blocks"),
    ):
        with pytest.raises(ValueError, match=message):
            mini_tasks.MiniTasks(mini.build.model_copy(update=settings)).copied()


def groups(n, size):
    return [
        (f"{g}-{a}", f"{g}-{b}")
        for g in range(n)
        for a, b in itertools.combinations(range(size), 2)
    ]


def different(a, b):
    return a.split("-")[0] != b.split("-")[0]


@pytest.mark.parametrize("wanted, expected", [(1000, 60), (40, 40), (43, 40)])
def test_balanced_valid_and_matched(wanted, expected):
    quartets = mini_tasks.balance(groups(10, 3), wanted, different, np.random.default_rng(0))
    examples = [example for four in quartets for example in four]
    counts = Counter(label for _, label in examples)
    assert counts["yes"] == counts["no"] and expected - 8 <= len(examples) <= expected
    assert len({frozenset(pair) for pair, _ in examples}) == len(examples)
    assert all(different(*pair) == (label == "no") for pair, label in examples)
    for four in quartets:  # each text as often on its side, with either label
        sides = [
            Counter(
                (side, text)
                for pair, label in four
                if label == answer
                for side, text in enumerate(pair)
            )
            for answer in ("yes", "no")
        ]
        assert sides[0] == sides[1]


def test_without_a_valid_negative_no_pair_is_left():
    assert mini_tasks.balance(groups(1, 3), 100, different, np.random.default_rng(0)) == []
