"""Parameters: every profile and grid fits its schema, and whatever does not is one line that
helps."""

from __future__ import annotations

import json
import pickle
import shutil

import pytest

from lib.config import manifest, paths, profiles

PROFILES = ("mini", "smoke", "lab", "lab_gpu", "thesis", "published")


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_loads_unmodified(name):
    profile = profiles.load(name)
    assert profile.name == name
    assert profile.departures == {}
    assert profile.contextual_teacher.min_alpha == 1e-4, "1e-4 in YAML must arrive as a number"
    assert paths.figures(profile) == paths.ROOT / "figures" / name


def test_the_profiles_are_those_of_the_design():
    assert sorted(PROFILES) == profiles.list_profiles()


def test_a_profile_that_extends_another_has_its_values_but_for_its_own():
    mini, smoke = profiles.load("mini").flat(), profiles.load("smoke").flat()
    assert mini.keys() == smoke.keys() and mini["heads.hidden"] == smoke["heads.hidden"]
    assert (mini["heads.repeats"], smoke["heads.repeats"]) == (2, 1)


def test_a_profile_that_extends_none_that_is_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "PARAMS", tmp_path)
    for name, text in (("one", "extends: two\nname: one\n"), ("mini", "name: mini\n")):
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(
        profiles.ParameterError,
        match=r"params/one.yaml: extends: unknown profile 'two'; nearest: one",
    ):
        profiles.load("one")


@pytest.fixture
def own_file(tmp_path, monkeypatch):
    """Writes params/own.yaml beside the real profiles, and loads it."""

    def load(values):
        for path in paths.PARAMS.glob("*.yaml"):
            shutil.copy(path, tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(paths, "PARAMS", tmp_path)
            (tmp_path / "own.yaml").write_text(json.dumps(values))  # JSON is YAML
            return profiles.load("own")

    return load


@pytest.mark.parametrize("section", ["corpus", "tasks", "training"])
@pytest.mark.parametrize("value", [None, 5, ["a"]])
def test_a_section_that_is_none_is_one_line(own_file, section, value):
    with pytest.raises(
        profiles.ParameterError,
        match=f"^params/own.yaml: {section}: expected a valid dictionary or ",
    ):
        own_file({"extends": "mini", "name": "own", section: value})


def test_overrides_in_every_accepted_form_mean_the_same():
    forms = [
        {"training.documents": 60, "training.learning_rate": 1e-5},
        ["training.documents=60", "training.learning_rate=1e-5"],
        '{"training.documents": 60, "training.learning_rate": 0.00001}',
    ]
    loaded = [profiles.load("mini", overrides=form) for form in forms]
    assert {profile.training.learning_rate for profile in loaded} == {1e-5}
    expected = {"training.documents": 60, "training.learning_rate": 1e-5}
    assert all(profile.departures == expected for profile in loaded)
    assert all(profile == loaded[0] for profile in loaded)


@pytest.mark.parametrize(
    ("seeds", "expected"), [("0,1", (0, 1)), ([3], (3,)), (2, (2,)), ("7", (7,)), (None, (0,))]
)
def test_seeds_in_every_accepted_form(seeds, expected):
    assert profiles.load("mini", seeds=seeds).seeds == expected


def test_a_modified_run_never_writes_where_the_plain_one_does():
    plain = paths.figures(profiles.load("mini"))
    changed = [
        profiles.load("mini", overrides=["student.window=32"]),
        profiles.load("mini", seeds=[1]),
        profiles.load("mini", only="cosine"),
    ]
    folders = [paths.figures(profile) for profile in changed]
    assert len({plain, *folders}) == 4
    assert all(folder.is_relative_to(paths.artifacts()) for folder in folders)
    same = profiles.load("mini", overrides=["student.window=64"], seeds=[0])
    assert paths.figures(same) == plain, "setting what is already set changes nothing"


def test_departures_survive_the_way_to_a_worker_process():
    profile = profiles.load("mini", overrides=["training.documents=60"])
    assert pickle.loads(pickle.dumps(profile)).departures == {"training.documents": 60}


def test_a_profile_is_plain_values_for_a_fingerprint():
    values = profiles.load("mini").model_dump(mode="json")
    assert values["student"]["layers"] == [0, 2, 4] and values["final"]["rounds"]["all"] is None


REFUSED_BY_THE_SCHEMA = [  # an override, and the key that the message begins with
    ({"training.documents": "60"}, "training.documents"),
    ({"training.documents": 60.0}, "training.documents"),
    ("heads.learning_rate=fast", "heads.learning_rate"),
    ("heads.learning_rate=true", "heads.learning_rate"),
    ("training.documents=-1", "training.documents"),
    ("heads.dropout=1", "heads.dropout"),
    ("student.window=7", "student.window"),
    ("corpus.validation_documents=0", "corpus.validation_documents"),
    ("training.clip=.nan", "training.clip"),
    ("training.precision=fp16", "training.precision"),
    ("corpus.folders=[{folder: news, share: 0}]", "corpus.folders.0.share"),
    ("corpus.folders=[]", "corpus.folders"),
    ({"tasks.folders": {"MINE": {"folder": "a/b", "folds": 1}}}, "tasks.folders.MINE.folds"),
    ("build.articles=5", "build.mini.articles"),
    ({"build": {"builder": "thesis", 1: 2}}, "build.thesis.wikipedia"),
    ("training=5", "training"),
    ({"training": {"documents": 60}}, "training.passes"),
    ({"heads.repeats": 10**30}, "heads.repeats"),
    ("width=1e999", "width"),
    ("heads.epochs=[[[1, 2]]]", "heads.epochs"),
    ("student.revision.x=1", "student.revision"),
]
REFUSED = [
    ({"overrides": ["training.document=60"]}, "unknown key; nearest: training.documents"),
    ({"overrides": ["train.documents=60"]}, "train: unknown key; nearest: training"),
    ({"overrides": ["learning_rate=1"]}, "unknown key; nearest: heads.learning_rate"),
    ({"overrides": ["training.documents.x=1"]}, "training.documents.x: unknown key"),
    ({"overrides": {3: 4}}, "3: unknown key; nearest: "),
    (
        {"overrides": ["student.language_model.epoch=3"]},
        "unknown key; nearest: student.language_model.epochs",
    ),
    (
        {"overrides": ["corpus.train_documents=150"]},
        "corpus.train_documents=150 is less than training.documents=",
    ),
    ({"overrides": ["training.documents=9999"]}, "is less than training.documents=9999: lower"),
    ({"overrides": ["training.documents=4"]}, "training.documents=4 do not fill a batch of "),
    ({"overrides": ["corpus.folders=[news, news]"]}, "corpus.folders: expected each value once"),
    ({"overrides": ["news.texts=[news, wikipedia, news]"]}, "news.texts: expected each value once"),
    ({"overrides": ["reference_seeds=[1, 1]"]}, "expected each value once, got 1, 1"),
    ({"overrides": ["data_roots=[built, built]"]}, "data_roots: expected each value once, got"),
    ({"overrides": {"corpus.folders": ["\u00e9", "e\u0301"]}}, "folders: expected each value once"),
    (
        {"overrides": ["corpus.folders=[../news]"]},
        "corpus.folders.0.folder: expected the name of a folder in a data root, got '../news'",
    ),
    *(
        (
            {"overrides": {"tasks.folders": {"MINE": name}}},
            f"MINE.folder: expected <folder>/<task>, got {name!r}",
        )
        for name in ("own", "own/a/b", "../own")
    ),
    ({"overrides": [3]}, "override 3: expected key=value"),
    ({"overrides": 5}, "override 5: expected key=value"),
    ({"overrides": ["training.documents"]}, "expected key=value"),
    ({"overrides": "{training.documents: 6"}, "overrides line 1: not valid YAML"),
    ({"overrides": ["training.documents=[1"]}, "not valid YAML"),
    ({"overrides": ["training.documents=1" + 5000 * "0"]}, "training.documents: not valid YAML"),
    ({"overrides": ["data_roots=[built,"]}, "quote it if it has spaces"),
    ({"overrides": {"name": "lab"}}, "name: expected 'mini', as the file is called, got 'lab'"),
    ({"seeds": "0,0"}, "seeds: expected each value once, got 0, 0"),
    ({"seeds": "0,x"}, "seeds: expected whole numbers such as 0,1, got '0,x'"),
    ({"overrides": ["seeds=0,x"]}, "seeds: expected whole numbers such as 0,1, got '0,x'"),
    ({"seeds": "\u00b2"}, "seeds: expected whole numbers such as 0,1, got '\u00b2'"),
    ({"seeds": "9" * 5000}, f"seeds: expected whole numbers such as 0,1, got '{'9' * 80}'"),
    *(({"seeds": each}, "seeds.0: ") for each in ([-1], 1.5, "-1", [2**32], [True])),
    *(({"seeds": each}, "seeds: ") for each in ([], {0: 1}, b"0")),
    ({"only": 3}, "only: "),
]
REFUSED += [
    ({"overrides": given if isinstance(given, dict) else [given]}, f"{key}: ")
    for given, key in REFUSED_BY_THE_SCHEMA
]


@pytest.mark.parametrize(("arguments", "expected"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_is_one_line_that_names_the_key(arguments, expected):
    with pytest.raises(profiles.ParameterError) as raised:
        profiles.load("mini", **arguments)
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 200


@pytest.mark.parametrize("name", ["mnii", ["mini"], None, "../mini", "", "manifest"])
def test_an_unknown_profile_is_one_line(name):
    with pytest.raises(profiles.ParameterError) as raised:
        profiles.load(name)
    assert f"unknown profile {name!r}; nearest: " in str(raised.value)


@pytest.mark.parametrize("only", ["cosin", "cosine,", " , ", "MSE, max-margin;*"])
def test_a_filter_of_which_a_part_matches_nothing_is_one_line(only):
    with pytest.raises(profiles.ParameterError, match="only: no model is called '.*'; nearest: "):
        profiles.check_only(only, ["cosine", "MSE"])
    profiles.check_only("cos*, MSE", ["cosine", "MSE"])


def test_mappings_are_replaced():
    """`final.rounds={...}` is the rounds, whatever stood there before."""
    plain = profiles.load("mini")
    assert "all" in plain.final.rounds and plain.final.rounds["all"] is None
    for form in ({"final.rounds": {"1k": 30}}, ["final.rounds={1k: 30}"]):
        changed = profiles.load("mini", overrides=form)
        assert changed.final.rounds == {"1k": 30}
        assert changed.final.documents == plain.final.documents
        assert changed.departures == {"final.rounds": {"1k": 30}}
    folders = profiles.load("lab", overrides={"tasks.folders": {"mood": "letters/mood"}})
    assert folders.tasks.names == ("mood",)
    one_key = profiles.load("mini", overrides=["final.rounds.1k=30"])
    assert one_key.final.rounds == {**plain.final.rounds, "1k": 30}
    fewer = {name: size for name, size in plain.final.rounds.items() if name != "all"}
    without = profiles.load("mini", overrides={"final.rounds": fewer})
    assert paths.figures(without) != paths.figures(plain), (
        "a round less must not draw into the committed figures"
    )


BOMB = "a0: &a0 [x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
DAMAGED = {
    "a list as key": ("? [a, b]\n: 1\n", "Keys should be strings"),
    "a mapping as key": ("? {a: b}\n: 1\n", "not valid YAML: found unhashable key"),
    "a number as key": ("5: 1\n", "5: Keys should be strings"),
    "an anchor bomb": (f"{BOMB}seeds: *a11\n", "seeds.0: expected a valid integer, got"),
    "an anchor bomb elsewhere": (BOMB, "a0: unknown key"),
    "an endless list": ("x: &a [*a]\n", "x: unknown key"),
    "too deep": ("x: " + "{a: " * 2000, "not valid YAML: maximum recursion depth exceeded"),
    "a control character": ("\x07", "not valid YAML: unacceptable character"),
    "two documents": ("\n---\nname: mini\n", "not valid YAML"),
    "a foreign tag": (
        "x: !!python/object/apply:os.system [ls]\n",
        "could not determine a constructor",
    ),
    "not UTF-8": (b"# caf\xe9\n", "mini.yaml: not valid YAML: unacceptable character #x00e9"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_file_that_is_no_profile_is_one_line(tmp_path, monkeypatch, kind):
    added, expected = DAMAGED[kind]
    added = added if isinstance(added, bytes) else added.encode()
    lines = (paths.PARAMS / "mini.yaml").read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not (line.startswith(b"seeds:") and b"seeds:" in added)]
    (tmp_path / "mini.yaml").write_bytes(b"".join(kept) + added)
    (tmp_path / "no_text.yaml").write_bytes(b"\xff\xfe\x00")  # beside it: must not matter
    monkeypatch.setattr(paths, "PARAMS", tmp_path)
    with pytest.raises(profiles.ParameterError, match=expected) as raised:
        profiles.load("mini")
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 500


def test_an_empty_profile_says_what_is_missing(tmp_path, monkeypatch):
    (tmp_path / "mini.yaml").write_bytes(b"")
    monkeypatch.setattr(paths, "PARAMS", tmp_path)
    with pytest.raises(
        profiles.ParameterError, match="params/mini.yaml: expected a valid dictionary"
    ):
        profiles.load("mini")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("  dropout: 0.5", "  dropuot: 0.5", "params/mini.yaml: heads"),
        (
            "width: 0.5",
            "width: wide",
            "params/mini.yaml: width: expected a valid number, got 'wide'",
        ),
        ("width: 0.5", "width: 0.5\nwidth: 0.6", 'not valid YAML: found duplicate key "width"'),
        ("name: mini", "name: maxi", "params/mini.yaml: name: expected 'mini'"),
        ("width: 0.5", "width: [0.5", "not valid YAML"),
    ],
)
def test_a_damaged_profile_names_the_file_and_the_place(
    tmp_path, monkeypatch, before, after, expected
):
    text = (paths.PARAMS / "mini.yaml").read_text(encoding="utf-8")
    assert text.count(f"\n{before} ") == 1 or text.count(f"\n{before}\n") == 1
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "mini.yaml").write_text(
        text.replace(f"\n{before}", f"\n{after}"), encoding="utf-8"
    )
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "PARAMS", tmp_path / "params")
    with pytest.raises(profiles.ParameterError) as raised:
        profiles.load("mini")
    assert expected in str(raised.value)


def test_a_hub_corpus_must_be_pinned():
    unpinned = {"build.wikipedia": ["hf://datasets/legacy-datasets/wikipedia/*.parquet"]}
    with pytest.raises(
        profiles.ParameterError, match="build.thesis.wikipedia.0: expected the pinned hf://"
    ):
        profiles.load("thesis", overrides=unpinned)


def test_tasks_have_any_name_and_one_order():
    folders = {
        "zoo": "own/zoo",
        "GAMES": "own/x",
        "IMDB": {"folder": "own/y", "folds": 3},
        "birds": "own/z",
    }
    tasks = profiles.load("lab", overrides={"tasks.folders": folders}).tasks
    assert tasks.names == ("IMDB", "GAMES", "birds", "zoo")
    assert (
        tasks.folders["zoo"].folder,
        tasks.folders["zoo"].folds,
        tasks.folders["IMDB"].folds,
    ) == ("own/zoo", None, 3)


def test_a_profile_cannot_be_changed_in_place():
    with pytest.raises(ValueError, match="frozen"):
        profiles.load("mini").training.documents = 5


def test_every_label_of_the_manifest_has_a_notebook_and_every_notebook_a_label():
    entries = manifest.load()
    notebooks = {path.stem for path in paths.NOTEBOOKS.glob("[0-9]*.ipynb")}
    assert {entry.notebook for entry in entries.values()} == notebooks
    for label, entry in entries.items():
        if label[:3] in ("fig", "tab") and label[3] in "45":
            assert entry.section[0] == label[3], f"{label} is in chapter {label[3]}"


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (["fig4_3"], ["02_structural_loss"]),
        (["00"], ["00_start_here"]),
        (["tab4_1", "00_start_here"], ["00_start_here", "01_data_stats"]),
    ],
)
def test_requests_choose_whole_notebooks(requests, expected):
    entries = manifest.load()
    notebooks = {entry.notebook for entry in entries.values()}
    assert manifest.select(entries, notebooks, requests) == expected
    assert manifest.select(entries, notebooks, []) == sorted(notebooks)
    with pytest.raises(profiles.ParameterError, match="unknown label, notebook or profile 'x'"):
        manifest.select(entries, notebooks, [*requests, "x"])
