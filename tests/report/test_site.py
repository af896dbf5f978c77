"""The report: one page that holds everything, says what is missing, and reads our results as they lie on disk."""

import base64
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib import figures, published
from lib.config import manifest, paths, profiles
from lib.distillation import variants
from lib.experiments import accuracies, keys, text_sets
from lib.figures import tables
from lib.findings import chapter4, claims
from lib.published import deviations
from lib.report import page
from lib.statistics import verdicts
from lib.store import executors, provenance
from lib.store.records import store

VOID = {"meta", "link", "img", "br", "input", "hr"}


@pytest.fixture(scope="module")
def mini():
    return profiles.load("mini")


def empty(folder, monkeypatch):
    """Empty folders for results; the committed figures are out of sight."""
    monkeypatch.setenv("THESIS_ARTIFACTS", str(folder / "artifacts"))
    monkeypatch.setattr(paths, "figures", lambda profile: folder / "figures" / profile.name)
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch):
    return empty(tmp_path, monkeypatch)


def as_records(label, *, seeds=3):
    """Records of a figure: the published accuracies; of the reference students with several seeds."""
    frame = published.load(label)
    runs = []
    for seed in range(seeds):
        one = frame.assign(model=frame["identity"], seed=seed, value=frame["accuracy"] - 0.01 * seed)
        runs.append(one if seed == 0 else one[one["model"].isin(chapter4.REFERENCES)])
    return pd.concat(runs, ignore_index=True).assign(seconds=2.0, device="cpu")


def draw(mini):
    """A figure and a table on disk, as the notebooks leave them."""
    records = as_records("fig4_2")
    data = figures.boxplot_frame("fig4_2", records, band=0.008)
    figures.save(figures.boxplot(data, "fig4_2"), "fig4_2", data, profile=mini, records=records)
    tables.save(published.load("tab4_1"), "tab4_1", profile=mini)
    plt.close("all")


@pytest.fixture
def made(run, mini):
    draw(mini)
    return run


@pytest.fixture(scope="module")
def text(tmp_path_factory, mini, with_examples):
    with pytest.MonkeyPatch.context() as monkeypatch:
        empty(tmp_path_factory.mktemp("report"), monkeypatch)
        draw(mini)
        return page.page(mini, claims.check({"fig4_2": with_examples(as_records("fig4_2"))}, profile="mini"))


class Reader(HTMLParser):
    """Ids, references, images and headings of a page; and whether its tags close."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.images, self.headings = [], [], [], []
        self.loaded, self.open, self.wrong = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.images += [given] if tag == "img" else []
        self.headings += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        self.loaded += [given[name] for name in ("src", "srcset", "poster", "data", "action") if name in given]
        self.loaded += [given.get("href", "")] if tag in ("link", "image", "use") else []
        self.loaded += [tag] if tag in ("script", "iframe", "object", "embed") else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


# ---------------------------------------------------------------- the page


def test_a_training_is_timed_once_however_often_it_is_shown(run, mini):
    """Two models, two tasks each, in two figures of one notebook: 70 + 50 s, not 480."""
    rows = [(model, task) for model in ("a", "b") for task in ("OC", "PAN")]
    shown = pd.DataFrame(rows, columns=["embedding_fingerprint", "task"])
    shown["fingerprint"] = shown["embedding_fingerprint"] + shown["task"]
    shown["seconds"] = shown["embedding_fingerprint"].map({"a": 70.0, "b": 50.0})
    for label in ("fig4_2", "fig4_3"):
        provenance.write(label, profile=mini, files=[], records=shown)
    items = [page.shown_item(label, manifest.load()[label], mini) for label in ("fig4_2", "fig4_3")]
    assert [row["records"] for row in page._timings(mini, {"02_structural_loss": items})] == ["02:00"]


def test_every_picture_is_inside_whole_and_described(text):
    page = Reader(text)
    assert len(page.images) == 1
    for image in page.images:
        head, content = image["src"].split(",", 1)
        assert head == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(content)).tag.endswith("svg")
        assert "Best mean here: cosine" in image["alt"] and "Published best: cosine" in image["alt"]


def test_nothing_is_loaded_from_elsewhere(text):
    page = Reader(text)
    assert all(source.startswith("data:") for source in page.loaded)
    assert all(link.startswith("#") for link in page.links)
    style = text.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style and "@import" not in style
    assert "<script" not in text and "http" not in re.sub(r"data:[^\"]*", "", text)


def test_ids_are_distinct_links_lead_somewhere_and_tags_close(text):
    page = Reader(text)
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert not page.wrong and not page.open


def test_headings_are_in_order(text):
    levels = Reader(text).headings
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in zip(levels[:-1], levels[1:], strict=True))


def test_the_page_shows_every_label_and_says_what_is_missing(text):
    shown = [label for label, entry in manifest.load().items() if entry.kind != "page" and label != page.LEDGER]
    ids = Reader(text).ids
    assert set(shown) <= set(ids)
    assert f"<b>2 of {len(shown)}</b>" in text
    assert text.count("Not made in this run.") == len(shown) - 2
    assert "./run_all.sh mini fig4_3" in text


def test_the_ledger_shows_every_claim_with_its_verdict(text):
    assert text.count('class="claim ') == len(claims.load())
    own = text.split('id="claim-cosine-over-mse"')[1].split("</li>")[0]
    theirs, ours = own.split("<dt>Ours</dt>")
    assert ".9503 - .8205 = .1298; p = .002, q = ." in theirs
    means = [as_records("fig4_2").query("model == @model")["value"].mean() for model in ("cosine", "MSE")]
    assert f"cosine against MSE: {verdicts.arithmetic(*means)}; p = ." in ours and "seeds per model: 1-3" in ours
    for half in (theirs, ours):
        assert '<span class="chip holds">holds</span>' in half
    assert '<a href="#fig4_2">' in own and '<a href="#nb-02_structural_loss">' in own
    assert '<a href="#tab_checks">Checks</a></dt><dd>heads_converged, task_not_at_chance</dd>' in own
    assert 'class="claim notrun' in text  # figures 4.3 and later


def test_numbers_stand_beside_the_published_ones(text):
    table = text.split("Numbers of Figure 4.2")[-1].split("</table>")[0]
    first = table.split("<tbody>")[1].split("</tr>")[0]
    assert "cosine" in first  # the best first
    assert re.search(r"\d\.\d{4} / \d\.\d{4}", first)


def test_what_stands_in_a_label_is_text_and_not_markup(made, mini, monkeypatch):
    entries = dict(manifest.load())
    entries["fig4_2"] = entries["fig4_2"].model_copy(update={"title": "<b>a</b> & <script>"})
    monkeypatch.setattr(manifest, "load", lambda: entries)
    text = page.page(mini, claims.check({}))
    assert "&lt;b&gt;a&lt;/b&gt; &amp; &lt;script&gt;" in text and "<script" not in text


def test_a_ledger_without_our_results_is_a_page_too(run, mini):
    ledger = claims.check({}, profile="mini")
    assert set(ledger["verdict"]) == {verdicts.NOT_RUN}
    path = page.write(mini, ledger)
    assert path == run / "artifacts" / "mini" / "report.html"
    assert not Reader(path.read_text(encoding="utf-8")).images


def test_names_and_alt_texts():
    assert page.full_name("fig4_10") == "Figure 4.10"
    assert page.full_name("figA_1") == "Figure A.1"
    assert page.full_name("news_tab3") == "News paper, table 3"
    scores = pd.DataFrame({"model": ["PV", "DM"], "value": [0.25, 0.5]})
    assert page.alt("fig5_5", "Retrieval", scores) == "Figure 5.5: Retrieval. 2 rows of model, value."


def test_a_missing_value_is_an_empty_cell_and_a_thesis_none_a_label(made, mini):
    (made / "figures" / "mini" / "tab4_1.csv").write_text("model,value\nNone,\n")
    shown = page.shown_item("tab4_1", manifest.load()["tab4_1"], mini)
    cells = page.template("macros.html.j2").module.table(shown.table)
    assert '<td>None</td><td class="n"></td>' in cells


# ---------------------------------------------------------------- our results


def test_figures_alone_are_no_results(made, mini):
    """They came with the repository, say: a ledger of them would replace the committed one, with nothing behind it."""
    message = r"no figure of the profile mini has all of its runs in .*; first run \./run_all\.sh mini, or"
    with pytest.raises(executors.NotComputed, match=message) as told:
        claims.our_results(mini)
    (shown,) = told.value._render_traceback_()  # what IPython shows
    assert "\n" not in shown


def test_runs_in_the_store_are_results_with_every_seed_and_nothing_is_computed(run, mini):
    text_sets.texts("all_tasks", mini)  # reads the tasks into the store
    extra = as_records("fig4_3", seeds=1)
    wanted = pd.concat([as_records("fig4_2", seeds=1), extra[extra["model"] == variants.MM_MSE]])  # a reference
    for one in wanted.itertuples():
        for seed in chapter4.seeds(mini).get(one.model, mini.seeds):
            recipe = keys.record(variants.parse(one.model), seed, one.task, mini, "validation", None)
            value = max(one.value - 0.01 * seed, 0)
            scores = [value] * len(accuracies.examples(one.task, mini, "validation")[0])
            store().record(recipe, lambda value=value, scores=scores: {"accuracy": value, "scores": scores})
    found = claims.our_results(mini)
    assert set(found) == {"fig4_2"}
    cosine = found["fig4_2"].query("model == 'cosine' and task == 'PAN'").sort_values("seed")
    np.testing.assert_allclose(np.diff(cosine["value"]), -0.01)
    ledger = claims.check(found).set_index("id")
    assert ledger.at["cosine-over-mse", "seeds"] == "3"
    assert ledger.at["mm-mse-best", "note"].endswith("make fig4_3 first.")
    store().path(recipe, ".json").unlink()
    with pytest.raises(executors.NotComputed):
        claims.our_results(mini)


# ---------------------------------------------------------------- deviations


@pytest.mark.parametrize("name", profiles.profiles())
def test_deviations_of_every_profile(name):
    found = deviations.table(profiles.load(name))
    assert len(found) > 8 and found["topic"].is_unique
    assert (found["here"] != found["thesis"]).all() and found["reason"].str.len().gt(20).all()


def test_a_parameter_with_the_thesis_value_is_no_deviation():
    assert "Weight decay of the students" in set(deviations.table(profiles.load("mini"))["topic"])
    as_printed = profiles.load("mini", overrides={"training.weight_decay": 0.1})
    assert "Weight decay of the students" not in set(deviations.table(as_printed)["topic"])
    thesis = set(deviations.table(profiles.load("thesis"))["topic"])
    assert "Documents the students train on (Chapter 4)" not in thesis and "News half of the corpus" in thesis
