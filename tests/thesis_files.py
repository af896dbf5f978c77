"""Everything that the profile `thesis` downloads, in the true formats, with a few dozen entries.

hub(folder, profile)       a cache of the Hugging Face hub: corpora, tasks, two thin models
archives(profile)          {file name: bytes}: what Zenodo and GitHub serve
telegram_files(folder)     the contest's archives and the published pairs
"""

import gzip
import hashlib
import io
import itertools
import json
import pickle
import random
import re
import shutil

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
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]
SIZES = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
SIZES |= {"num_hidden_layers": 2}


def words(topic, count, seed):
    """A text of so many words, half of them of a vocabulary that is the topic's own."""
    draw, own = random.Random(f"{topic} {seed}"), random.Random(f"{topic}")
    of_topic = ["".join(own.choices(SYLLABLES, k=3)) for _ in range(30)]
    others = ["".join(draw.choices(SYLLABLES, k=2)) for _ in range(count)]
    text = [draw.choice((word, draw.choice(of_topic))) for word in others]
    sentences = (" ".join(text[start : start + 12]) for start in range(0, count, 12))
    return ". ".join(map(str.capitalize, sentences)) + "."


def put(cache, kind, repository, revision, files):
    """Put files, {path: bytes}, of one commit into a hub cache: links to files without suffix."""
    root = cache / f"{kind}--{repository.replace('/', '--')}"
    for path, content in files.items():
        blob = root / "blobs" / hashlib.sha256(content).hexdigest()
        link = root / "snapshots" / revision / path
        for place in (blob, link):
            place.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link.symlink_to(blob)


def parquet(rows):
    return pd.DataFrame(rows).to_parquet()


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def draw_rows(count, topic, size=lambda _: 30, **fields):
    """Rows with a text each; what functions say of their number."""
    rows = []
    for n in range(count):
        others = {name: field(n) for name, field in fields.items()}
        rows.append({"text": words(topic(n), size(n), n)} | others)
    return rows


def hub(folder, profile):
    """A hub cache with all that `profile` needs of it."""
    tasks, size = profile.build.tasks, lambda n: 40 + 11 * (n % 30)
    wikipedia = draw_rows(60, lambda n: n % 11, size, title="Article {}".format)
    news = draw_rows(60, lambda n: n % 7, size, url="https://news.org/{}".format)
    films = draw_rows(80, lambda n: f"film {n // 20 % 2}", label=lambda n: n // 20 % 2)
    places = (profile.build.wikipedia[0], profile.build.news[0], tasks["imdb/sentiment"]["test"])
    files, papers = {place: {} for place in places}, {}
    for part, split in enumerate(("train", "test")):
        half, of_films = slice(30 * part, 30 * part + 30), slice(40 * part, 40 * part + 40)
        name = f"data/20220301.en/train-{part:05d}-of-00002.parquet"
        files[places[0]][name] = parquet(wikipedia[half])
        name = f"realnewslike/c4-train.{part:05d}-of-00002.json.gz"
        files[places[1]][name] = gzip.compress(json_lines(news[half]))
        files[places[2]][f"plain_text/{split}-00000-of-00001.parquet"] = parquet(films[of_films])
    for split, count in {"train": 66, "val": 22, "test": 22}.items():
        rows = draw_rows(count, lambda n: n % 11, label=lambda n: thesis.ARXIV_CLASSES[n % 11])
        for n, row in enumerate(rows):
            row["text"] = f"[{row['label']}] {row['text']} {split} {n}."
        papers[f"{split}_data.txt"] = json_lines(rows)
    files[tasks["arxiv/categories"]["test"]] = papers
    for place, content in files.items():
        names = re.fullmatch("hf://datasets/([^@]+)@([^/]+)/.*", place).groups()
        put(folder, "datasets", *names, content)
    student, teacher = profile.student, profile.structural_teacher
    thin = longformer(folder.parent / "longformer")
    put(folder, "models", student.model, student.revision, thin)
    put(folder, "models", teacher.model, teacher.revision, mpnet(folder.parent / "mpnet"))


def train_tokenizer(folder, tokenizer, kind, longest):
    """A tokenizer of a model, with a vocabulary learned from our words."""
    folder.mkdir(parents=True)
    texts = [words(topic, 200, seed) for topic, seed in itertools.product(range(11), range(3))]
    options = {"vocab_size": 800, "special_tokens": SPECIAL, "show_progress": False}
    tokenizer.train_from_iterator(texts, **options)
    tokenizer.save_model(str(folder))
    torch.manual_seed(0)
    return kind.from_pretrained(folder, model_max_length=longest)


def saved(folder, *parts):
    """The files that `save_pretrained` of a tokenizer and a model leaves, {name: bytes}."""
    for part in parts:
        part.save_pretrained(folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def longformer(folder):
    """allenai/longformer-base-4096: a masked language model in pytorch_model.bin, RoBERTa's BPE."""
    tokenizer = train_tokenizer(folder, ByteLevelBPETokenizer(), LongformerTokenizerFast, 4096)
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "sep_token_id": 2}
    ids |= {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "vocab_size": len(tokenizer)}
    positions = {"attention_window": [512, 512], "max_position_embeddings": 4098}
    model = LongformerForMaskedLM(LongformerConfig(**SIZES, **ids, **positions))
    files = saved(folder, tokenizer, model)
    files.pop("model.safetensors")
    torch.save(model.state_dict(), stream := io.BytesIO())
    return files | {"pytorch_model.bin": stream.getvalue()}


def mpnet(folder):
    """sentence-transformers/all-mpnet-base-v2: model.safetensors, WordPiece, and small files."""
    pieces = BertWordPieceTokenizer(lowercase=True)
    tokenizer = train_tokenizer(folder, pieces, MPNetTokenizerFast, 512)
    sizes = {**SIZES, "vocab_size": len(tokenizer), "max_position_embeddings": 514}
    files = saved(folder, tokenizer, MPNetModel(MPNetConfig(**sizes)))
    parts, kind = ("Transformer", "Pooling", "Normalize"), "sentence_transformers.models."
    modules = [{"path": f"{n}_{part}", "type": kind + part} for n, part in enumerate(parts)]
    modules = [each | {"idx": n, "name": str(n)} for n, each in enumerate(modules)]
    modules[0]["path"] = ""
    pooling = {"word_embedding_dimension": SIZES["hidden_size"], "pooling_mode_mean_tokens": True}
    files["modules.json"] = json.dumps(modules).encode()
    files["1_Pooling/config.json"] = json.dumps(pooling).encode()
    files["sentence_bert_config.json"] = b'{"max_seq_length": 384, "do_lower_case": false}'
    return files


def table(rows):
    return pd.DataFrame(rows).to_csv(header=False, index=False, lineterminator="\r\n").encode()


def archives(profile):
    """{file name: bytes} of what Zenodo and GitHub serve."""
    files = itertools.chain.from_iterable(profile.build.tasks.values())
    return {name: _file(*name.split(".")) for name in files if "." in name}


def _file(stem, kind):
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
        rows = [["Title", "Sections"]]
        for n, title in enumerate(titles):
            taste = words(n % 4, 20, (stem, n, 1))
            parts = [("", words(n % 4, 30, (stem, n))), ("Empty", ""), ("Taste", taste)]
            rows.append([title, str(parts)])
        return table(rows)
    gold = {titles[n]: {titles[(n + 4 * k) % 24]: 1 for k in (1, 2, 3)} for n in range(8)}
    return pickle.dumps(gold | {"Lost": {titles[0]: 1}}, protocol=4)


PAGE = """<html><head><meta property="og:url" content="{url}?a=1&amp;b=2"/>
<meta property="og:title" content="Заголовок &amp; {n}"/></head>
<body><article><h1>Заголовок</h1><p>Первый <b>абзац</b> {n}.</p><p>{text}</p></article>
</body></html>"""


def telegram_files(folder):
    """(archives, pairs): HTML pages in .tar.gz, and the organisers' .tsv with a page too many."""
    archives, pairs = folder / "archives", folder / "pairs"
    for path in (archives, pairs):
        path.mkdir(parents=True)
    for day, count in {"20200525": 24, "20200526": 40, "20200527": 24, "20200529": 24}.items():
        (folder / day).mkdir()
        for number in range(count):
            text = words(f"event {day} {number // 4}", 120, (day, number))
            page = PAGE.format(url=f"https://news.ru/{day}/{number}", n=number, text=text)
            (folder / day / f"{number:02}.html").write_text(page, encoding="utf-8")
        shutil.make_archive(str(archives / day), "gztar", folder, day)
        if count == 24:
            urls = [f"https://news.ru/{day}/{number}?a=1&b=2" for number in range(count)]
            near = [(a, b) for a, b in itertools.combinations(range(24), 2) if b - a < 6]
            rows = [(urls[a], urls[b], "OK" if a // 4 == b // 4 else "BAD") for a, b in near]
            rows.append((urls[0], "https://gone.ru/1", "OK"))
            table = pd.DataFrame(rows, columns=["first_url", "second_url", "quality"])
            table.to_csv(pairs / f"ru_clustering_{day[4:]}.tsv", sep="\t", index=False)
    return archives, pairs
