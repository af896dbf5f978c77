"""Data roots: what a builder writes, a person's folders, and the environment variable."""

import unicodedata

import pytest

from lib.config import profiles
from lib.config.schema import TaskSettings
from lib.data import sources, task_files
from lib.data.builders import thesis

BUILD = profiles.load("mini").build


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A builder that has written the dataset folder `news`."""
    (tmp_path / "built/news").mkdir(parents=True)
    monkeypatch.setattr(sources, "find_built", lambda build, artifacts: tmp_path / "built")
    return tmp_path / "built"


def find(build, *names, tmp_path):
    return sources.find_roots(build, names, tmp_path / "artifacts")


def test_roots_of_a_profile_with_a_builder(tmp_path, built, monkeypatch):
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
    assert find(BUILD, "built", tmp_path=tmp_path) == [built]
    assert find(BUILD, "built", str(own), tmp_path=tmp_path) == [built, own]
    assert find(BUILD, str(own), tmp_path=tmp_path) == [own]
    monkeypatch.setenv("THESIS_DATA", str(other))
    assert find(BUILD, "built", str(own), tmp_path=tmp_path) == [built, other, own]
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "nowhere"))
    assert find(BUILD, "built", tmp_path=tmp_path) == [built], "where thesis puts downloads"


def test_roots_of_a_profile_without_a_builder(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"your own documents: set THESIS_DATA, or data_roots"):
        find(None, "built", tmp_path=tmp_path)
    with pytest.raises(ValueError, match="the data root 'nowhere' is not a folder: set"):
        find(None, "nowhere", tmp_path=tmp_path)
    assert find(None, "built", str(tmp_path), tmp_path=tmp_path) == [tmp_path]
    monkeypatch.setenv("THESIS_DATA", str(tmp_path))
    assert find(None, "nowhere", tmp_path=tmp_path) == [tmp_path], "it names the root"


def test_a_profile_lists_its_roots():
    for given in ("mine", ["mine"], "[mine]"):
        overrides = [f"data_roots={given}"] if isinstance(given, str) else {"data_roots": given}
        assert profiles.load("mini", overrides=overrides).data_roots == ("mine",)


def test_a_dataset_folder_is_in_one_root(tmp_path, built):
    own = tmp_path / "own"
    (own / "mine").mkdir(parents=True)
    assert sources.find_dataset([built, own], "mine") == own / "mine"
    (own / "news").mkdir()
    with pytest.raises(ValueError, match=r"'news' is in .*built and .*own; rename") as error:
        sources.find_dataset([built, own], "news")
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"^letters: no such dataset folder in .*built, .*own: "):
        sources.find_dataset([built, own], "letters")


@pytest.mark.parametrize("typed, held", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_profile_finds_folders_by_their_names_in_any_form(tmp_path, write, typed, held):
    """A profile is typed, and a disk from macOS writes é as e and an accent."""
    spelled = unicodedata.normalize(held, "é/à")
    folder = tmp_path / "own" / spelled.partition("/")[0]
    write(folder / "documents.jsonl", {"id": 0, "text": "a"}, {"id": 1, "text": "b"})
    write(tmp_path / "own" / spelled.replace("/", "/tasks/") / "relevant.json", {"0": ["1"]})
    name = unicodedata.normalize(typed, "é/à")
    roots = [tmp_path, tmp_path / "own"]
    assert sources.find_dataset(roots, name.partition("/")[0]) == folder
    section = TaskSettings(folders={"alike": name}, limit=9, seed=0)
    assert task_files.read_tasks(roots, section)["alike"].relevant == {"0": ["1"]}
    (tmp_path / name.partition("/")[0]).mkdir()
    with pytest.raises(ValueError, match="rename or remove one"):
        sources.find_dataset(roots, name.partition("/")[0])


@pytest.mark.parametrize("typed, held", [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("build", [BUILD, None])
def test_a_root_is_found_and_counts_once_by_any_form_of_its_name(
    tmp_path, write, monkeypatch, typed, held, build
):
    root = tmp_path / unicodedata.normalize(held, "é/à")
    write(root / "mine/documents.jsonl", {"id": 0, "text": "a"})
    name = unicodedata.normalize(typed, str(root))
    for names in ([name], [name, str(root)], [str(root), name], [str(root), f"{root}/mine/.."]):
        (found,) = find(build, *names, tmp_path=tmp_path)
        assert found.samefile(root)
        for named in (name, str(root)):
            monkeypatch.setenv("THESIS_DATA", named)
            roots = find(build, *names, tmp_path=tmp_path)
            assert sources.find_dataset(roots, "mine").samefile(root / "mine")
            assert thesis.find_downloads(tmp_path) == root
        monkeypatch.delenv("THESIS_DATA")


def test_a_persons_task_beside_those_of_a_builder(tmp_path, built, write):
    for root, name in ((built, "news"), (tmp_path / "own", "mine")):
        documents = ({"id": n, "text": f"{name} {n}"} for n in range(4))
        write(root / name / "documents.jsonl", *documents)
        write(root / name / "tasks/alike/relevant.json", {"0": ["1"]})
    roots = find(BUILD, "built", str(tmp_path / "own"), tmp_path=tmp_path)
    section = TaskSettings(folders={"a": "news/alike", "b": "mine/alike"}, limit=9, seed=0)
    tasks = task_files.read_tasks(roots, section)
    assert [task.texts["0"] for task in tasks.values()] == ["news 0", "mine 0"]


def test_a_role_of_the_thesis_needs_its_kind(tmp_path, write):
    write(tmp_path / "mine/documents.jsonl", {"id": 0, "text": "a"}, {"id": 1, "text": "b"})
    write(tmp_path / "mine/tasks/alike/relevant.json", {"0": ["1"]})
    section = TaskSettings(folders={"IMDB": "mine/alike"}, limit=9, seed=0)
    message = "tasks.folders.IMDB is a retrieval task, and IMDB is a classification task in the"
    with pytest.raises(ValueError, match=message):
        task_files.read_tasks([tmp_path], section)
