"""The models of the experiments, in the thesis' own labels.

A variant is one model, whatever a figure calls it: `cosine` in Figure 4.3 and
`only-structural;cosine` in Figure 4.8 are one student. Its `identity` is the one name under which
it is trained and recorded.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from lib.teachers.labels import CONTEXTUAL_TEACHERS

# Label of a structural loss -> its function in `lib.losses`. The parser and the objective read this
# table. {distance}, {gamma} and {negatives} are arguments of the function; a distance is one of
# DISTANCES. The last form is not the thesis' (notebook 10).
STRUCTURAL_LOSSES = {
    "MSE": "mse",
    "cosine": "cosine",
    "contrastive": "contrastive",
    "max-margin;{distance};γ={gamma}": "max_margin",
    "max-margin;{distance};γ={gamma};negatives={negatives}": "max_margin_drawn",
}
DISTANCES = ("MSE", "cosine")
_READERS: dict[str, Callable[[str], str | float]] = {  # of what a label says of its arguments
    "distance": STRUCTURAL_LOSSES.__getitem__,
    "gamma": float,
    "negatives": int,
}
CONTEXTUAL_LOSSES = {"soft_cca": "SoftCCA", "mse": "mse", "cca": "cca"}
# The contextual teachers by what students call them, "100d": "DM;100d". No two may share a width.
TEACHER_OF_DIMENSION = {teacher.split(";")[1]: teacher for teacher in CONTEXTUAL_TEACHERS}
# Latent semantic analysis, a contextual teacher that the thesis does not have (notebook 10).
LSA = "LSA"
# What students call a contextual teacher -> the parts that its rows are joined from.
_PARTS = {name: CONTEXTUAL_TEACHERS[short] for name, short in TEACHER_OF_DIMENSION.items()}
_PARTS |= {LSA: LSA, f"2048d+{LSA}": f"{_PARTS['2048d']}+{LSA}"}
MM_MSE = "max-margin;MSE;γ=1.0"
# The limit in the thesis' labels; a profile says how many tokens stand behind it.
MASK_LABEL = "384"

# Classes of students that are about equally noisy: with a structural teacher, and without one.
STUDENT_CLASSES = ("student", "student of context alone")

# Models that no setting of an experiment changes.
_FIXED = {
    "base": "Longformer",
    "sbert": "SBERT",
    "tfidf": "TF-IDF",
    "lsa": "LSA",
    "sbert_chunks": "SBERT, mean of chunks",
    "both": "chunks + LSA",
}
_CAN_BE_CUT = ("base", "student", "lsa", "both")
_CUT = ";cut"  # ends the label of a model whose test texts are cut
_CHUNKS = ";chunks"  # ends a structural loss whose target is the mean over chunks (notebook 10)
_PARAGRAPH_VECTOR = re.compile(r"(DM|DBOW);\d+;.+")
_STUDENT = re.compile(
    rf"""
    (?P<structural>(?s:.*?))
    (
        ;(?P<dimension>{"|".join(map(re.escape, _PARTS))})
        ;S:(?P<student>[^;]+);C:(?P<contextual>[^;]+)
        (;(?P<mask>None|{MASK_LABEL});λ=(?P<lam>\d+(\.\d+)?))?
    )?
    (;(?P<contextual_loss>{"|".join(CONTEXTUAL_LOSSES)}))?
    (?P<cls>;\[CLS\])?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Variant:
    """One model to evaluate: a baseline, a teacher or a student.

    Parameters
    ----------
    kind : "base" (the student before training), "sbert", "paragraph_vector", "student", or a
        baseline that the thesis does not have: "tfidf", "lsa" (TF-IDF reduced by what Paragraph
        Vectors read), "sbert_chunks" (mean of SBERT over the pieces of a text), "both" (the last
        two side by side)
    structural : the structural loss, in the labels of Figure 4.3; ";chunks" behind it asks for the
        mean of the teacher's embeddings of all chunks as the target, in place of the beginning
    contextual : the label of the contextual teacher, parts joined by "+", or of the Paragraph
        Vector that this is
    student_projection, contextual_projection : labels of Section 4.5.2, unscaled
    masked : mask documents longer than the structural teacher's limit (Listing 4.1)
    lam : weight of the structural loss; None is the plain sum (`no-weighting`)
    contextual_loss : a key of CONTEXTUAL_LOSSES; "mse" and "cca" are a draft's ablations
    pooling : "mean", or the drafts' "cls": the state of the first token, which has global attention
    cut : embed only as many tokens of a test text as the structural teacher reads
    """

    kind: str
    structural: str | None = None
    contextual: str | None = None
    student_projection: str | None = None
    contextual_projection: str | None = None
    masked: bool = False
    lam: float | None = None
    contextual_loss: str = "soft_cca"
    pooling: str = "mean"
    cut: bool = False

    @property
    def identity(self) -> str:
        """The one label under which this model is recorded."""
        if self.cut:
            return self.uncut.identity + _CUT
        if self.kind in _FIXED:
            return _FIXED[self.kind]
        if self.kind == "paragraph_vector":
            short = {teacher: name for name, teacher in CONTEXTUAL_TEACHERS.items()}
            return short.get(str(self.contextual), str(self.contextual))
        if self.contextual is None:
            label = str(self.structural)
        else:
            dimension = next(name for name, parts in _PARTS.items() if parts == self.contextual)
            loss = {None: "only-contextual", MM_MSE: "mm-MSE"}.get(self.structural, self.structural)
            label = f"{loss};{dimension};S:{self.student_projection};C:{self.contextual_projection}"
        if self.masked or self.lam is not None:
            label += f";{MASK_LABEL if self.masked else 'None'};λ={self.lam}"
        if self.contextual_loss != "soft_cca":
            label += f";{self.contextual_loss}"
        return label if self.pooling == "mean" else f"{label};[CLS]"

    @property
    def seed_class(self) -> str:
        """Models of one class vary about equally by their seed, and their noise is pooled.

        Students of Paragraph Vector alone vary two to three times as much as all others.
        """
        return self.kind if self.kind != "student" else STUDENT_CLASSES[self.structural is None]

    @property
    def reads_chunks(self) -> bool:
        """Whether the structural target is the mean over the chunks of a document."""
        return (self.structural or "").endswith(_CHUNKS)

    @property
    def negatives(self) -> int:
        """Negatives that are drawn for a document; 0 if there are none but those of its batch."""
        arguments = {} if self.structural is None else structural_loss(self.structural)[1]
        return int(arguments.get("negatives", 0))

    @property
    def uncut(self) -> "Variant":
        """The model itself, which embeds test texts whole."""
        return replace(self, cut=False)

    def __str__(self) -> str:
        return self.identity

    @property
    def losses(self) -> list[str]:
        """Names of the functions in `lib.losses` that train this student, and no others."""
        if self.kind != "student":
            return []
        names: list[str] = []
        if self.structural is not None:
            name, arguments = structural_loss(self.structural)
            names.append(name)
            if "distance" in arguments:
                names.append(str(arguments["distance"]))
            if self.masked:
                names.append("structural_mask")
        if self.contextual is not None:
            names.append(CONTEXTUAL_LOSSES[self.contextual_loss])
        if self.structural is not None and self.contextual is not None:
            names.append("weighted")
        return names


def structural_loss(label: str) -> tuple[str, dict[str, str | float]]:
    """The function in `lib.losses` behind a structural loss' label, and its arguments.

    "max-margin;MSE;γ=1.0" is ("max_margin", {"distance": "mse", "gamma": 1.0}): the distance is the
    name of a function too. The target of the loss makes no difference.
    """
    distances = rf"(?P<distance>{'|'.join(DISTANCES)})"
    number = r"(?P<gamma>\d+(\.\d+)?)"
    for form, name in STRUCTURAL_LOSSES.items():
        pattern = re.escape(form).replace(r"\{distance\}", distances)
        pattern = pattern.replace(r"\{negatives\}", r"(?P<negatives>[1-9]\d*)")
        pattern = pattern.replace(r"\{gamma\}", number)
        match = re.fullmatch(pattern, label.removesuffix(_CHUNKS))
        if match is None:
            continue
        arguments: dict[str, str | float] = {}
        for key, value in match.groupdict().items():
            arguments[key] = _READERS[key](value)
        return name, arguments
    dimensions = "|".join(_PARTS)
    raise ValueError(
        f"unknown model {label!r}: expected Longformer, SBERT, a Paragraph Vector "
        f"(DM;100;stem;2), a structural loss ({', '.join(STRUCTURAL_LOSSES)}), or "
        f"<only-contextual|mm-MSE|structural loss>;<{dimensions}>;S:<projection>;C:<projection>"
        f"[;<None|{MASK_LABEL}>;λ=<weight>], perhaps with {_CUT}"
    )


def parse(label: str) -> Variant:
    """The variant behind a label, for example `cosine;2048d;S:1024(ReLU)x2048;C:-;384;λ=0.5`.

    Raises
    ------
    ValueError
        For an unknown label; the message names the known forms.
    """
    label = label.strip().replace("×", "x")
    if label.endswith(_CUT):
        whole = parse(label.removesuffix(_CUT))
        if whole.cut or whole.kind not in _CAN_BE_CUT:
            names = [_FIXED[kind] for kind in _CAN_BE_CUT if kind in _FIXED]
            told = f"only texts of students, {', '.join(names)} are cut, and once"
            raise ValueError(f"{label!r}: {told}")
        return replace(whole, cut=True)
    for kind, name in _FIXED.items():
        if label == name:
            return Variant(kind)
    if label in CONTEXTUAL_TEACHERS or _PARAGRAPH_VECTOR.fullmatch(label):
        return Variant("paragraph_vector", contextual=CONTEXTUAL_TEACHERS.get(label, label))
    references = {"only-structural;cosine": "cosine", "only-structural;mm-MSE": MM_MSE}
    match = _STUDENT.fullmatch(references.get(label, label))
    assert match is not None  # the structural loss takes whatever is left
    teacher = _PARTS.get(match["dimension"])
    short = {"only-contextual": None, "mm-MSE": MM_MSE} if teacher else {}
    structural = short.get(match["structural"], match["structural"])
    if structural is not None:
        structural_loss(structural)
    return Variant(
        "student",
        structural=structural,
        contextual=teacher,
        student_projection=match["student"],
        contextual_projection=match["contextual"],
        masked=match["mask"] == MASK_LABEL,
        lam=float(match["lam"]) if match["lam"] else None,
        contextual_loss=match["contextual_loss"] or "soft_cca",
        pooling="cls" if match["cls"] else "mean",
    )


# Section 4.5.3: the combination on which each structural loss is weighted. It is also the loss'
# `no-weighting` student.
NO_WEIGHTING = {
    "cosine": "cosine;2048d;S:768(ReLU)x4096(ReLU)x2048;C:-",
    "mm-MSE": "mm-MSE;100d;S:768(ReLU)x1024(ReLU)x768;C:768",
}
