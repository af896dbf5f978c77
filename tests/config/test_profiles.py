"""Parameters: every profile fits its schema, and whatever does not is one line that helps."""

import ast
import inspect
import itertools
import pickle
import shutil

import pytest
from gensim.models.doc2vec import Doc2Vec
from gensim.models.word2vec import Word2Vec

from lib.config import manifest, paths, profiles


def test_every_profile_and_grid_loads_and_a_profile_extends_another():
    loaded = {name: profiles.load(name) for name in profiles.list_profiles()}
    assert {*loaded} == {"mini", "smoke", "lab", "thesis", "published"}
    for name, profile in loaded.items():
        assert (profile.name, profile.departures) == (name, {})
        assert profile.heads.learning_rate == 1e-4, "1e-4 in YAML must arrive as a number"
        assert paths.figures(profile) == paths.ROOT / "figures" / name
    mini, smoke = loaded["mini"], loaded["smoke"]
    assert mini.flat().keys() == smoke.flat().keys() and mini.heads.hidden == smoke.heads.hidden
    assert (mini.heads.repeats, smoke.heads.repeats) == (2, 1)


def test_every_field_has_a_reader():
    """A parameter that does nothing is none. Some are read by `**section.model_dump()`."""
    gensims = (inspect.signature(each).parameters for each in (Doc2Vec, Word2Vec))
    names: set[object] = {*itertools.chain(*gensims)}  # gensim reads its own
    for path in {*(paths.ROOT / "lib").rglob("*.py")} - {*(paths.ROOT / "lib/config").iterdir()}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names |= {getattr(node, name, None) for name in ("attr", "arg", "id")}
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= {*node.value.split()} if len(node.value) < 200 else set()
    unread = [key for key in profiles.load("mini").flat() if key.rpartition(".")[2] not in names]
    assert unread == []


def test_overrides_and_seeds_in_every_accepted_form_mean_the_same():
    expected = {"training.documents": 60, "training.learning_rate": 1e-5}
    for form in (expected, ["training.documents=60", "training.learning_rate=1e-5"]):
        assert profiles.load("mini", overrides=form).departures == expected
    for seeds, read in (("0,1", (0, 1)), ([3], (3,)), (2, (2,)), ("7", (7,)), (None, (0,))):
        assert profiles.load("mini", seeds=seeds).seeds == read
    shorter = profiles.load("mini", overrides=["final.rounds={1k: 30}"])
    assert shorter.departures == {"final.rounds": {"1k": 30}}, "a mapping is replaced"
    one_key = profiles.load("mini", overrides=["final.rounds.1k=30"]).final.rounds
    assert one_key == profiles.load("mini").final.rounds | {"1k": 30}
    assert pickle.loads(pickle.dumps(shorter)).departures == shorter.departures, "in a worker"


def test_a_modified_run_never_writes_where_the_plain_one_does():
    plain = paths.figures(profiles.load("mini"))
    changes = ({"overrides": ["student.window=32"]}, {"seeds": [1]}, {"only": "cosine"})
    folders = [paths.figures(profiles.load("mini", **change)) for change in changes]
    assert len({plain, *folders}) == 4
    assert all(folder.is_relative_to(paths.artifacts()) for folder in folders)
    same = profiles.load("mini", overrides={"student.window": 64, "name": "lab"}, seeds=[0])
    assert paths.figures(same) == plain, "setting what is already set changes nothing"


REFUSED = [  # overrides, and what is said
    (["training.documens=60"], "mini.yaml: unknown key training.documens; nearest: documents"),
    (["build.articels=60"], "unknown key build.mini.articels; nearest: articles"),
    ({"corpus.folders": [{"folder": "news", "shares": 1.0, "share": 1.0}]}, "nearest: share"),
    ({"training.documents": "60"}, "training.documents: Input should be a valid integer, got '60'"),
    (["training.documents"], "training.documents: Input should be a valid integer, got ''"),
    (["training.dropout"], "training.dropout: Input should be a valid number, got ''"),
    (["training.clip=.nan"], "training.clip: "),
    (["training.contextual_rows=dealed"], "training.contextual_rows: Input should be 'own' or"),
    (["corpus.folders=[../news]"], "corpus.folders.0.folder: "),
    (["corpus.train_documents=150"], "corpus.train_documents is less than documents=1400"),
    (["structural_teacher.max_tokens=24"], "max_structural_len is above structural_teacher"),
    (["corpus.folders=[news, news]"], "expected each seed and folder once"),
    (["final.rounds={half: .5}"], "final.rounds.half"),
    (["news.rates={BiGRU: 1e-3}"], "news.rates.BiGRU"),
    (["data_roots=[built,"], "override data_roots: not valid YAML"),
]


@pytest.mark.parametrize(("overrides", "expected"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_is_one_line_that_names_the_key(overrides, expected):
    with pytest.raises(profiles.ParameterError) as raised:
        profiles.load("mini", overrides=overrides)
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (b"width: 0.6\n", 'not valid YAML: while constructing a mapping .* duplicate key "width"'),
        (b"extends: two\n", "unknown profile 'two'; nearest: "),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, monkeypatch, added, expected):
    shutil.copytree(paths.PARAMS, tmp_path / "params")
    with open(tmp_path / "params/mini.yaml", "ab") as file:
        file.write(added)
    monkeypatch.setattr(paths, "PARAMS", tmp_path / "params")
    with pytest.raises(profiles.ParameterError, match=f"^[^\n]*{expected}[^\n]*$"):
        profiles.load("mini")


def test_every_label_of_the_manifest_has_a_notebook_and_every_notebook_a_label():
    entries = manifest.load()
    notebooks = {path.stem for path in paths.NOTEBOOKS.glob("[0-9]*.ipynb")}
    assert {entry.notebook for entry in entries.values()} == notebooks
    assert {*profiles.load("lab").labels} < entries.keys()


def test_another_value_in_a_section_is_checked():
    mini = profiles.load("mini")
    assert mini.changed("heads", epochs=3).heads.epochs == 3 != mini.heads.epochs
    with pytest.raises(ValueError, match="HeadSettings"):
        mini.changed("heads", epoch=3)
