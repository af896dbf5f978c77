"""The tables and figures of Section 4.5, beside what this run's profile, grids and records say."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.chapters import contextual, hyperparameters
from lib.config import paths, profiles
from lib.distillation.variants import parse
from lib.published import figure_models
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores
from tests.fake_bench import FakeBench, fake_model

GRID = profiles.grid("beyond")
FACTORS, TRAINED = GRID["factors"], GRID["trained_factors"]


@pytest.fixture
def params(tmp_path, monkeypatch):
    """A copy of `params` that a test may edit."""
    shutil.copytree(paths.PARAMS, tmp_path / "params")
    monkeypatch.setattr(paths, "PARAMS", tmp_path / "params")
    return tmp_path / "params"


# ---- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mini", "thesis"])
def test_tables_of_hyperparameters_follow_the_profile(name):
    changes = {"heads.hidden": 51, "training.accumulation": 3}
    changes |= {"final.accumulation": 7, "final.warmup_updates": 9}
    profile = profiles.load(name, overrides=changes)
    heads, training, final = (
        hyperparameters.tabulate_settings(label, profile).set_index("parameter")
        for label in ("tab5_6", "tab4_4", "tab5_2")
    )
    assert heads.at["Hidden features", "value"] == "51"
    assert training.at["Gradient accumulation steps", "value"] == "3"
    assert final.at["Gradient accumulation steps", "value"] == "7"
    assert final.at["Warmup update steps", "value"] == "9"
    mixed = "Mixed-precision training"
    assert final.at[mixed, "value"] == "Yes, where the device supports bfloat16"
    assert heads.at[mixed, "value"] == "No" and final["published"].notna().all()


@pytest.mark.parametrize(("name", "limit"), [("thesis", "384"), ("lab", ""), ("mini", "")])
def test_weightings_are_this_run_s(name, limit):
    profile = profiles.load(name)
    table = hyperparameters.tabulate_settings("tab4_9", profile).set_index("parameter")
    assert table["published"].tolist() == published.load("tab4_9")["value"].tolist()
    limit = limit or f"{profile.training.max_structural_len} (label 384)"
    assert table.loc["max_structural_len", "value"] == f"{limit}, None"
    assert table.loc["λ", "value"] == "0.95, 0.8, 0.5, 0.2"


def test_what_a_grid_adds_stands_in_the_tables_of_what_was_searched(params):
    for grid, name, values in (
        ("weighting", "lam", "[0.95, 0.8, 0.5, 0.2, 0.05]"),
        ("pv", "dimensions", "[100, 768, 1024, 256]"),
    ):
        path = params / "grids" / f"{grid}.yaml"  # whatever the committed grid holds
        entry = rf"(?m)^{name}:(?: .*|(?:\n  - .*)+)$"  # a list in one line, or one entry a line
        path.write_text(re.sub(entry, f"{name}: {values}", path.read_text(encoding="utf-8")))
    thesis = profiles.load("thesis")
    weightings = hyperparameters.tabulate_settings("tab4_9", thesis)["value"]
    assert weightings[1] == "0.95, 0.8, 0.5, 0.2, 0.05"
    searched = hyperparameters.tabulate_settings("tab4_5", thesis).set_index("parameter")
    sizes = searched.loc["vector_size", ["value", "published"]]
    assert sizes.tolist() == ["100, 768, 1024, 256", "100, 768, 1024"]


@pytest.mark.parametrize("label", ["tab4_6", "tab4_7", "tab4_8"])
def test_projections_are_the_published_rows_in_their_order(label):
    ours, theirs = contextual.tabulate_projections(label, 768, 1.0), published.load(label)
    assert ours[theirs.columns].to_numpy().tolist() == theirs.to_numpy().tolist()
    assert set(ours["published"]) == {"yes"}


def test_projections_of_one_s_own_and_of_another_width_by_hand(params):
    path = params / "grids" / "projections.yaml"
    before, after = '["768(ReLU)x1024", "1024"]', '["768(ReLU)x1024", "1024", "512x1024"]'
    path.write_text(path.read_text(encoding="utf-8").replace(before, after, 1), encoding="utf-8")
    rows = contextual.tabulate_projections("tab4_6", 768, 1.0)
    own = rows[rows["published"] == "no"]
    assert own["student_projection"].tolist() == ["512x1024"] * 3 and len(rows) == 16 + 3
    assert own["student_parameters"].tolist() == [768 * 512 + 512 + 512 * 1024 + 1024] * 3
    narrow = contextual.tabulate_projections("tab4_6", 384, 0.5).set_index("student_projection")
    assert set(narrow.loc["768", "student_parameters"]) == {384 * 384 + 384}


def as_records(best=()):
    """The published accuracies of both figures of weightings; those of `best` are raised to 1."""
    frames = [published.load(label) for label in ("fig4_10", "fig4_11")]
    frame = pd.concat(frames).drop_duplicates(["identity", "task"])
    frame = frame.assign(model=frame["identity"], value=frame["accuracy"], seed=0)
    frame.loc[frame["model"].isin(best), "value"] = 1.0
    return frame[["model", "task", "value", "seed"]]


def test_the_best_students_are_described_as_the_thesis_describes_them():
    table = contextual.tabulate_selected(as_records(), profiles.load("thesis"))
    theirs, ours = table.iloc[:, 1:5], table.iloc[:, 5:]
    assert theirs.equals(published.load("tab4_10").iloc[:, 1:])
    names = ["cosine;384;λ=0.5", "cosine;no-weighting", "only-structural;mm-MSE"]
    assert ours.columns.tolist() == [f"ours: {name}" for name in (*names, "mm-MSE;None;λ=0.5")]
    printed = theirs.iloc[:, [0, 1, 3, 2]]  # the thesis lists the weighted max-margin student first
    # 386 is what the thesis prints; the limit is 384 everywhere else.
    assert ours.to_numpy().tolist() == printed.replace("386", "384", regex=True).to_numpy().tolist()
    other = figure_models.printed("fig4_10")["None;λ=0.8"]
    table = contextual.tabulate_selected(as_records([other]), profiles.load("mini"))
    assert table.columns[5] == "ours: cosine;None;λ=0.8"
    assert table[table.columns[5]].tolist()[-2:] == ["0.8", "-"]


# ---- students -----------------------------------------------------------------------------------


def test_histories_say_what_chance_gives(monkeypatch):
    """A row for each measurement of each student with a contextual loss, and of no other model."""
    watched = np.array([[0, 0.5, 0.4, 0.2], [4, 0.6, 0.5, 0.3]])
    monkeypatch.setattr(contextual, "chance_cca", lambda student, teacher: 0.1)
    student = fake_model(np.eye(3), history={"watched": watched}, prepare_rows=np.eye(3))
    bench = FakeBench("mini", model=lambda *_: student)
    name = "100d;S:768;C:768"
    models = {"Longformer": "Longformer", name: f"only-contextual;{name}", "cosine": "cosine"}
    table = contextual.collect_histories({"alone": models}, bench)
    columns = ["group", "model", "dimension", "update", "embedding", "projected", "chance", "share"]
    assert [*table] == columns and len(table) == 2
    assert table.iloc[1].tolist() == ["alone", name, "100", 4, 0.6, 0.5, 0.1, 0.3]


def test_a_factor_multiplies_the_contextual_gradient():
    """A student lies at the angle of its λ to the one without context; shares begin at 1/5."""
    trained = []

    def make_model(bench, label, seed):
        label = str(label)
        lam = float(label.rpartition("λ=")[2]) if "λ=" in label else 1.0
        angle = (1 - lam) * 0.5 + 0.1 * seed
        watched = np.array([[0, 0, 0, 0.2], [4, 0, 0, 0.4]])
        rows = np.tile([np.cos(angle), np.sin(angle)], (3, 1))
        return fake_model(rows, history={"watched": watched})

    bench = FakeBench("smoke", model=make_model, embed=lambda _, models, __: trained.extend(models))
    table = contextual.compare_factors(bench)
    cosine = table[table["loss"] == "cosine"].set_index("factor")
    assert cosine["expected"].tolist() == pytest.approx([k / (4 + k) for k in FACTORS])
    assert cosine["share"].dropna().to_dict() == pytest.approx(dict.fromkeys(TRAINED, 0.3))
    assert cosine["another_seed"].tolist() == pytest.approx([np.cos(0.1)] * len(FACTORS))
    assert cosine.loc[64, "cosine"] == pytest.approx(np.cos(0.5 * (1 - 0.0154)))
    assert len(trained) == 2 * (2 + len(TRAINED)), "all in one queue"
    for factor, lam in TRAINED.items():
        assert (1 - lam) / lam == pytest.approx(factor, rel=0.005)


def test_a_student_has_collapsed_when_its_embeddings_point_one_way():
    """In one of its seeds; the base model, whose embeddings do so too, is no student."""
    spread, narrow = np.eye(4), np.eye(4) + 2.0  # mean cosine 0, and 20 / 21
    embedded = {("MSE", 0): spread, ("MSE", 1): narrow}
    embedded |= {("cosine", 0): spread, ("Longformer", 0): narrow}
    bench = FakeBench("mini", embeddings=lambda _, *model: {"validation": embedded[model]})
    rows = [(model, seed, task) for model, seed in embedded for task in ("ARXIV", "IMDB")]
    records = pd.DataFrame(rows, columns=["model", "seed", "task"])
    records["kind"] = records["model"].map({"Longformer": "base"}).fillna("student")
    assert contextual.mark_collapsed(records, bench).tolist() == [True] * 4 + [False] * 4
    assert contextual.mean_cosine(narrow) == pytest.approx(20 / 21)
    assert contextual.mean_cosine(spread) == 0


def test_an_ablation_differs_from_its_twin_in_one_thing_and_is_judged_beside_it():
    """As notebook 05 does. A shift of .1 in accuracy is .2 above chance."""
    identities = {name: identity for identity, name in GRID["drafts"].items()}
    rows, order = [], np.random.default_rng(0)
    for model, identity in identities.items():
        twin = vars(parse(identities[GRID["twins"].get(model, model)]))
        changed = {key for key, value in vars(parse(identity)).items() if value != twin[key]}
        assert len(changed) == (model in GRID["twins"])
        for number, seed in np.ndindex(6, 3):
            value = 0.6 + 0.05 * number + 0.01 * seed - 0.1 * (model == "cosine, [CLS]")
            scores = order.permutation((np.arange(300) < round(300 * value)).astype(float))
            row = {"model": model, "task": f"task {number}", "seed": seed, "chance": 0.5}
            rows.append(row | {"scores": scores, "groups": np.arange(300).astype(str)})
    scores = from_examples(task_scores(pd.DataFrame(rows)))
    table = verdicts.compare(GRID["twins"].items(), scores).set_index("left")
    shifted, equal = table.loc["cosine, [CLS]"], table.loc["cosine + 2048d, MSE"]
    assert shifted["difference"] == pytest.approx(-0.2) and shifted["high"] < 0
    assert equal["difference"] == pytest.approx(0, abs=1e-9)
    assert equal["low"] < -0.01, "other texts, not only other seeds"
