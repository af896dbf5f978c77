"""The folders of mini: written once, by one process, whole or not at all, and the same texts as ever."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from lib.config import paths, profiles
from lib.data import builders, check, sources
from lib.data.build import main as build_main
from lib.data.builders.mini import gensim_files, mini_tasks
from lib.experiments import text_sets
from lib.store import source_keys

# Of the texts and arrays of mini as a 1:8 model. The order of rows decides batches, hence bits: whoever changes these
# changes every number of mini.
CORPUS = "6dfad402d67049610373809dc731694cc502331cd1ff20958684b524718e3033"
TASKS = "1d299cfd85bdf22fb437467dda79c8ec829ccc0c6e65bb8ec88b4b4eb401328c"


def digest(value):
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()


def test_mini_has_the_texts_and_rows_that_its_numbers_come_from(mini, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(mini.artifacts))
    documents = text_sets.corpus(mini.profile)
    assert (
        digest([[d.text for d in split] for split in (documents.train, documents.validation)])
        == CORPUS
    )
    arrays = {name: text_sets.task(name, mini.profile) for name in mini.profile.tasks.names}
    plain = {
        name: {key: array.tolist() for key, array in sorted(found.items())}
        for name, found in arrays.items()
    }
    counted = [
        text_sets.texts("all_tasks", mini.profile),
        len(text_sets.texts("tasks", mini.profile)),
        plain,
    ]
    assert digest(counted) == TASKS


def test_the_corpus_mixes_evenly_with_the_lengths_that_are_published(mini):
    documents = mini.corpus.train
    assert (len(documents), len(mini.corpus.validation)) == (1400, 50)
    for n in (10, 100, 480, 1400):
        assert abs(sum(d.source == "news" for d in documents[:n]) - n / 2) <= 1
    lengths = np.array(gensim_files.tokens([d.text for d in documents]))
    assert (
        abs(100 * np.mean(lengths > 48) - 71) <= 3
        and abs(100 * np.mean(lengths[:480] > 48) - 71) <= 6
    )
    quantiles = np.linspace(0.1, 0.9, 9)
    assert np.quantile(lengths, quantiles) == pytest.approx(
        np.quantile(gensim_files.published_lengths(1400), quantiles),
        rel=0.15,
        abs=14,  # documents end with a sentence
    )


def test_published_lengths_are_an_eighth_of_figure_4_1():
    lengths = gensim_files.published_lengths(1000)
    assert abs(100 * np.mean(lengths > 384 / 8) - 71) <= 2 and lengths.max() <= 640
    assert abs(np.median(lengths) - 1250 / 8) < 5


def test_the_wanted_lengths_do_not_hang_on_the_processor():
    """Wikipedia and news share their bins; NumPy's quicksort orders such ties by the vectors that a processor has."""
    command = "from lib.data.builders.mini import gensim_files as files; print(files.published_lengths(1450).round(6))"
    command = f"import numpy; numpy.set_printoptions(threshold=2000); {command}"
    features = ("", "X86_V4 AVX512_ICL AVX512_SPR", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR")
    plain = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", command],
            env=os.environ | {"NPY_DISABLE_CPU_FEATURES": names, "PYTHONPATH": str(paths.ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for names in features
    ]
    assert plain[0].count(".") == 1450 and len(set(plain)) == 1
    rows = pd.read_csv(gensim_files.LENGTHS).query("label == 'fig4_1' and split == 'train'")
    assert rows["bin_lo"].is_monotonic_increasing  # the file says which of two comes first


def test_documents_are_sentences_of_their_source_that_follow_each_other(mini):
    whole = {f"story {n:03d}": gensim_files.lines(gensim_files.NEWS) for n in range(300)}
    stories = {" ".join(text.split()) for text in whole["story 000"]}
    for document in mini.corpus.validation:
        if document.source == "news":
            assert any(" ".join(document.text.split()) in story for story in stories), document.id
        else:
            sentences = [
                s
                for part in gensim_files.sections()
                if part.article == document.group
                for s in part.sentences
            ]
            assert document.text in " ".join(sentences), document.id


def test_the_corpus_has_no_copies_and_nothing_of_the_tasks(mini):
    documents = [*mini.corpus.train, *mini.corpus.validation]
    assert len({(d.source, d.id) for d in documents}) == len({d.text for d in documents}) == 1450
    assert {*mini.corpus.left_out} == {"wikipedia", "news"}
    assert all(not any(counts.values()) for counts in mini.corpus.left_out.values())
    distilled = set().union(*(gensim_files.shingles(d.text) for d in documents))
    used = mini_tasks.MiniTasks(mini.profile.build).used.items()
    unmasked = [" ".join(section.sentences[:count]) for section, count in used if count]
    task_texts = [text for task in mini.tasks.values() for text in task.texts.values()]
    assert len(unmasked) > 100 and len(task_texts) > 2000
    for text in (*unmasked, *task_texts):
        assert not gensim_files.shingles(text) & distilled, text[:80]


def test_the_folders_pass_the_check_and_say_where_they_come_from(mini, capsys):
    assert check.main([str(mini.root)]) == 0
    printed = capsys.readouterr().out
    assert "wikipedia: 725 documents" in printed and "news: 725 documents" in printed
    folders = [path for path in mini.root.iterdir() if path.is_dir()]
    assert len(folders) == 6
    for folder in folders:
        readme = (folder / "README.md").read_text()
        assert "Source: " in readme and "icence" in readme


def test_too_many_documents_are_refused_and_the_seed_changes_the_order():
    assert gensim_files.corpus_texts(24, {}, seed=1) != gensim_files.corpus_texts(24, {}, seed=2)
    with pytest.raises(
        ValueError, match="build.documents: .* no more than [0-9]+ beside the tasks"
    ):
        gensim_files.corpus_texts(5000, {}, seed=1)


def test_the_code_that_names_the_folder_is_the_whole_builder():
    reached = source_keys.closure("lib.data.builders.mini", stop=("lib.store", "lib.config"))
    assert {
        f"lib.data.builders.mini.{name}" for name in ("gensim_files", "mini_tasks", "wikitext")
    } <= set(reached)


def test_near_copies_are_found():
    story = " ".join(f"word{n}" for n in range(60))
    copies = [story, "something else", story.replace("word3 ", "new "), story.upper()]
    assert gensim_files.without_copies(copies) == [0, 1]


def files(root):
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.mark.smoke
def test_two_processes_at_once_write_the_same_folder_once(tmp_path):
    """Both begin while nothing is there; hash seeds differ."""
    code = "import sys; from lib.data.build import main; sys.exit(main(['smoke']))"
    roots = []
    for artifacts in ("together", "alone"):
        environment = {**os.environ, "THESIS_ARTIFACTS": str(tmp_path / artifacts)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=paths.ROOT,
                env={**environment, "PYTHONHASHSEED": seed},
                stdout=subprocess.PIPE,
                text=True,
            )
            for seed in (("1", "2") if artifacts == "together" else ("3",))
        ]
        printed = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes) and len(
            set(printed)
        ) == 1
        roots.append(files(tmp_path / artifacts / "data"))
    assert roots[0] == roots[1] and len(roots[0]) > 20


def test_a_killed_builder_goes_on_where_it_was(mini, monkeypatch, tmp_path):
    """What is whole stays as it is; what was half-written is written anew."""
    written = []

    def writers(profile):
        def write(folder, name):
            written.append(name)
            assert not list(folder.iterdir())
            (folder / "documents.jsonl").write_text("half")
            if name == "second" and len(written) == 2:
                raise KeyboardInterrupt

        return {
            name: (lambda folder, name=name: write(folder, name)) for name in ("first", "second")
        }

    monkeypatch.setattr("lib.data.builders.mini.writers", writers)
    monkeypatch.setattr(builders, "home", lambda: tmp_path)
    with pytest.raises(KeyboardInterrupt):
        builders.folder(mini.profile)
    root = builders.folder(mini.profile)
    assert written == ["first", "second", "second"]
    assert builders.folder(mini.profile) == root and len(written) == 3
    assert sorted(path.name for path in root.iterdir() if path.is_dir()) == ["first", "second"]


def test_what_is_damaged_later_is_written_again_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(builders, "home", lambda: tmp_path)
    profile = profiles.load("smoke")
    root = sources.root(profile)
    before, cut, complete = files(root), root / "wikipedia/documents.jsonl", root / "complete"
    assert set(json.loads(complete.read_bytes())) == before.keys() - {"complete", ".lock"}
    damages = {
        "wikipedia/documents.jsonl": lambda: cut.write_bytes(cut.read_bytes()[:5000]),
        "news/documents.jsonl": lambda: (root / "news/documents.jsonl").unlink(),
        "passages/tasks/topic/train.jsonl": lambda: (
            root / "passages/tasks/topic/train.jsonl"
        ).write_text(""),
        "sentences/": lambda: shutil.rmtree(root / "sentences"),
    }
    for name, damage in damages.items():
        damage()
        folder = root / name.partition("/")[0]
        with pytest.warns(UserWarning, match=f"{folder} is damaged: it is written again$") as told:
            assert build_main(["smoke"]) == 0
        assert len(told) == 1 and files(root) == before, name
    complete.write_text("")
    with warnings.catch_warnings(action="error"):
        assert sources.root(profile) == root and files(root) == before


def test_settings_name_the_folder(mini, capsys):
    assert mini.root.name.startswith("mini-")
    changed = profiles.load("smoke", overrides=["build.seed=7"])
    assert sources.root(profiles.load("smoke")) != sources.root(changed)
    assert (
        build_main(["lab"]) == 2
        and "profile 'lab': it needs documents of yours: set THESIS_DATA" in capsys.readouterr().err
    )
