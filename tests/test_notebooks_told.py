"""What the first notebooks tell is true: numbers in their texts are those of the committed figures, code in their texts
and toy examples runs, and the losses by hand are those of `lib.losses`, which the notebooks assert themselves."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable

import pandas as pd
import pytest

from lib.config import paths
from tests.test_notebooks_style import NUMBERED, bound, code, code_in_text, read, text

MINI = paths.ROOT / "figures" / "mini"
FIRST = {name: cells for name, cells in NUMBERED.items() if name[:2] in ("00", "01", "02", "03")}
MAP, FOUND = "## Where everything is", "## What we found"
# Numbers that no figure has: sizes of the thesis and of the method.
GIVEN = {"1:8", "95 %", "512", "4,096"}


def table(label: str) -> pd.DataFrame:
    return pd.read_csv(MINI / f"{label}.csv")


def digits(value: float, places: int = 3) -> str:
    """.077, as the texts have it."""
    return f"{value:.{places}f}".replace("0.", ".")


def claim(name: str, places: int = 3) -> str:
    """Effect and interval of a finding, ".077 [.026, .129]"."""
    row = table("tab_claims").set_index("id").loc[name]
    low, high = digits(row["low"], places), digits(row["high"], places)
    return f"{digits(row['effect'], places)} [{low}, {high}]"


def verdict(name: str) -> str:
    return table("tab_claims").set_index("id")["verdict"][name]


def rank(column: str, model: str) -> int:
    return int(table("tab_heads").set_index("model")[column].rank(ascending=False)[model])


def behind(column: str, model: str) -> str:
    scores = table("tab_heads").set_index("model")[column]
    return digits(abs(scores[model] - scores["cosine"]))


def retrieval(model: str) -> str:
    scores = table("fig5_5").query("metric == 'MAP'").groupby("model")["value"].mean()
    return digits(scores[model])


def best_student() -> str:
    return max(retrieval(model) for model in ("cosine-masked", "MSE-contextual", "only-MSE"))


def longer(model: str) -> str:
    scores = table("figA_4").query("model == @model").groupby("updates")["accuracy"].mean()
    return digits(scores.iloc[-1] - scores.iloc[0])


def verdicts() -> str:
    thesis = table("tab_claims").query("not id.str.startswith('news-')")
    counts = thesis["verdict"].value_counts()
    told = [f"{counts['holds']} hold", f"{counts['reversed']} are reversed", f"{counts['equivalent']} equivalent"]
    told.append(f"{counts['open']} open and {counts['not testable here']} not testable here")
    return f"Of {len(thesis)}, {', '.join(told)}"


def distance(model: str, kind: str = "cosine", to: str = "positives", negatives: str = "true") -> float:
    rows = table("fig4_4").query("model == @model and distance == @kind and to == @to and negatives == @negatives")
    return rows["value"].item()


def gap(model: str) -> str:
    return digits(distance(model, to="negatives") - distance(model))


def span(negatives: str) -> str:
    """The range of the models' mean cosine distances to negatives."""
    values = table("fig4_4").query("distance == 'cosine' and to == 'negatives' and negatives == @negatives")["value"]
    low, high = values.min(), values.max()
    return f"between {digits(low)} and {digits(high)}"


def corpus(column: str) -> float:
    return table("tab4_1").set_index("split").loc["train", column]


def too_long(task: str, column: str = "over_384_percent", places: int = 0) -> str:
    tables = [table("tab5_4").query("split == 'test'"), table("tab5_5")]
    values = pd.concat(tables).set_index("task")[column]
    return f"{values[task]:.{places}f}".replace("0.", ".") + " %"


def chance(task: str) -> str:
    return f"{table('tab4_2').set_index('task')['class_percent_mean'][task].mean():.0f} %"


MARGIN, COLLAPSED = "max-margin;MSE;γ=1.0", "max-margin;MSE;γ=1.5"
OVER, PUBLISHED, L2 = "over_384_percent", "over_384_percent (published)", "squared L2"
# notebook, heading of the section -> what stands in it, rendered from the figures' CSVs.
TOLD: dict[tuple[str, str], Callable[[], list[str]]] = {
    ("00_start_here", MAP): lambda: [
        f"{corpus(OVER):.0f} % are longer than the structural teacher reads; in the thesis {corpus(PUBLISHED):.0f} %",
        f"Cosine beats MSE by {claim('cosine-over-mse')}",
        f"is {rank('published', MARGIN)}st of {len(table('tab_heads'))} with its own heads",
        f"and {rank('converged', MARGIN)}th with heads trained to the end",
        f"{distance(MARGIN, L2) / distance('MSE', L2):.0f} times as far from their targets as with MSE",
        f"Large ones beat small ones by {claim('pv-large-dimensions')}",
        f"the large Paragraph Vector less SBERT is {claim('pv-over-sbert')}",
        f"Training four times as long does: MSE gains {longer('MSE')}",
        f"SBERT has a MAP of {retrieval('SBERT')}, the untrained base {retrieval('Longformer')}",
        f"the best student {best_student()}",
        f"{table('tab_claims').set_index('id')['effect']['news-twenty-times-smaller']:.1f} times smaller",
        f"{100 * table('tab_claims').set_index('id')['effect']['news-one-percent']:.1f} points of F1 worse",
        '"20 times smaller, 1 % worse"',  # the paper's words
        verdicts(),
    ],
    ("01_data_stats", FOUND): lambda: [
        f"{corpus('documents'):,} training documents, of {corpus('tokens_mean'):.0f} tokens on average",
        f"{corpus('documents (published)'):,}, of {corpus('tokens_mean (published)'):,.0f}",
        f"{corpus(OVER):.0f} %, published {corpus(PUBLISHED):.0f} %",
        f"on PAN {too_long('PAN')} (published {too_long('PAN', PUBLISHED)})",
        f"on OC {too_long('OC')} ({too_long('OC', PUBLISHED)})",
        f"published {too_long('AAN', PUBLISHED, 2)}",
        f"{too_long('GAMES')} of those of GAMES (published {too_long('GAMES', PUBLISHED)})",
        f"right in {chance('OC')} of the cases on five tasks, and in {chance('ARXIV')} on ARXIV",
    ],
    ("02_structural_loss", FOUND): lambda: [
        f"Cosine gives a better student than MSE, by {claim('cosine-over-mse')}.",
        f"The thesis' finding *{verdict('cosine-over-mse')}*",
        f"*{verdict('contrastive-behind-cosine')}* to cosine",
        f"cosine is ahead of it by {claim('contrastive-behind-cosine')}",
        f"*{verdict('cosine-over-baselines')}*. Cosine against SBERT is {claim('cosine-over-baselines')}",
        f"only {claim('mse-gains-from-negatives').split()[0]} behind plain MSE",
        f"is {rank('published', MARGIN)}st of {len(table('tab_heads'))}",
        f"{behind('published', MARGIN)} ahead of cosine",
        f"it is {rank('converged', MARGIN)}th and {behind('converged', MARGIN)} behind",
        f"without a head, {behind('no head', MARGIN)} behind",
        f"correlate at {digits(table('tab_heads')[['published', 'converged']].corr('spearman').iloc[0, 1], 2)}",
    ],
    ("03_composite_analysis", FOUND): lambda: [
        f"squared distance of {digits(distance(MARGIN, L2))} to its positives",
        f"plain MSE has {digits(distance('MSE', L2))}",
        f"distance is {digits(distance(MARGIN))}, and was {digits(distance('Longformer'))} before training",
        f"its gap ({gap(MARGIN)}) is like that of MSE ({gap('MSE')})",
        f"contrastive ({gap('contrastive')})",
        f"with $\\gamma = 0.5$ ({gap('max-margin;MSE;γ=0.5')})",
        f"distance of {distance(COLLAPSED):.3f} to positives and a gap of {gap(COLLAPSED)}",
        f"distance to them {span('as published')}",
        f"it lies {span('true')}",
    ],
}


def section(name: str, heading: str) -> str:
    return text(NUMBERED[name]).split(heading + "\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize(("name", "heading"), TOLD)
def test_numbers_in_the_text_are_those_of_the_figures(name, heading):
    told, rest = TOLD[name, heading](), section(name, heading)
    assert [words for words in told if words not in rest] == []
    for words in [*told, *GIVEN]:
        rest = rest.replace(words, "")
    rest = re.sub(r"\$.*?\$|\(\d\d_\w+\.ipynb\)|\[\d\d\]", "", rest)  # formulas and links
    assert re.findall(r"-?[\d,]*\.?\d+(?: %)?", rest) == [], "numbers that no figure's CSV is asked for"


def test_the_words_beside_the_numbers_still_fit():
    """What the texts of 02 and 03 say without a number."""
    heads = table("tab_heads").set_index("model")
    assert heads["converged"][MARGIN] < heads["converged"]["cosine"]
    assert heads["no head"][MARGIN] < heads["no head"]["cosine"] and heads["published"].idxmax() == MARGIN
    assert heads["unit norm"].idxmax() == heads["standardised"].idxmax() == MARGIN, "scaling changes nothing"
    assert verdict("cosine-hurt-by-negatives") == "equivalent"
    assert table("fig4_3").set_index("model")["collapsed"][COLLAPSED].all()
    gaps = {model: float(gap(model)) for model in table("fig4_4")["model"].unique()}
    assert sorted(gaps, key=gaps.get)[-2:] == ["max-margin;MSE;γ=0.5", "contrastive"]
    assert distance(MARGIN) < distance("Longformer"), "it has turned towards its positives"
    over = table("tab5_4").query("split == 'test'").set_index("task")
    assert over["over_384_percent"]["ARXIV"] == over[PUBLISHED]["ARXIV"] == 100
    assert over["over_384_percent"]["AAN"] == 0
    assert table("tab4_2")["class_percent_sd"].max() == 0, "classes are balanced"
    wines = table("tab5_5").set_index("task").loc["WINES"]
    assert wines["over_384_percent"] == wines[PUBLISHED] == 100


def toys(cells) -> dict:
    """The names after the notebook's toy examples: its untagged cells that need neither profile nor records."""
    names: dict = {}
    for source in (source for cell, source in zip(codes(cells), code(cells), strict=True) if "tags" not in cell):
        tree = [*ast.walk(ast.parse(source))]
        if "lib.runner" not in source and read(tree) <= {*dir(builtins), *names} | bound(tree):
            exec(source, names)
    return names


def codes(cells) -> list[dict]:
    return [cell["metadata"] for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture
def solved(request, capsys):
    """What a notebook's solution prints and what it leaves, its last value as `shown`; run after the toy examples."""
    names, (solution,) = toys(FIRST[request.param]), code_in_text(FIRST[request.param])
    *body, last = ast.parse(solution).body
    capsys.readouterr()
    exec(compile(ast.Module(body, []), "solution", "exec"), names)
    names["shown"] = eval(compile(ast.Expression(last.value), "solution", "eval"), names)
    return capsys.readouterr().out, names


@pytest.mark.parametrize("solved", ["01_data_stats"], indirect=True)
def test_the_number_of_examples_that_a_small_difference_takes(solved):
    assert solved[0] == "2954 examples\n"


@pytest.mark.parametrize("solved", ["02_structural_loss"], indirect=True)
def test_every_loss_by_hand_is_the_librarys_and_a_floor_ends_growth(solved):
    """The notebook's own assertions compare; here they are seen to have run."""
    names = solved[1]
    assert {"mse", "cosine", "by_hand", "printed", "gamma"} <= names.keys()
    assert (names["shown"]["largest gradient"] == 0).all() and (names["shown"]["with a floor"] == -1).all()
    assert names["shown"]["max-margin"].is_monotonic_decreasing


@pytest.mark.parametrize("solved", ["03_composite_analysis"], indirect=True)
def test_distances_by_hand_are_the_librarys_and_shifted_negatives_are_orthogonal(solved):
    names = solved[1]
    assert {"by_hand", "measured", "y"} <= names.keys()
    means = names["frame"].groupby(["negatives", "to"])["value"].mean()
    assert means["true", "negatives"] < 0.7 and abs(means["as published", "negatives"] - 1) < 0.1
