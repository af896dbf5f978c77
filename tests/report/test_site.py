"""The site: its pages say what is on disk and what is missing, links lead somewhere, and everybody can read it."""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from types import SimpleNamespace

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest

from lib import figures, published
from lib.chapters import chapter4
from lib.config import manifest, paths, profiles
from lib.distillation import variants
from lib.experiments import accuracies, keys, text_sets
from lib.figures import tables
from lib.figures.style import LOOK
from lib.ledger import claims
from lib.published import deviations
from lib.report import site
from lib.statistics import verdicts
from lib.store import executors, provenance
from lib.store.records import store

VOID = {"meta", "link", "img", "br", "input", "hr"}
COMMITTED = paths.ROOT / "docs" / "site"
ENTRIES = {label: entry for label, entry in manifest.load().items() if entry.kind != "page"}


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
        one = frame.assign(
            model=frame["identity"], seed=seed, value=frame["accuracy"] - 0.01 * seed
        )
        runs.append(one if seed == 0 else one[one["model"].isin(chapter4.REFERENCES)])
    return pd.concat(runs, ignore_index=True).assign(seconds=2.0, device="cpu")


def draw(mini):
    """A figure and a table on disk, as the notebooks leave them."""
    records = as_records("fig4_2")
    data = figures.boxplot_frame("fig4_2", records, band=0.008)
    figures.save(figures.boxplot(data, "fig4_2"), "fig4_2", data, profile=mini, records=records)
    tables.save(published.load("tab4_1"), "tab4_1", profile=mini)
    plt.close("all")


def execute(profile, name, *outputs):
    """An executed copy of a notebook: the first code cell below its frame printed these outputs, each of the next."""
    notebook = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", 4)
    begin = next(n for n, cell in enumerate(notebook.cells) if n and cell.source.startswith("## "))
    code = [cell for cell in notebook.cells[begin:] if cell.cell_type == "code"]
    for cell, output in zip(code, outputs, strict=False):
        cell.outputs = [output]
    path = paths.run_folder(profile) / "executed" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


@pytest.fixture
def made(run, mini):
    draw(mini)
    return run


@pytest.fixture(scope="module")
def content(tmp_path_factory, mini, with_examples):
    with pytest.MonkeyPatch.context() as monkeypatch:
        empty(tmp_path_factory.mktemp("report"), monkeypatch)
        draw(mini)
        return site.files(
            mini, claims.check({"fig4_2": with_examples(as_records("fig4_2"))}, profile="mini")
        )


@pytest.fixture(scope="module")
def texts(content):
    return {name: text.decode() for name, text in content.items() if name.endswith(".html")}


class Reader(HTMLParser):
    """Ids, references, images, headings and controls of a page; and whether its tags close."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.images, self.headings, self.controls = [], [], [], [], []
        self.loaded, self.open, self.wrong, self.handlers = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.images += [given] if tag == "img" else []
        self.headings += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        self.controls += (
            [(tag, given, tuple(self.open))] if tag in ("input", "button", "summary", "a") else []
        )
        self.loaded += [
            given[name] for name in ("src", "srcset", "poster", "data", "action") if name in given
        ]
        self.loaded += [given.get("href", "")] if tag in ("link", "image", "use") else []
        self.loaded += [tag] if tag in ("iframe", "object", "embed") else []
        self.handlers += [name for name in given if name.startswith("on")]
        self.handlers += ["tabindex"] if int(given.get("tabindex", 0)) > 0 else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def committed():
    return {
        path.relative_to(COMMITTED).as_posix(): path.read_bytes()
        for path in COMMITTED.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module", params=["drawn here", "committed"])
def whole(request, content):
    """The files of a site; the tests that take them hold for one that is made here and for the committed one."""
    return content if request.param == "drawn here" else committed()


@pytest.fixture(scope="module")
def pages(whole):
    return {name: Reader(text.decode()) for name, text in whole.items() if name.endswith(".html")}


# ---------------------------------------------------------------- every site


def broken(whole, pages):
    """Every reference that leads nowhere: to no file of the site, or to no id of the page."""
    wrong = []
    for name, page in pages.items():
        for link in page.links + [
            source for source in page.loaded if not source.startswith("data:image/")
        ]:
            file, _, anchor = link.partition("#")
            file = file or name
            if file not in whole or anchor and anchor not in pages[file].ids:
                wrong.append(f"{name}: {link}")
    for line in whole["search.js"].decode().splitlines()[1:-1]:
        file, _, anchor = (
            json.loads(line.rstrip(","))[0].partition("#")
            if line.strip()
            else ("index.html", "", "")
        )
        if file not in whole or anchor and anchor not in pages[file].ids:
            wrong.append(f"search.js: {line[:80]}")
    return wrong


def test_every_reference_leads_to_a_file_of_the_site_and_to_an_id_in_it(whole, pages):
    """So nothing is loaded from elsewhere, and the site works from any folder."""
    assert len(pages) == 12 and broken(whole, pages) == []
    style = whole["style.css"].decode()
    assert "url(" not in style and "@import" not in style
    for name in pages:
        assert "http" not in re.sub(
            r"<(pre|code|p|td)\b.*?</\1>", "", whole[name].decode(), flags=re.DOTALL
        ), name


def test_a_broken_link_is_seen(content):
    page = '<main><a href="gone.html">a</a><a href="#nowhere">b</a><img src="figures/none.svg">'
    files = {**content, "index.html": page.encode()}
    read = {name: Reader(text.decode()) for name, text in files.items() if name.endswith(".html")}
    wrong = [told for told in broken(files, read) if told.startswith("index.html: ")]
    assert wrong == [
        "index.html: gone.html",
        "index.html: #nowhere",
        "index.html: figures/none.svg",
    ]


def test_ids_are_distinct_tags_close_and_headings_are_in_order(pages):
    for name, page in pages.items():
        assert len(set(page.ids)) == len(page.ids), name
        assert not page.wrong and not page.open, name
        assert page.headings[0] == 1 and page.headings.count(1) == 1, name
        steps = zip(page.headings[:-1], page.headings[1:], strict=True)
        assert all(later <= earlier + 1 for earlier, later in steps), name


def test_every_picture_is_described_in_words_that_say_what_is_seen(pages):
    pictures = [image for page in pages.values() for image in page.images]
    assert pictures
    for image in pictures:
        words = re.sub(
            r"^(The published drawing\. )?[^:.]+(\.\w+)?: [^.]+\.", "", image["alt"]
        )  # without label and title
        assert len(words.split()) > 10 or image["alt"].startswith("The published drawing."), image[
            "alt"
        ]


def test_every_control_is_one_that_the_keyboard_reaches_and_has_a_name(whole, pages):
    for name, page in pages.items():
        assert not page.handlers, name
        for tag, given, around in page.controls:
            assert "tabindex" not in given and (tag != "a" or given["href"]), (name, given)
            assert tag != "input" or "label" in around or given["id"] == "query", (name, given)
        assert "query" in re.findall('<label for="([^"]+)">', whole[f"{name}"].decode())
    style = whole["style.css"].decode()
    assert ":focus-visible { outline: 3px solid var(--accent)" in style and not re.search(
        r"outline: *(0|none)", style
    )


def test_everything_that_scrolls_can_be_scrolled_by_keyboard(whole, pages):
    for name in pages:
        text = whole[name].decode()
        for scrolled in re.findall(r'<div class="(?:scroll|sheet)[^>]*>', text):
            assert 'tabindex="0" role="region" aria-label="' in scrolled, (name, scrolled)
        assert all('tabindex="0"' in scrolled for scrolled in re.findall("<pre[^>]*>", text)), name


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    """WCAG 2.2's ratio of two colours, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_in_the_light_and_in_the_dark(whole):
    """4.5 for text and 3 for what tells by its colour or shows where one is (WCAG 2.2, 1.4.3 and 1.4.11)."""
    assert contrast("#000000", "#ffffff") == 21 and round(contrast("#777777", "#ffffff"), 2) == 4.48
    style = whole["style.css"].decode()
    assert "color-scheme" in whole["index.html"].decode()
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6});", part))
        for part in re.findall(r":root \{(.*?)\}", style, re.S)
    )
    assert light.keys() == dark.keys() and "@media (prefers-color-scheme: dark) {\n  :root" in style
    used = set(re.findall(r"var\(--([\w-]+)\)", style))
    assert used == light.keys()
    for colours in (light, dark):
        grounds = [colours["page"], colours["card"]]
        for name in set(re.findall(r"(?<![-\w])color: var\(--([\w-]+)\)", style)) | {"accent"}:
            own = [colours[f"{name}-back"]] if f"{name}-back" in colours else grounds
            assert min(contrast(colours[name], ground) for ground in own) >= 4.5, name
        for name in ("accent", "frame", "holds", "fails", "alike", "middle", "soft", "band"):
            assert min(contrast(colours[name], ground) for ground in grounds) >= 3, name
    assert re.search(r"\.picture \{ background: #ffffff", style), "figures are drawn on white"


def test_the_search_finds_words_where_they_stand(whole):
    lines = [line.rstrip(",") for line in whole["search.js"].decode().splitlines()[1:-1]]
    sections = [json.loads(line) for line in lines if line.strip()]

    def found(word):
        return {link for link, title, text in sections if word in f"{title} {text}".lower()}

    assert {
        "02_structural_loss.html#fig4_3",
        "09_report.html#claim-contrastive-behind-cosine",
    } <= found("contrastive") | found("all structural losses")
    assert "09_report.html#claim-contrastive-behind-cosine" in found("contrastive loss")
    assert any(link.startswith("05_projections.html#") for link in found("softcca"))
    assert any(link.startswith("about.html#") for link in found("deviations")) and not found(
        "xyzzy"
    )
    assert all(title and "<" not in title for _, title, _ in sections)


def test_every_formula_is_drawn(whole, pages):
    drawn = [name for name in pages if 'class="math"' in whole[name].decode()]
    assert drawn
    for path in sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            shown = (
                site.templates().get_template("macros.html.j2").module.text(cell.source)
                if cell.cell_type == "markdown"
                else ""
            )
            assert not re.search(r"<code>[^<]*\\[a-zA-Z]", shown), (
                f"{path.name}: matplotlib cannot draw {shown}"
            )


# ---------------------------------------------------------------- the committed one


def test_the_committed_site_shows_the_committed_figures():
    """If this fails, numbers have changed: CONTRIBUTING.md has the command that writes the site anew."""
    files = committed()
    for label, entry in ENTRIES.items():
        for path in entry.paths(profiles.load("mini")):
            assert files[f"figures/{label}{path.suffix}"] == path.read_bytes(), path.name
    shown = {
        link.partition("#")[0]
        for name in files
        if name.endswith(".html")
        for link in Reader(files[name].decode()).links
    }
    assert {name for name in files if name.startswith(("figures/", "notebooks/"))} <= shown, (
        "files that no page shows"
    )


def test_the_committed_site_is_small_and_says_nothing_about_a_machine_or_a_day():
    files = committed()
    assert sum(map(len, files.values())) <= 8e6
    assert not re.search("Timings|not recorded|Commit<|Device<", files["about.html"].decode())
    for name, content in files.items():
        if name.endswith((".html", ".js")):
            text = content.decode()
            assert not re.search(r"/(tmp|home|root|Users)/|glibc|\b20\d\d-\d\d-\d\dT", text), name


# ---------------------------------------------------------------- what stands in it


def test_a_training_is_timed_once_however_often_it_is_shown(run, mini):
    """Two models, two tasks each, in two figures of one notebook: 70 + 50 s, not 480."""
    rows = [(model, task) for model in ("a", "b") for task in ("OC", "PAN")]
    shown = pd.DataFrame(rows, columns=["embedding_fingerprint", "task"])
    shown["fingerprint"] = shown["embedding_fingerprint"] + shown["task"]
    shown["seconds"] = shown["embedding_fingerprint"].map({"a": 70.0, "b": 50.0})
    for label in ("fig4_2", "fig4_3"):
        provenance.write(label, profile=mini, files=[], records=shown)
    provenance.note_run("02_structural_loss", mini, inputs={}, files=[], seconds=61)
    about = site.files(mini, claims.check({}))["about.html"].decode()
    row = about.split('<th scope="row">02_structural_loss</th>')[1].split("</tr>")[0]
    assert re.findall("<td[^>]*>([^<]*)", row) == ["0 of 5", "01:01", "02:00"]


def test_a_picture_says_who_is_best(texts):
    images = Reader(texts["02_structural_loss.html"]).images
    (image,) = [image for image in images if image["src"] == "figures/fig4_2.svg"]
    assert "Best mean here: cosine" in image["alt"] and "Published best: cosine" in image["alt"]
    assert int(image["width"]) > int(image["height"]) > 300


def test_every_figure_that_is_no_boxplot_has_words_of_its_own():
    drawn = {label for label, entry in ENTRIES.items() if entry.kind != "table"}
    boxplots = {*published.BOXPLOTS, "figA_1"}
    assert drawn - boxplots <= LOOK["alt"].keys() <= drawn


def test_the_pages_show_every_label_and_say_what_is_missing(texts):
    shown = {
        label: texts[f"{entry.notebook}.html"]
        for label, entry in ENTRIES.items()
        if label != "tab_claims"
    }
    for label, text in shown.items():
        assert f'id="{label}"' in text, label
    assert sum(text.count("Not made in this run.") for text in texts.values()) == len(shown) - 2
    assert "./run_all.sh mini fig4_3</code> makes it" in texts["02_structural_loss.html"]
    assert (
        f"{len(ENTRIES) - 2} of {len(ENTRIES)} figures and tables were not made"
        in texts["index.html"]
    )


def test_the_ledger_shows_every_claim_with_its_verdict(texts):
    text = texts["09_report.html"]
    assert text.count('class="claim ') == len(claims.load())
    own = text.split('id="claim-cosine-over-mse"')[1].split("</li>")[0]
    verdict, theirs, ours = re.split("<dt>(?:Published|Ours)</dt>", own)
    assert verdict.count('<span class="chip holds">holds</span>') == 2
    assert ".9503 - .8205 = .1298; p = .002, q = ." in theirs
    means = [
        as_records("fig4_2").query("model == @model")["value"].mean() for model in ("cosine", "MSE")
    ]
    assert (
        f"cosine against MSE: {verdicts.arithmetic(*means)}; p = ." in ours
        and "seeds per model: 1-3" in ours
    )
    assert '<a href="02_structural_loss.html#fig4_2">' in own
    assert (
        '<a href="#tab_checks">Checks</a></dt><dd>heads converged, task not at chance</dd>' in own
    )
    assert 'class="claim notrun' in text  # figures 4.3 and later
    figure = texts["02_structural_loss.html"].split('id="fig4_2"')[1].split("</article>")[0]
    assert (
        '<a href="09_report.html#claim-cosine-over-mse">' in figure
        and "3 findings rest on it" in figure
    )


def test_tiles_bar_and_filter_have_one_order_and_count_every_claim(texts):
    tiles = re.findall(r'#show-(\w+)"><b>(\d+)</b> ([^<]+)</a>', texts["index.html"])
    bar = re.findall(r'<span class="(\w+)" style="flex: (\d+)">', texts["index.html"])
    chosen = re.findall(r'id="show-(\w+)">[^<]*\((\d+)\)', texts["09_report.html"])
    assert sum(int(count) for _, count, _ in tiles) == len(claims.load())
    assert bar == [(name, count) for name, count, _ in tiles if count != "0"]
    assert chosen[:-1] == [(name, count) for name, count, _ in tiles]
    words = texts["index.html"].split('role="img" aria-label="')[1].split('"')[0]
    assert re.findall(r"(\d+) (?:hold|are|make|not)", words) == [count for _, count, _ in tiles]


def ten(ledger, mini):
    index = site.files(mini, ledger)["index.html"].decode()
    return re.findall(r'#claim-([\w-]+)">The claim', index.split('id="ten"')[1])


def test_the_ten_are_the_clearest_of_each_section_then_the_clearest_of_the_rest(run, mini):
    ledger = claims.check({})
    assert ten(ledger, mini) == []
    ledger.loc[:, "verdict"] = verdicts.OPEN
    ledger["p"], ledger["p_equivalent"] = np.linspace(0.9, 0.5, len(ledger)), 0.95
    last = ledger.groupby("section", sort=False).tail(1)["id"].tolist()
    assert ten(ledger, mini) == last and len(last) == 10, (
        "p falls along the ledger, so the last of each section"
    )
    ledger.loc[3, "p_equivalent"] = (
        0.1  # the clearest of section 4.4.1, by there being no difference
    )
    chosen = ten(ledger, mini)
    assert ledger.at[3, "id"] in chosen and len(chosen) == 10
    ledger.loc[3, "verdict"] = verdicts.NOT_TESTABLE
    assert ten(ledger, mini) == last
    ledger.loc[ledger["section"] != "4.4", "verdict"] = verdicts.NOT_RUN
    assert ten(ledger, mini) == ledger.loc[ledger["section"] == "4.4", "id"].tolist(), (
        "no section to take others from"
    )
    ledger.loc[ledger["section"] == "4.4.1", "verdict"] = verdicts.HOLDS
    chosen = ten(ledger, mini)
    assert len(chosen) == 9 and chosen == ledger.loc[ledger["id"].isin(chosen), "id"].tolist(), (
        "in the ledger's order"
    )


def test_numbers_stand_beside_the_published_ones(texts):
    table = (
        texts["02_structural_loss.html"]
        .split('aria-label="Numbers of Figure 4.2"')[-1]
        .split("</table>")[0]
    )
    first = table.split("<tbody>")[1].split("</tr>")[0]
    assert "cosine" in first  # the best first
    assert re.search(r"\d\.\d{4} / \d\.\d{4}|\.\d+ / ", first)
    assert len(re.findall("<td", first)) == len(re.findall("<th ", table.split("<tbody>")[0])) - 1


def test_what_stands_in_a_label_is_text_and_not_markup(made, mini, monkeypatch):
    entries = dict(manifest.load())
    entries["fig4_2"] = entries["fig4_2"].model_copy(update={"title": "<b>a</b> & <script>"})
    monkeypatch.setattr(manifest, "load", lambda: dict(entries))
    text = site.files(mini, claims.check({}))["02_structural_loss.html"].decode()
    assert "&lt;b&gt;a&lt;/b&gt; &amp; &lt;script&gt;" in text and "<script>" not in text


def test_a_ledger_without_our_results_is_a_site_too(run, mini):
    ledger = claims.check({}, profile="mini")
    assert set(ledger["verdict"]) == {verdicts.NOT_RUN}
    first = site.write(mini, ledger)
    assert first == run / "artifacts" / "mini" / "site" / "index.html"
    assert provenance.saved["report"] == [first] == manifest.load()["report"].paths(mini)
    assert "Nothing has been tested in this run yet." in first.read_text(encoding="utf-8")


def test_names():
    assert manifest.full_name("fig4_10") == "Figure 4.10"
    assert manifest.full_name("figA_1") == "Figure A.1"
    assert manifest.full_name("news_tab3") == "News paper, table 3"


def test_a_missing_value_is_an_empty_cell_and_a_thesis_none_a_label(made, mini):
    (made / "figures" / "mini" / "fig4_2.csv").write_text("model,value\nNone,\n")
    shown = site.item(manifest.load()["fig4_2"], mini)
    assert '<td>None</td><td class="n"></td>' in site.templates().get_template(
        "macros.html.j2"
    ).module.table(shown.numbers)


def test_a_published_drawing_can_be_switched_to_where_there_is_one(made, mini, monkeypatch):
    real = paths.ROOT
    monkeypatch.setattr(paths, "ROOT", made)
    monkeypatch.setattr(paths, "PARAMS", real / "params")
    alone = site.files(mini, claims.check({}))["02_structural_loss.html"].decode()
    assert 'class="switch"' not in alone
    theirs = made / "figures" / "published" / "fig4_2.svg"
    theirs.parent.mkdir()
    theirs.write_text("<svg/>")
    content = site.files(mini, claims.check({}))
    text = content["02_structural_loss.html"].decode()
    assert content["figures/published/fig4_2.svg"] == b"<svg/>"
    assert (
        text.count('type="radio" name="show-fig4_2"') == 2
        and 'src="figures/published/fig4_2.svg"' in text
    )
    assert 'type="radio" name="show-fig4_3"' not in text


# ---------------------------------------------------------------- notebooks


def test_a_page_is_its_notebook_with_outputs_but_without_its_frame(made, mini):
    html = '<style>#T_x {}</style><table id="x" class="dataframe" border="1"><tr><td style="text-align: right;">7</td>'
    outputs = [
        nbformat.v4.new_output("stream", name=name, text=f"to {name}\n")
        for name in ("stdout", "stderr")
    ]
    outputs += [
        nbformat.v4.new_output("execute_result", data={"text/html": f"{html}</tr></table>"})
    ]
    outputs += [nbformat.v4.new_output("display_data", data={"text/markdown": "so *much* $x^2$"})]
    execute(mini, "06_weighting", *outputs)
    text = site.files(mini, claims.check({}))["06_weighting.html"].decode()
    assert '<pre class="output" tabindex="0">to stdout' in text and "to stderr" not in text
    assert (
        '<table><tr><td style="text-align: right;">7</td></tr></table>' in text
        and "T_x" not in text
    )
    assert "Listing 4.1 on three documents" in text and "losses.weighted(structural" in text
    assert (
        "notebook.start(" not in text and "nb.finish(" not in text and "import pandas" not in text
    )


def test_outputs_of_a_notebook_that_has_changed_since_are_left_out(made, mini):
    execute(
        mini,
        "06_weighting",
        nbformat.v4.new_output("stream", name="stdout", text="of another time\n"),
    )
    path = paths.run_folder(mini) / "executed" / "06_weighting.ipynb"
    path.write_text(path.read_text().replace("torch.ones(3)", "torch.ones(4)"))
    assert "of another time" not in site.files(mini, claims.check({}))["06_weighting.html"].decode()


def test_a_figure_stands_where_it_is_saved(content):
    text = content["02_structural_loss.html"].decode()
    order = [
        text.index(part)
        for part in ("4.3 How a student is trained", 'id="tab4_4"', 'id="fig4_2"', 'id="fig4_3"')
    ]
    assert order == sorted(order)


def test_the_link_of_notebook_09_leads_to_the_site_from_where_the_notebook_is_read(
    run, mini, monkeypatch
):
    """In JupyterLab, and in the copy that `run_all.sh` leaves in another folder; a file:// address opens in neither."""
    cells = nbformat.read(paths.NOTEBOOKS / "09_report.ipynb", 4).cells
    (cell,) = [cell.source for cell in cells if "report" in cell.metadata.get("tags", [])]
    first, shown = paths.run_folder(mini) / "site" / "index.html", []
    monkeypatch.chdir(paths.NOTEBOOKS)
    names = {
        "P": mini,
        "ledger": None,
        "paths": paths,
        "os": os,
        "Markdown": str,
        "display": shown.append,
    }
    names["site"] = SimpleNamespace(write=lambda profile, ledger: first)
    for folder in (paths.NOTEBOOKS, paths.run_folder(mini) / "executed"):
        exec(cell, dict(names))
        link = re.fullmatch(r"\[.+\]\((.+)\)", shown[-1])[1]
        assert os.path.normpath(folder / link) == str(first)
        monkeypatch.setenv("THESIS_PROGRESS", "a file")


# ---------------------------------------------------------------- the copy to publish


def test_two_runs_with_the_same_numbers_give_the_same_bytes(made, mini):
    ledger = claims.check({})

    def files(second):
        provenance.note_run("02_structural_loss", mini, inputs={}, files=[], seconds=second)
        printed = nbformat.v4.new_output("stream", name="stdout", text="7\n")
        printed.metadata = {"taken": second}
        execute(mini, "06_weighting", printed)
        note = made / "artifacts" / "mini" / "provenance" / "fig4_2.json"
        provenance._write(
            note, provenance._read(note) | {"written": f"2026-01-0{second}T00:00:00+00:00"}
        )
        return [site.files(mini, ledger, noted=noted) for noted in (False, True)]

    (copy, noted), (again, noted_again) = files(1), files(2)
    assert copy == again
    assert {name for name in noted if noted[name] != noted_again[name]} == {"about.html"}


def test_the_command_writes_what_is_on_disk(made, mini, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["site", "mini", str(made / "copy")])
    with pytest.raises(SystemExit) as stopped:
        site.main()
    assert stopped.value.code == 2 and "first run ./run_all.sh mini" in capsys.readouterr().err
    ledger = claims.check({}, profile="mini")
    tables.save(ledger, "tab_claims", profile=mini)
    site.main()
    written = {
        path.relative_to(made / "copy").as_posix(): path.read_bytes()
        for path in (made / "copy").rglob("*.*")
    }
    assert written == site.files(
        mini, pd.read_csv(made / "figures/mini/tab_claims.csv", dtype={"seeds": str}), noted=False
    )
    same = site.files(mini, ledger, noted=False)
    assert {name for name in written if written[name] != same.get(name)} == set(), (
        "the CSV holds the whole ledger"
    )


@pytest.mark.skipif(not (shutil.which("chromium") and COMMITTED.is_dir()), reason="needs chromium")
@pytest.mark.slow
def test_in_a_browser_the_search_answers(tmp_path):
    address = f"{(COMMITTED / 'index.html').as_uri()}?q=contrastive"
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        f"--user-data-dir={tmp_path}",
    ]
    command = ["chromium", *options, "--virtual-time-budget=5000", "--dump-dom", address]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    answer = shown.split('id="answer"')[1].split("</form>")[0]
    assert "09_report.html#claim-contrastive-behind-cosine" in answer


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
    wanted = pd.concat(
        [as_records("fig4_2", seeds=1), extra[extra["model"] == variants.MM_MSE]]
    )  # a reference
    for one in wanted.itertuples():
        for seed in chapter4.seeds(mini).get(one.model, mini.seeds):
            recipe = keys.record(
                variants.parse(one.model), seed, one.task, mini, "validation", None
            )
            value = max(one.value - 0.01 * seed, 0)
            scores = [value] * len(accuracies.examples(one.task, mini, "validation")[0])
            store().record(
                recipe,
                lambda value=value, scores=scores: {
                    "accuracy": value,
                    "heads": [value],
                    "scores": scores,
                },
            )
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
    assert (
        "Documents the students train on (Chapter 4)" not in thesis
        and "News half of the corpus" in thesis
    )
