"""The sentences under the three questions of docs/results.md."""

from lib.chapters.final_students import list_students
from lib.chapters.sensitivity import CONTROL
from lib.distillation.variants import MM_MSE
from lib.pages.saved_tables import UNKNOWN, Tables, find_lead
from lib.pages.verdicts import asks_twice
from lib.statistics.verdicts import MARGIN, NOT_RUN
from lib.words import answer, answer_twice, comparison, count, list_names, ordinal, percent, signed

BASELINES = {
    "Longformer": "The untrained base, called Longformer, is right on {}",
    "SBERT": "SBERT is right on {}, and guessing on {guessing}",
    "TF-IDF": "TF-IDF is right on {}",
}

CITATIONS = ("OC", "AAN", "S2ORC")  # tasks
CITATIONS_ASKED = (
    "Do the students improve on their base on the passage pairs that stand in for citations?"
)

# Column of `tab_heads` -> its readout, in words.
READERS = {"thesis": "the thesis' heads", "compare": "heads that compare", "none": "no head"}


def tell_about_student(tables: Tables) -> list[str]:
    """Answer the first question: students by readout, against base and teachers, on citations."""
    return [
        tell_cosine_by_readout(tables),
        *tell_start_and_teachers(tables),
        f"{CITATIONS_ASKED} {answer_twice(tables.claim('abstract-citations'))}. "
        f"{tell_citations(tables)}",
    ]


def tell_cosine_by_readout(tables: Tables) -> str:
    """Name the readouts by which the cosine student is ahead of its base and of SBERT."""
    told = []
    for rival, words in (("Longformer", "its base"), ("SBERT", "SBERT")):
        leads = {
            name: find_lead(tables.heads(column), "cosine", rival)
            for column, name in READERS.items()
        }
        ahead = [name for name, lead in leads.items() if lead > 0]
        by = f"{list_names(ahead)} only" if ahead else "no readout"
        if len(ahead) == len(leads):
            by = "every readout"
        told.append(f"ahead of {words} by {by} ({', '.join(map(signed, leads.values()))})")
    return (
        f"The cosine student is {list_names(told)}. The readouts are {list_names(READERS.values())}"
        ", in this order."
    )


def tell_start_and_teachers(tables: Tables) -> list[str]:
    """Compare final students with base, SBERT and TF-IDF: accuracy with heads, and MAP."""
    told = []
    scores = tables.accuracy("all")
    own = [f"{percent(scores[name], 1)} (`{name}`)" for name in list_students() if name in scores]
    if own:
        told.append(
            f"{by_heads(tables)} and all labels, the final students are right on "
            f"{list_names(own)} of the test examples."
        )
    guessing = percent(tables.guessing(), 1)
    told += [
        f"{words.format(percent(scores[name], 1), guessing=guessing)}."
        for name, words in BASELINES.items()
        if name in scores
    ]
    if scores.get("SBERT", UNKNOWN) - tables.guessing() < MARGIN:
        told.append(
            "So such heads read next to nothing from SBERT's embeddings, and a lead over SBERT "
            "says more about them than about a student."
        )
    for rival, words in (("SBERT", "SBERT"), ("Longformer", "the untrained base")):
        few, every = (tables.leads(name, rival) for name in ("1k", "all"))
        told.append(
            f"{by_heads(tables)}, students minus {words} is {signed(few[0])} to "
            f"{signed(few[-1])} with the fewest labels and {signed(every[0])} to "
            f"{signed(every[-1])} with all: chance-corrected, the range over "
            f"{count(len(every), 'student')}."
        )
    told += [f"{sentence}." for sentence in _sbert_by_other_heads(tables)]
    found = tables.retrieval()
    best = found.reindex([*list_students()]).max()
    told.append(
        f"In retrieval the best student has a MAP of {signed(best)}, and the untrained base "
        f"{signed(found.get('Longformer', UNKNOWN))}."
    )
    told.append(
        f"SBERT has {signed(found.get('SBERT', UNKNOWN))} there, and TF-IDF "
        f"{signed(found.get('TF-IDF', UNKNOWN))}."
    )
    return told


def _sbert_by_other_heads(tables: Tables) -> list[str]:
    """Say how SBERT does with all labels and heads that compare; empty if it was not judged."""
    row = tables.claim("all-data-sbert-best")
    if row.get("survives", NOT_RUN) == NOT_RUN:
        return []
    names = ("effect", "low", "high", "verdict")
    compared = {name: row[f"compare_{name}"] for name in names}
    return [
        "With heads that compare, "
        + comparison("SBERT", "the best of the thesis' other six models", compared)
    ]


def tell_citations(tables: Tables) -> str:
    """Tell the students' lead on each stand-in for citations; empty if none was judged."""
    leads = tables.leads_by_task("Longformer").reindex(CITATIONS).dropna()
    if leads.empty:
        return ""
    each = list_names(f"{signed(lead)} on {task}" for task, lead in leads.items())
    told = (
        f"With the thesis' heads, students minus the untrained base is {each}, the mean over "
        "students and rounds"
    )
    if (leads >= MARGIN).all():
        return f"{told}."
    small = list_names(leads.index[leads < MARGIN])
    least = signed(MARGIN, 2)
    if (leads < MARGIN).all():
        return f"{told}. All of it is below {least}, which is too small to matter."
    large = list_names(leads.index[leads >= MARGIN])
    return (
        f"{told}. So the lead comes from {large}. On {small} it is below {least}, which is too "
        "small to matter."
    )


def tell_paragraph_vector(tables: Tables) -> list[str]:
    """Answer the second question: how the contextual loss changes students, and if it helps."""
    learned = tables.check("treatment_given", "fig4_7")
    return [
        "Added to the cosine loss, Paragraph Vector's loss has "
        f"{percent(tables.check('treatment_given', 'fig4_8'))} of the gradient, the median over "
        "students.",
        "Embeddings of students with and without Paragraph Vector have a mean cosine of "
        f"{signed(tables.check('students_differ', 'fig4_8'))}; 1 would be the same embeddings.",
        "Added to max-margin MSE, Paragraph Vector's loss has "
        f"{percent(tables.check('treatment_given', 'fig4_9'))} of the gradient.",
        "Students of Paragraph Vector alone correlate with it more, on held-out documents, than "
        f"students that were given other documents' vectors: by {signed(learned)}.",
        _students_of_context(tables),
        "As an encoder, is the large Paragraph Vector better than SBERT? "
        f"{answer(tables.claim('pv-over-sbert'))}.",
        "Does its loss with long documents masked beat cosine alone? "
        f"{answer_twice(tables.claim('weighting-masked-over-structural'))}.",
    ]


def _students_of_context(tables: Tables) -> str:
    """Count the students of Paragraph Vector alone that collapsed, and that learned nothing."""
    drawn, watched = tables.read("fig4_7"), tables.read("figA_2")
    if drawn.empty or watched.empty:
        return ""
    alone = watched["share"].eq(1)  # the contextual loss has the whole gradient
    ends = watched[alone].groupby("model").last()
    collapsed = drawn.groupby("model")["collapsed"].any().reindex(ends.index)
    below = int((ends["embedding"] < ends["chance"]).sum())
    return (
        f"Of these {count(len(ends), 'student')}, {count(int(collapsed.sum()))} have collapsed: "
        f"all their embeddings point one way. {count(below).capitalize()} end with less of that "
        "correlation than documents paired at random."
    )


def tell_losses(tables: Tables) -> list[str]:
    """Answer the third question: cosine against MSE, and max-margin MSE by each readout."""
    claim = tables.claim("cosine-over-mse")
    told = [f"{by_heads(tables)}, {comparison('cosine', 'MSE', claim)}."]
    lengths = tables.lengths()
    if len(lengths) > 1:
        leads = (lengths["cosine"] - lengths["MSE"]).round(6)
        told.append(
            f"Without a head, cosine minus MSE is {signed(leads.iloc[0])} after "
            f"{lengths.index[0]} updates and {signed(leads.iloc[-1])} after {lengths.index[-1]}."
        )
    words = {
        "thesis": "With heads trained as in the thesis,",
        CONTROL: "With such heads, trained for as many steps as in the thesis,",
        "compare": "With heads that compare, trained until they converge,",
        "none": "Without a head,",
    }
    for column, begin in words.items():
        scores = tables.heads(column)
        place = scores.rank(ascending=False).get(MM_MSE, UNKNOWN)
        if abs(find_lead(scores)) < MARGIN:
            told.append(
                f"{begin} max-margin MSE is level with cosine: its score minus cosine's is "
                f"{signed(find_lead(scores))}."
            )
            continue
        told.append(
            f"{begin} max-margin MSE is {ordinal(place)} of {len(scores)} models; its score minus "
            f"cosine's is {signed(find_lead(scores))}."
        )
    told.append(
        "Is the contrastive loss worse than cosine alone? "
        f"{answer_twice(tables.claim('contrastive-behind-cosine'))}."
    )
    return told


def by_heads(tables: Tables) -> str:
    """Say whose heads gave a verdict. Under the first rules a profile had heads of its own."""
    theirs = asks_twice(tables.ledger())
    return "With the thesis' heads" if theirs else "With this profile's own heads"
