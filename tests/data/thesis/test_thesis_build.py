"""The thesis' sources, on tiny files in their formats, become dataset folders that read well."""

import csv
import gzip
import io
import json
import pickle
import shutil
import tarfile

import pandas as pd
import pytest

from lib.config import profiles
from lib.data import build, builders, check, corpus, sources, task_files
from lib.data.builders import thesis
from lib.data.dataset_folder import Documents
from tests import thesis_files

PROFILE = profiles.load("thesis")
FILES = PROFILE.build.tasks


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)


@pytest.fixture
def root(tmp_path):
    """Downloads of the pair tasks and of the retrievals."""
    for name in thesis.PAIRS:
        shared = f"{name} shared, text"
        for file, split in zip(FILES[name], ("train", "dev", "test"), strict=True):
            cited, twin = f"cited \001aligned\001 {split}", f"{name} twin {split}"
            rows = [
                [1, shared, cited],
                [0, shared, f"other\n{split}"],
                [0, twin, twin],
                [0, shared, cited],  # the first pair with the other label
                [0, cited, shared],  # and the other way round
                [1, shared, "cited  aligned  train"],  # of another split, or the first again
            ]
            write_csv(tmp_path / file, rows)
    for stem in ("wines", "video_games"):
        articles = [["title", "sections"]]
        for title in "ABC":
            parts = [("", f"Lead of {title}."), ("Empty", ""), ("Taste", "It is dry.")]
            articles.append([title, str(parts)])
        write_csv(tmp_path / f"{stem}.txt", articles)
        gold = {"A": {"B": 1, "Gone": 1}, "C": {"Gone": 1}, "Lost": {"A": 1}, "B": {"A": 1, "C": 1}}
        (tmp_path / f"{stem}.gt").write_bytes(pickle.dumps(gold, protocol=4))
    return tmp_path


def write_task(role, folder, root):
    """One task's folder, and what its README says."""
    folder.mkdir()
    thesis.write_task(role, FILES[role], "task", root, folder)
    readme = (folder / "README.md").read_text()
    assert readme.startswith(f"# {role}\n\nSource: ") and readme.endswith(".\n")
    return folder, readme


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_documents(folder):
    return pd.read_parquet(folder / "documents").to_dict("records")


def list_errors(folder):
    return [line for line in check.findings(folder) if ": error: " in line]


@pytest.mark.parametrize("role", thesis.PAIRS)
def test_pairs(root, tmp_path, role):
    folder, readme = write_task(role, tmp_path / "out", root)
    task = folder / "tasks/task"
    texts = {row["id"]: row["text"] for row in read_documents(folder)}
    first, second, twins = read_lines(task / "validation.jsonl")
    assert (first["label"], second["label"]) == ("1", "0")
    assert first["a"] == second["a"], "equal texts are one text"
    assert texts[first["a"]] == f"{role} shared, text" and texts[second["b"]] == "other\ndev"
    assert texts[first["b"]] == "cited  aligned  dev" and texts[twins["a"]] == texts[twins["b"]]
    assert len(read_lines(task / "train.jsonl")) == 4, "an example may be there twice"
    assert "8 pairs left out" in readme and not list_errors(folder)


@pytest.mark.parametrize("protocol", [2, 5])
def test_retrieval(root, tmp_path, protocol):
    gold = pickle.loads((root / "wines.gt").read_bytes())
    (root / "wines.gt").write_bytes(pickle.dumps(gold, protocol=protocol))
    folder, readme = write_task("WINES", tmp_path / "out", root)
    text = "A\nLead of A.\nTaste\nIt is dry."
    assert read_documents(folder)[0] == {"id": "A", "text": text, "title": ""}
    relevant = json.loads((folder / "tasks/task/relevant.json").read_text())
    assert relevant == {"A": ["B"], "B": ["A", "C"]}
    assert "\n2 of 4 gold sources dropped: " in readme and not list_errors(folder)


def test_a_pickle_with_code_is_refused_unexecuted(root, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    (root / "video_games.gt").write_bytes(pickle.dumps({"A": Evil()}))
    told = r"video_games\.gt: expected a pickle of .* and nothing else: "
    with pytest.raises(ValueError, match=told):
        thesis.write_task("GAMES", FILES["GAMES"], "task", root, tmp_path)
    assert not (tmp_path / "executed").exists()


def test_a_file_that_changed_is_refused(root, tmp_path):
    write_task("AAN", tmp_path / "out", root)
    with (root / "train_cite.csv").open("a") as stream:
        stream.write("1,more,text\n")
    (tmp_path / "again").mkdir()
    told = r"train_cite\.csv: its sha256 is \w{64}, but .*seal\.json says \w{64}; delete"
    with pytest.raises(ValueError, match=told):
        thesis.write_task("AAN", FILES["AAN"], "task", root, tmp_path / "again")


@pytest.fixture
def true_files(tmp_path, monkeypatch):
    """Everything that the profile downloads in the true formats: a hub cache, and a folder."""
    (tmp_path / "data").mkdir()
    thesis_files.hub(tmp_path / "hub", PROFILE)
    for files in thesis_files.archives(PROFILE).values():
        for name, content in files.items():
            (tmp_path / "data" / name).write_bytes(content)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(
        sources, "find_built", lambda settings, _: builders.folder(settings, tmp_path / "home")
    )
    return tmp_path


def test_the_whole_profile_is_built_and_read(true_files, monkeypatch):
    monkeypatch.setattr(thesis, "PIECE", 8)
    roots = sources.find_roots(PROFILE.build, PROFILE.data_roots, true_files / "artifacts")
    built = roots[0]
    assert roots[1] == true_files / "data", "where the news chapter's folder may lie"
    assert check.main([str(built)]) == 0
    assert len(list((built / "wikipedia/documents").iterdir())) == 8
    tasks = task_files.read_tasks(roots, PROFILE.tasks)
    assert list(tasks) == list(PROFILE.tasks.names), "each where the profile looks for it"
    assert tasks["IMDB"].folds == 5 and list(tasks["IMDB"].inputs) == ["train", "test"]
    assert tasks["ARXIV"].texts["validation/0"].startswith("[] "), "without the class"
    assert len(tasks["PAN"].inputs["test"]) == 12
    sizes = {"train_documents": 24, "validation_documents": 4}
    section = PROFILE.corpus.model_copy(update=sizes)
    folders = [Documents(built / name) for name in section.names]
    assert len(folders[0]) == 60

    def count_tokens(texts):
        return [8 * len(text.split()) for text in texts]

    held_out = task_files.held_out_contents(tasks)
    drawn = corpus.Corpus.read(corpus.draw(section, folders, held_out, count_tokens), folders)
    assert [d.source for d in drawn.train[:4]] == ["wikipedia", "news"] * 2
    assert min(len(d.text.split()) for d in drawn.train if d.source == "news") >= 150


def test_what_is_built_is_not_asked_for_again(true_files):
    built = sources.find_built(PROFILE.build, None)
    shutil.rmtree(true_files / "hub")
    for path in (true_files / "data").glob("*.csv"):
        path.unlink()
    assert sources.find_built(PROFILE.build, None) == built


def test_a_line_says_what_is_missing(true_files, capsys):
    (true_files / "data/wines.txt").unlink()
    longformer = next((true_files / "hub").glob("models--allenai*"))
    shutil.rmtree(longformer)
    assert build.main(["thesis"]) == 2
    told = capsys.readouterr().err.partition("error: ")[2]  # behind the bars of the hub's library
    model, wines, rest = told.split("\n")
    assert model.startswith("missing: hf://allenai/longformer-base-4096@") and not rest
    place = f"expected in {true_files / 'data'}, from https://zenodo.org/records/4812960"
    assert wines.startswith(f"missing: wines.txt: {place}")


def write_archive(path, lines):
    """As macOS makes one: a hidden file, which is no JSON, comes before each other file."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (("._realnews.jsonl", b"\0\5\x16\7"), ("realnews.jsonl", lines)):
            member = tarfile.TarInfo(f"realnews/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_realnews_of_its_authors(tmp_path):
    rows = [{"title": None, "text": f"news {n}", "url": "u", "domain": "d"} for n in range(30)]
    write_archive(tmp_path / "realnews.tar.gz", thesis_files.json_lines(rows))
    (tmp_path / "news").mkdir()
    thesis.write_corpus([str(tmp_path / "realnews.tar.gz")], tmp_path / "news")
    texts = [document.text for document in Documents(tmp_path / "news")]
    assert texts == [row["text"] for row in rows]


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def spoil(path):
    path.write_bytes(path.read_bytes().replace(b'"', b"\xff"))


@pytest.mark.parametrize(
    "name, damage, told",
    [
        ("part.parquet", cut, r"part\.parquet: not a whole Parquet file"),
        ("part.json.gz", cut, r"part\.json\.gz:\d+: .* is cut off or damaged"),
        ("part.jsonl", spoil, r"part\.jsonl:1: not JSON"),
        ("realnews.tar.gz", cut, r"realnews\.tar\.gz: the archive is cut off or damaged"),
    ],
)
def test_a_damaged_file_of_a_corpus_is_refused_by_its_name(tmp_path, name, damage, told):
    rows = [{"text": thesis_files.words("topic", 50, number)} for number in range(200)]
    lines, path = thesis_files.json_lines(rows), tmp_path / name
    if name.endswith(".tar.gz"):
        write_archive(path, lines)
    else:
        forms = {".parquet": thesis_files.parquet(rows), ".gz": gzip.compress(lines)}
        path.write_bytes(forms.get(path.suffix, lines))
    damage(path)
    (tmp_path / "news").mkdir()
    with pytest.raises(ValueError, match=told):
        thesis.write_corpus([str(path)], tmp_path / "news")


def test_no_flipped_bit_and_no_cut_of_an_archive_goes_unseen(tmp_path):
    path = tmp_path / "realnews.tar.gz"
    write_archive(path, thesis_files.json_lines([{"text": f"news {n}"} for n in range(30)]))
    content = path.read_bytes()
    first = content.index(b"\0", 10) + 1  # behind gzip's header: its time and name do not count
    damaged = [
        content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        for place in [*range(first, len(content), 3), *range(len(content) - 8, len(content))]
    ]
    damaged += [content[:end] for end in (-1, -8, -9, len(content) // 2, 5, 0)]
    for number, bytes_ in enumerate(damaged):
        path.write_bytes(bytes_)
        (tmp_path / str(number)).mkdir()
        with pytest.raises(ValueError, match="realnews.tar.gz") as error:
            thesis.write_corpus([str(path)], tmp_path / str(number))
        assert "\n" not in str(error.value)


def test_a_corpus_without_texts_is_refused_by_its_name(tmp_path):
    (tmp_path / "none.parquet").write_bytes(thesis_files.parquet({"text": [], "label": []}))
    (tmp_path / "blank.jsonl").write_bytes(thesis_files.json_lines([{"text": " "}]))
    (tmp_path / "other.jsonl").write_bytes(thesis_files.json_lines([{"title": "x"}]))
    for name, told in {
        "none.parquet": "expected rows, it has none that can be used",
        "blank.jsonl": "expected rows, it has none that can be used",
        "other.jsonl": "'text': missing; found: title",
        "nothing.jsonl": "no such file",
    }.items():
        (tmp_path / f"news {name}").mkdir()
        with pytest.raises(ValueError, match=f"{name}.*: {told}"):
            thesis.write_corpus([str(tmp_path / name)], tmp_path / f"news {name}")


@pytest.mark.parametrize(
    "role, name, content, told",
    [
        ("OC", "dev_ai2_ab.csv", b"1,a,\xff\n", ":0: not a CSV file in UTF-8 after this line"),
        ("OC", "dev_ai2_ab.csv", b'1,a,b\n0,c,"cut', ":2: .*: unexpected end of .*seal.json"),
        ("OC", "dev_ai2_ab.csv", b"", ": expected rows, it has none"),
        ("PAN", "pla_dev.csv", b'1,"two\nlines",b\n2,a,b\n', ":3: expected label"),
        ("PAN", "pla_dev.csv", b'1,"two\nlines",b\n1,a\n', ":3: .* got .'1', 'a'"),
        ("WINES", "wines.txt", b"Title,Sections\nA\n", r":2: expected a title and its \[\("),
        ("WINES", "wines.txt", b"Title,Sections\nA,[(1\n", ":2: expected a title"),
        ("WINES", "wines.txt", b"Title,Sections\n", ": expected rows, it has none"),
        ("GAMES", "video_games.gt", b"\x80\x04", ": expected a pickle"),
        ("GAMES", "video_games.gt", pickle.dumps({"A": {}}), ": expected rows, it has none"),
    ],
)
def test_a_damaged_file_of_a_task_is_refused_by_its_name(root, tmp_path, role, name, content, told):
    (root / name).write_bytes(content)
    with pytest.raises(ValueError, match=name + told):
        thesis.write_task(role, FILES[role], "task", root, tmp_path)


def test_another_number_of_rows_than_the_thesis_printed_is_warned_of(root, tmp_path):
    with pytest.warns(UserWarning) as caught:
        write_task("WINES", tmp_path / "wines", root)
    (warning,) = caught
    assert str(warning.message) == f"{root}/wines.txt has 3 rows, published: 1,662"
