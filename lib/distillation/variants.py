"""The models of the experiments, under the labels of the thesis.

A variant is one model, whatever a figure calls it: `cosine` in Figure 4.3 is the student
`only-structural;cosine` of Figure 4.8. It is trained and recorded under its one `identity`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from lib.teachers.labels import CONTEXTUAL_TEACHERS

# Label of a structural loss -> its function in `lib.losses`; arguments in braces. The last form
# is not in the thesis (notebook 10).
STRUCTURAL_LOSSES = {
    "MSE": "mse",
    "cosine": "cosine",
    "contrastive": "contrastive",
    "max-margin;{distance};γ={gamma}": "max_margin",
    "max-margin;{distance};γ={gamma};negatives={negatives}": "max_margin_drawn",
}
DISTANCES = ("MSE", "cosine")
_READERS: dict[str, Callable[[str], str | float]] = {  # convert the arguments in a label
    "distance": STRUCTURAL_LOSSES.__getitem__,
    "gamma": float,
    "negatives": int,
}
CONTEXTUAL_LOSSES = {"soft_cca": "SoftCCA", "mse": "mse", "cca": "cca"}
# Contextual teachers by their widths, the names in students' labels, such as "100d": "DM;100d".
TEACHER_OF_DIMENSION = {teacher.split(";")[1]: teacher for teacher in CONTEXTUAL_TEACHERS}
# Latent semantic analysis, a contextual teacher that is not in the thesis (notebook 10).
LSA = "LSA"
# Name of a contextual teacher in students' labels -> the models whose embeddings are joined.
_PARTS = {name: CONTEXTUAL_TEACHERS[short] for name, short in TEACHER_OF_DIMENSION.items()}
_PARTS |= {LSA: LSA, f"2048d+{LSA}": f"{_PARTS['2048d']}+{LSA}"}
MM_MSE = "max-margin;MSE;γ=1.0"
# The limit in the thesis' labels; a profile says how many tokens it stands for.
MASK_LABEL = "384"

# Classes of students whose results vary about equally: with a structural teacher, and without one.
STUDENT_CLASSES = ("student", "student of context alone")

_FIXED = {
    "base": "Longformer",
    "sbert": "SBERT",
    "tfidf": "TF-IDF",
    "lsa": "LSA",
    "sbert_chunks": "SBERT, mean of chunks",
    "both": "chunks + LSA",
}
_CAN_BE_CUT = ("base", "student", "lsa", "both")
_CUT = ";cut"  # at the end of a model's label: test texts are cut
# At the end of a structural loss: the target is the mean over chunks (notebook 10).
_CHUNKS = ";chunks"
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
        baseline that is not in the thesis: "tfidf", "lsa" (TF-IDF reduced by singular vectors of
        the corpus that Paragraph Vectors are trained on), "sbert_chunks" (mean of SBERT's
        embeddings of the pieces of a text), "both" (the last two side by side)
    structural : label of the structural loss, as in Figure 4.3; see `reads_chunks` for ";chunks"
    contextual : label of the contextual teacher, with parts joined by "+"; for kind
        "paragraph_vector" the label of the model itself
    student_projection, contextual_projection : labels of Section 4.5.2, unscaled
    masked : whether documents longer than the structural teacher's limit are masked (Listing 4.1)
    lam : weight of the structural loss; None is the plain sum (`no-weighting`)
    contextual_loss : a key of CONTEXTUAL_LOSSES; "mse" and "cca" are from a draft of the thesis
    pooling : "mean", or "cls" of the drafts: the state of the first token, with global attention
    cut : whether a test text is cut to as many tokens as the structural teacher reads
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
        """The class of models that vary about equally between seeds, whose variances are pooled.

        Students of Paragraph Vector alone vary two to three times as much as all others.
        """
        return self.kind if self.kind != "student" else STUDENT_CLASSES[self.structural is None]

    @property
    def reads_chunks(self) -> bool:
        """Whether the target is the mean over all chunks, not the embedding of the beginning."""
        return (self.structural or "").endswith(_CHUNKS)

    @property
    def negatives(self) -> int:
        """Number of negatives drawn for each document; 0 if the batch supplies the negatives."""
        arguments = {} if self.structural is None else structural_loss(self.structural)[1]
        return int(arguments.get("negatives", 0))

    @property
    def uncut(self) -> "Variant":
        """The same model, with test texts embedded whole."""
        return replace(self, cut=False)

    def __str__(self) -> str:
        return self.identity

    @property
    def losses(self) -> list[str]:
        """Names of the functions in `lib.losses` that this student is trained with."""
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
    """The name of a structural loss in `lib.losses`, and its arguments; ";chunks" is ignored.

    "max-margin;MSE;γ=1.0" is ("max_margin", {"distance": "mse", "gamma": 1.0}). `ValueError` for an
    unknown label, with the known forms.
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
        return name, {key: _READERS[key](value) for key, value in match.groupdict().items()}
    raise ValueError(
        f"unknown model {label!r}: expected Longformer, SBERT, a Paragraph Vector "
        f"(DM;100;stem;2), a structural loss ({', '.join(STRUCTURAL_LOSSES)}), or <only-contextual|"
        f"mm-MSE|structural loss>;<{'|'.join(_PARTS)}>;S:<projection>;C:<projection>"
        f"[;<None|{MASK_LABEL}>;λ=<weight>], perhaps with {_CUT}"
    )


def parse(label: str) -> Variant:
    """The variant of a label, for example `cosine;2048d;S:1024(ReLU)x2048;C:-;384;λ=0.5`.

    `ValueError` for an unknown label, with the known forms.
    """
    label = label.strip().replace("×", "x")
    if label.endswith(_CUT):
        whole = parse(label.removesuffix(_CUT))
        if whole.cut or whole.kind not in _CAN_BE_CUT:
            raise ValueError(
                f"{label!r}: {_CUT} may follow only once, and only a student, "
                f"{', '.join(_FIXED[kind] for kind in _CAN_BE_CUT if kind in _FIXED)}"
            )
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


# The students whose weighting Section 4.5.3 varies, as they are without weighting.
NO_WEIGHTING = {
    "cosine": "cosine;2048d;S:768(ReLU)x4096(ReLU)x2048;C:-",
    "mm-MSE": "mm-MSE;100d;S:768(ReLU)x1024(ReLU)x768;C:768",
}
