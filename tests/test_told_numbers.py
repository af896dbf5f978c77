"""What README.md, docs/results.md and docs/speed.md tell with numbers is what the committed records say.

`told` writes every such sentence anew from figures/ and tests/benchmarks/results, and the document must hold it word
for word. A decimal number that stands in no such sentence must be in `ELSEWHERE`, under the place it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pandas as pd
import pytest

from lib.config import paths

WORDS = "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
WORDS += "seventeen eighteen nineteen twenty".split()
ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
LENGTHS = ["512", "1024", "2048", "4096"]
SHOWN = "student", "chunk and mean", "full attention", "ModernBERT", "Longformer"  # rows of the table of speeds
BEST, README, RESULTS, SPEED = "max-margin;MSE;γ=1.0", "README.md", "docs/results.md", "docs/speed.md"
ELSEWHERE = {
    README: {},
    RESULTS: {
        "a margin in lib/statistics/verdicts.py": ["a difference of .02 or more"],
        "notebook 02 prints it for mini": ["[.025, .097]", "[-.057, .000]", "[-.161, -.042]"],
        "notebook 02 prints it for the second size": ["[.018, .106]", "[-.065, .041]", "[-.143, -.055]"],
        "notebook 06 prints it for the second size": ["[-.027, .095]"],
    },
    SPEED: {
        "an aim": ["To be 1.7 times as fast"],
        "tests/benchmarks/bench_heads.py prints it": ["1/5.6 of the time"],
    },
}
Read = Callable[[str], pd.DataFrame]
Told = Iterator[tuple[str, str]]


def document(name: str) -> str:
    """A document with single spaces; of the README what is said of results."""
    text = (paths.ROOT / name).read_text(encoding="utf-8")
    if name == README:
        text = text.partition("## Five findings")[2].partition("[docs/results.md]")[0]
    return " ".join(text.split())


def committed(name: str) -> pd.DataFrame:
    return pd.read_csv(paths.ROOT / f"{name}.csv", dtype={"case": str})


def short(value: float) -> str:
    """`.077`, as the thesis prints accuracies."""
    return f"{value:.3f}".replace("0.", ".", 1)


def span(row: pd.Series, prefix: str = "") -> str:
    value, low, high = (short(row[prefix + name]) for name in ("effect", "low", "high"))
    return f"{value} [{low}, {high}]"


def told(read: Read) -> Told:
    """(document, sentence) for everything told with numbers."""
    yield from _ledger(read)
    yield from _news(read)
    yield from _context(read)
    yield from _heads(read)
    yield from _lengths(read)
    yield from _speed(read)


def _thesis(read: Read, size: str = "mini") -> pd.DataFrame:
    ledger = read(f"figures/{size}/tab_claims").set_index("id")
    return ledger[~ledger["label"].str.startswith("news")]


def _counts(verdicts: pd.Series) -> dict[str, int]:
    words = ("holds", "reversed", "equivalent", "open", "not testable here", "number", "not run")
    return {word: (verdicts == word).sum() for word in words}


def _ledger(read: Read) -> Told:
    thesis, larger = _thesis(read), _thesis(read, "mini_medium")
    n, printed = _counts(thesis["verdict"]), _counts(thesis["published_verdict"])
    begin = f"Of the thesis' {len(thesis)} findings {n['holds']} hold here, {n['reversed']} are reversed, "
    begin += f"{n['equivalent']} are equivalent"
    unclear = f"{n['not testable here']} cannot be tested at this size, and {WORDS[n['number']]} is a plain number."
    yield README, f"{begin} (no difference of .02), {n['open']} stay open, {unclear}"
    yield README, f"one run each, confirm {printed['holds']} and leave {printed['open']} open."
    yield RESULTS, f"{begin}, {n['open']} are open, {n['not testable here']} are not testable, and {WORDS[n['number']]}"
    repeated = (
        f"Of {len(thesis)} findings {begin.partition('findings ')[2].replace(' here', '')}, {n['open']} are open and"
    )
    yield "docs/reproducibility.md", f"{repeated} {n['not testable here']} cannot be tested"
    yield RESULTS, f"{printed['holds']} hold, {printed['equivalent']} are equivalent and {printed['open']} are open:"
    cosine, large = thesis.loc["cosine-over-mse"], thesis.loc["pv-over-sbert"]
    yield README, f"by {span(cosine)} here and by {span(cosine, 'published_')} in the thesis."
    yield RESULTS, f"Cosine beats MSE by {span(cosine)}."
    yield RESULTS, f"beat those of 100 by {span(thesis.loc['pv-large-dimensions'])}"
    yield RESULTS, f"beat plain ones by {span(thesis.loc['pv-preprocessing'])}"
    ahead = [short(-large[name]) for name in ("effect", "high", "low")]
    yield RESULTS, f"SBERT is {ahead[0]} ahead of the large one [{ahead[1]}, {ahead[2]}]"
    surviving = (thesis["q"] <= 0.05).sum()
    yield RESULTS, f"{WORDS[surviving].capitalize()} verdicts, all about large Paragraph Vectors, survive"
    both = thesis["verdict"].where(thesis["verdict"] == larger["verdict"].reindex(thesis.index))
    yield RESULTS, f"It gives {both.notna().sum()} of the {len(thesis)} findings the same verdict"
    yield RESULTS, f"All {WORDS[(both == 'equivalent').sum()]} equivalences stand."


def _news(read: Read) -> Told:
    ledger = read("figures/mini/tab_claims").set_index("id")
    news = ledger[ledger["label"].str.startswith("news")]
    n = {name: WORDS[count] for name, count in _counts(news["verdict"]).items()}
    yield RESULTS, f"Of {WORDS[len(news)]} findings {n['holds']} hold: more texts help"
    yield RESULTS, f"{n['open'].capitalize()} are open, {n['number']} are numbers, and {n['not run']} needs models"
    smaller, faster, worse = news.loc[
        ["news-twenty-times-smaller", "news-five-times-faster", "news-one-percent"], "effect"
    ]
    yield RESULTS, f"{smaller:.1f} times smaller and {faster:.1f} times faster here, but {100 * worse:.1f} points"
    f1 = read("figures/mini/news_fig1").query("source == 'ours'").set_index("model")[["f1_public", "f1_private"]]
    models = [f"Bi{cell}(2)+1 linear;attentive;cosine" for cell in ("GRU", "LSTM")]
    models += ["TF-IDF, words of the texts distilled on", "TF-IDF"]
    first, second, known, own = ("{:.1f} / {:.1f}".format(*f1.loc[model]) for model in models)
    yield RESULTS, f"F1 is {first} and {second}, against {known} of a TF-IDF"
    yield RESULTS, f"and {own} of one that counts the reports' own."
    missed = (f1.loc[models[:2]].max() < f1.loc[models[2]]).all()
    yield RESULTS, "It is missed on both." if missed else "It is met."


def _context(read: Read) -> Told:
    checks = read("figures/mini/tab_checks").set_index(["check", "label"])
    share, same = (checks.xs((check, "fig4_8")).squeeze() for check in ("treatment_given", "students_differ"))
    other = checks.xs(("treatment_given", "fig4_10")).squeeze()
    identical = f"a mean cosine above {short(int(1000 * same['low']) / 1000)}"
    students = read("figures/mini/fig4_8").query("model.str.contains('S:')")["model"].nunique()
    yield README, f"It gives {100 * share['value']:.1f} % of the gradient (median of {WORDS[students]} students)"
    yield README, identical
    yield RESULTS, f"it gives {100 * share['value']:.0f} to {100 * other['value']:.0f} % of the gradient"
    yield RESULTS, identical.replace("a mean", "(mean")
    heavy = read("figures/mini/figA_3").query("loss == 'cosine'").nlargest(1, "factor").iloc[0]
    yield RESULTS, f"a contextual loss {heavy['factor']:.0f} times heavier moves the student less than another seed"
    cosines = short(heavy["cosine"]), short(heavy["another_seed"])
    yield RESULTS, f"a mean cosine of {cosines[0]} with the student without it, where another seed gives {cosines[1]}."


def _heads(read: Read) -> Told:
    heads, larger = (read(f"figures/{size}/tab_heads").set_index("model") for size in ("mini", "mini_medium"))
    first, converged, none = ahead = [
        short(heads.loc[BEST, name] - heads.loc["cosine", name]) for name in ("published", "converged", "no head")
    ]
    behind = [text.removeprefix("-") for text in ahead]
    place = [ORDINALS[int(heads[name].rank(ascending=False)[BEST])] for name in ("published", "converged")]
    yield README, f"max-margin MSE with γ = 1 is {first} ahead of plain cosine."
    yield README, f"until they converge it is {behind[1]} behind, and without any head {behind[2]} behind."
    yield RESULTS, f"max-margin MSE with γ = 1 is {place[0]} of {WORDS[len(heads)]} models here too, {first} ahead"
    yield RESULTS, f"until they converge it is {place[1]}, {behind[1]} behind"
    yield RESULTS, f"without any head, it is {behind[2]} behind"
    ahead = [larger.loc[BEST, name] - larger.loc["cosine", name] for name in ("published", "converged", "no head")]
    first, converged, none = short(ahead[0]), short(-ahead[1]), short(-ahead[2])
    yield RESULTS, f"max-margin MSE with γ = 1 is {first} ahead of cosine by the published heads"
    yield RESULTS, f"{converged} behind by converged ones"
    yield RESULTS, f"and {none} behind without a head"


def _lengths(read: Read) -> Told:
    scores = read("figures/mini/figA_4").groupby(["model", "updates"])["accuracy"].mean()
    few, many = sorted({*scores["MSE"].index})
    before, after, base = (short(score) for score in (scores["MSE", few], scores["MSE", many], scores["base", 0]))
    yield RESULTS, f"from no training to {many} updates. After {few} updates MSE is at {before}, far below"
    yield RESULTS, f"the untrained base with {base}; after {many} it has nearly caught up, with {after}."
    margin, cosine = short(scores["max-margin MSE, γ=1", many]), short(scores["cosine", many])
    yield RESULTS, f"Max-margin MSE comes up to cosine, {margin} against {cosine}."
    scores = read("figures/mini_medium/figA_4").groupby(["model", "updates"])["accuracy"].mean()
    ahead = scores["max-margin MSE, γ=1"] - scores["cosine"]
    (few, first), (many, last) = ahead.items()
    yield RESULTS, f"from {short(-first)} behind cosine at {few} updates to {short(last)} ahead at {many}"


def _speed(read: Read) -> Told:
    frame = read("tests/benchmarks/results/alternatives")
    rates = read("tests/benchmarks/results/product_rates").query("product == 'square' and precision == 'fp32'")
    table = frame.set_index(["step", "precision", "model", "case"]).sort_index()["tokens_per_second"]
    fp32, bf16 = (table["inference", precision] for precision in ("fp32", "bf16"))
    for model in SHOWN:
        cells = [f"{fp32[model, case]:,.0f} / {bf16[model, case]:,.0f}" for case in [*LENGTHS, "mixed"]]
        yield SPEED, f"| {model} | {' | '.join(cells)} |"
    times = (fp32["student"] / fp32["Longformer"])[[*LENGTHS, "mixed"]]
    low, high = times[LENGTHS].agg(["min", "max"])
    yield README, f"{low:.1f} to {high:.1f} times Hugging Face's Longformer on one CPU thread"
    yield SPEED, f"{low:.1f} to {high:.1f} times as fast as Longformer on equal lengths, and {times['mixed']:.0f}"
    times = bf16["student"] / bf16["full attention"]
    yield SPEED, f"it is {times['512']:.1f} times as fast as full attention at 512 tokens, and {times['4096']:.1f}"
    low, high = (bf16["chunk and mean"] / bf16["student"])[LENGTHS[1:]].agg(["min", "max"])
    yield SPEED, f"they are {low:.1f} to {high:.1f} times as fast as the student from 1,024 tokens on"
    training = table["training", "bf16"]["student"] / table["training", "fp32"]["student"]
    ranges = [times.agg(["min", "max"]) for times in (bf16["student"] / fp32["student"], training)]
    (low, high), (trained_low, trained_high) = ranges
    yield SPEED, f"It is {low:.1f} to {high:.1f} times in inference and {trained_low:.1f} to {trained_high:.1f} times"
    best = rates.groupby("library")["gflops"].max()
    student = frame.query("model == 'student' and precision == 'fp32'")
    rate = (student["needed_gflop"] / student["seconds"]).groupby(student["step"]).agg(["min", "max"])
    shares = {
        library: [f"{100 * low / top:.0f} to {100 * high / top:.0f} %" for low, high in rate.to_numpy()]
        for library, top in best.items()
    }
    yield SPEED, f"It is {' and '.join(shares['oneDNN'])} of oneDNN's rate ({' and '.join(shares['MKL'])} of MKL's,"


@pytest.mark.parametrize(("name", "sentence"), list(told(committed)))
def test_a_document_says_what_the_records_say(name, sentence):
    assert sentence in document(name)


def test_a_changed_record_makes_every_sentence_wrong():
    """Numbers grow, by another factor in every row; or every third verdict is another one."""

    def grown(name: str) -> pd.DataFrame:
        frame = committed(name)
        factors = 3 + frame.index.to_series() ** 2 % 11
        return frame.assign(**{name: frame[name] * factors for name in frame.select_dtypes("float")})

    def judged_anew(name: str) -> pd.DataFrame:
        frame = committed(name)
        verdicts = frame.columns.intersection(["verdict", "published_verdict"])
        return frame.assign(**{name: frame[name].mask(frame.index % 3 == 0, "reversed") for name in verdicts})

    still_true = set(told(committed)) & set(told(grown)) & set(told(judged_anew))
    assert not still_true


def test_what_is_told_in_words():
    thesis, larger = _thesis(committed), _thesis(committed, "mini_medium")
    for verdict, names in {
        "holds": ["cosine-over-mse", "pv-large-dimensions", "pv-compounds-alike"],
        "reversed": ["pv-over-sbert", "arxiv-pv-best"],
    }.items():
        assert {*thesis.loc[names, "verdict"], *larger.loc[names, "verdict"]} == {verdict}
    both = set(zip(thesis["verdict"], larger["verdict"].reindex(thesis.index), strict=True))
    assert not both & {("holds", "reversed"), ("reversed", "holds")}, "none the opposite one"
    assert {*thesis.index[thesis["q"] <= 0.05]} == {"pv-large-dimensions", "pv-over-sbert", "arxiv-pv-best"}
    news = committed("figures/mini/news_fig1").query("source == 'ours'").set_index("model")["f1"]
    others = {"teacher", "TF-IDF", "TF-IDF, words of the texts distilled on", "one cluster"}
    assert news.drop(others & {*news.index}).max() < news["TF-IDF"]
    halves = committed("figures/mini/figA_4").groupby(["model", "updates"])["halves"].mean()
    assert (halves.drop("base") < halves["base", 0]).mean() > 0.5
    moved = committed("figures/mini/figA_3").query("loss == 'cosine' and factor == 64")
    assert (moved["cosine"] > moved["another_seed"]).all()


@pytest.mark.parametrize("name", ELSEWHERE)
def test_every_other_number_has_a_source(name):
    text = document(name)
    for phrase in [sentence for where, sentence in told(committed) if where == name]:
        text = text.replace(phrase, "...")
    for phrase in sum(ELSEWHERE[name].values(), []):
        assert phrase in text, f"{name} does not say: {phrase}"
        text = text.replace(phrase, "...")
    left = re.findall(r".{0,30}(?<![\w./])\d*\.\d+.{0,10}", text)
    assert not left, f"{name}: in no record: {left}"


def test_the_log_has_its_numbers_from_the_sources_that_it_names():
    entries = (paths.ROOT / "docs/log.md").read_text(encoding="utf-8").split("\n### ")[1:]
    assert len(entries) > 20
    for entry in entries:
        said, _, named = entry.partition("*Source:*")
        files = [paths.ROOT / "docs" / target for target in re.findall(r"\]\(([^)]+)\)", named)]
        sources = "".join(file.read_text(encoding="utf-8") for file in files)
        assert all(f"*{word}:*" in said for word in ("Tried", "Out", "Concluded")), entry
        absent = [number for number in re.findall(r"(?<![\w.])\d*\.\d+", said) if number not in sources]
        assert sources and not absent, f"{entry.splitlines()[0]}: {absent} not in {named.strip()}"
