"""Everything that the profile `thesis` downloads, in the true formats, with a few dozen entries.

hub(folder, profile)       a cache of the Hugging Face hub: corpora, tasks, two thin models
archives(profile)          {URL: {file name: bytes}}: what Zenodo and GitHub serve
telegram_files(folder)     the contest's archives and the published pairs
"""

import csv
import gzip
import hashlib
import io
import itertools
import json
import pickle
import random
import re
import tarfile

import pandas as pd
import torch
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer
from transformers import (
    LongformerConfig,
    LongformerForMaskedLM,
    LongformerTokenizerFast,
    MPNetConfig,
    MPNetModel,
    MPNetTokenizerFast,
)

from lib.recipes import thesis

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def words(topic, count, seed):
    """A text of so many words, half of them of a vocabulary that is the topic's own."""
    draw = random.Random(f"{topic} {seed}")
    own = random.Random(f"{topic}")
    of_topic = ["".join(own.choices(SYLLABLES, k=3)) for _ in range(30)]
    text = [
        draw.choice(of_topic) if draw.random() < 0.5 else "".join(draw.choices(SYLLABLES, k=2))
        for _ in range(count)
    ]
    return (
        ". ".join(" ".join(text[start : start + 12]).capitalize() for start in range(0, count, 12))
        + "."
    )


def put(cache, kind, repository, revision, files):
    """Put files, {path: bytes}, of one commit into a hub cache, as the hub's library does."""
    root = cache / f"{kind}--{repository.replace('/', '--')}"
    (root / "refs").mkdir(parents=True, exist_ok=True)
    (root / "refs" / "main").write_text(revision)
    listed = root / "trees" / f"{revision}.json"
    tree = json.loads(listed.read_text())["files"] if listed.exists() else {}
    for path, content in files.items():
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        large = path.endswith((".parquet", ".gz", "_data.txt", ".safetensors", ".bin"))
        blob = root / "blobs" / (hashlib.sha256(content).hexdigest() if large else git)
        link = root / "snapshots" / revision / path
        for place in (blob, link, listed):
            place.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link.symlink_to("/".join([".."] * (2 + path.count("/"))) + f"/blobs/{blob.name}")
        tree[path] = {"size": len(content), "blob_id": git}
        tree[path] |= {"lfs_sha256": blob.name, "lfs_size": len(content)} if large else {}
    listed.write_text(json.dumps({"format_version": 1, "files": tree}))


def parquet(rows):
    stream = io.BytesIO()
    pd.DataFrame(rows).to_parquet(stream)
    return stream.getvalue()


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def hub(folder, profile):
    """A hub cache with all that `profile` needs of it."""
    wikipedia, c4 = profile.build.wikipedia[0], profile.build.news[0]
    files = {}
    for part in range(2):
        numbers = range(part * 30, part * 30 + 30)
        titles = [f"Article {number}" for number in numbers]
        texts = [
            words(number % 11, 40 + 11 * (number % 30), f"wikipedia {number}") for number in numbers
        ]
        rows = {"id": [*map(str, numbers)], "url": titles, "title": titles, "text": texts}
        files[f"data/20220301.en/train-{part:05d}-of-00002.parquet"] = parquet(rows)
    put(folder, "datasets", *place(wikipedia), files)
    files = {}
    for part in range(2):
        numbers = range(part * 30, part * 30 + 30)
        texts = [words(number % 7, 40 + 13 * (number % 30), f"news {number}") for number in numbers]
        rows = [
            {"text": text, "timestamp": "2019-04-25T12:57:54Z", "url": "https://news.org"}
            for text in texts
        ]
        files[f"realnewslike/c4-train.{part:05d}-of-00002.json.gz"] = gzip.compress(
            json_lines(rows)
        )
    put(folder, "datasets", *place(c4), files)
    files = {}
    for split in ("train", "test"):
        rows = [
            {"text": words(f"film {n // 20}", 30, f"{split} {n}"), "label": n // 20}
            for n in range(40)
        ]
        files[f"plain_text/{split}-00000-of-00001.parquet"] = parquet(rows)
    put(folder, "datasets", *place(profile.build.tasks["IMDB"]["test"]), files)
    files = {}
    for split, count in {"train": 66, "val": 22, "test": 22}.items():
        labels = [thesis.ARXIV_CLASSES[number % 11] for number in range(count)]
        texts = [f"[{label}] {words(label, 60, f'{split} {n}')}" for n, label in enumerate(labels)]
        rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
        files[f"{split}_data.txt"] = json_lines(rows)
    put(folder, "datasets", *place(profile.build.tasks["ARXIV"]["test"]), files)
    longformer(folder, profile.student)
    mpnet(folder, profile.structural_teacher)


def place(name):
    """(repository, commit) of an hf:// name."""
    return re.fullmatch("hf://datasets/([^@]+)@([^/]+)/.*", name).groups()


def corpus_of_words():
    return [words(topic, 200, seed) for topic, seed in itertools.product(range(11), range(3))]


def saved(folder, *parts):
    """The files that `save_pretrained` of a tokenizer and a model leaves, {name: bytes}."""
    for part in parts:
        part.save_pretrained(folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def longformer(cache, section):
    """allenai/longformer-base-4096: a masked language model in pytorch_model.bin, RoBERTa's BPE."""
    folder = cache.parent / "longformer"
    folder.mkdir(parents=True)
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(
        corpus_of_words(), vocab_size=800, special_tokens=SPECIAL, show_progress=False
    )
    bpe.save_model(str(folder))
    tokenizer = LongformerTokenizerFast.from_pretrained(folder, model_max_length=4096)
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
    }
    roberta = {
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "sep_token_id": 2,
        "type_vocab_size": 1,
    }
    positions = {
        "attention_window": [512, 512],
        "max_position_embeddings": 4098,
        "layer_norm_eps": 1e-5,
    }
    model = LongformerForMaskedLM(
        LongformerConfig(vocab_size=len(tokenizer), **sizes, **roberta, **positions)
    )
    files = saved(folder, tokenizer, model)
    files.pop("model.safetensors")
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    put(
        cache,
        "models",
        section.model,
        section.revision,
        files | {"pytorch_model.bin": stream.getvalue()},
    )


def mpnet(cache, section):
    """sentence-transformers/all-mpnet-base-v2: model.safetensors, WordPiece, and small files."""
    folder = cache.parent / "mpnet"
    folder.mkdir(parents=True)
    pieces = BertWordPieceTokenizer(lowercase=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]
    pieces.train_from_iterator(
        corpus_of_words(), vocab_size=800, special_tokens=special, show_progress=False
    )
    pieces.save_model(str(folder))
    tokenizer = MPNetTokenizerFast.from_pretrained(folder, model_max_length=512)
    torch.manual_seed(1)
    sizes = {
        "hidden_size": 32,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
    }
    model = MPNetModel(MPNetConfig(vocab_size=len(tokenizer), max_position_embeddings=514, **sizes))
    files = saved(folder, tokenizer, model)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    ]
    files |= {"modules.json": json.dumps(modules).encode(), "1_Pooling/config.json": b"{}"}
    files["sentence_bert_config.json"] = b'{"max_seq_length": 384, "do_lower_case": false}'
    put(cache, "models", section.model, section.revision, files)


def table(rows):
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(rows)
    return stream.getvalue().encode()


def archives(profile):
    """{URL: {file name: bytes}} of Zenodo's records and GitHub's files."""
    served = {}
    for name, url in thesis.list_sources(profile.build).items():
        if name != url:
            served.setdefault(url, {})[name] = _file(name)
    return served


def _file(name):
    stem, _, kind = name.rpartition(".")
    if kind == "csv":  # label, two texts; the aligned sentence is marked
        split = next(split for split in ("train", "dev", "test") if split in stem)
        rows = []
        for number in range(24 if split == "train" else 12):
            topic = f"{stem.replace(split, '')} {number % 6}"
            other = topic if number % 2 else f"{topic} other"
            cited = words(other, 20, (stem, number, "b"))
            cited += f"\001{words(other, 8, (stem, number, 'c'))}\001"
            rows.append([number % 2, words(topic, 30, (stem, number, "a")), cited])
        return table(rows)
    titles = [f"{stem} {number}" for number in range(24)]
    if kind == "txt":
        sections = [
            [
                ("", words(n % 4, 30, (stem, n))),
                ("Empty", ""),
                ("Taste", words(n % 4, 20, (stem, n, 1))),
            ]
            for n in range(24)
        ]
        return table(
            [
                ["Title", "Sections"],
                *([title, str(part)] for title, part in zip(titles, sections, strict=True)),
            ]
        )
    gold = {titles[n]: {titles[(n + 4 * k) % 24]: 1 for k in (1, 2, 3)} for n in range(8)}
    return pickle.dumps(gold | {"Lost": {titles[0]: 1}}, protocol=4)


def telegram_files(folder):
    """(archives, pairs): HTML pages in .tar.gz, and the organisers' .tsv."""
    archives, pairs = folder / "archives", folder / "pairs"
    for path in (archives, pairs):
        path.mkdir(parents=True)
    for day, count in {"20200525": 24, "20200526": 40, "20200527": 24, "20200529": 24}.items():
        urls = [f"https://news.ru/{day}/{number}" for number in range(count)]
        with tarfile.open(archives / f"{day}.tar.gz", "w:gz") as archive:
            for number, url in enumerate(urls):
                text = words(f"event {day} {number // 4}", 120, (day, number))
                head = f'<meta property="og:url" content="{url}"/>'
                head += f'<meta property="og:title" content="News {number}"/>'
                content = f"<html><head>{head}</head><body><p>{text}</p></body></html>".encode()
                member = tarfile.TarInfo(f"{day}/{number}.html")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        if count == 24:
            lines = ["first_url\tsecond_url\tquality"]
            near = [(a, b) for a, b in itertools.combinations(range(24), 2) if b - a < 6]
            lines += [
                f"{urls[a]}\t{urls[b]}\t{'OK' if a // 4 == b // 4 else 'BAD'}" for a, b in near
            ]
            (pairs / f"ru_clustering_{day[4:]}.tsv").write_text(
                "\n".join(lines) + "\n", encoding="utf-8"
            )
    return archives, pairs
