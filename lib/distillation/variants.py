"""The models of the experiments, in the thesis' own labels.

A variant is one model, whatever a figure calls it: `cosine` in Figure 4.3 and `only-structural;cosine` in Figure 4.8
are one student. `identity` is the one name under which it is trained and recorded.
"""

import re
from dataclasses import dataclass, replace

from lib.teachers.labels import CONTEXTUAL_TEACHERS

# Label of a loss -> its function in `lib.losses`: the one table that parser, objective and record keys read. A label
# with a distance and a gamma has them as its function's arguments; a distance is one of the plain losses in DISTANCES.
STRUCTURAL_LOSSES = {
    "MSE": "mse",
    "cosine": "cosine",
    "contrastive": "contrastive",
    "max-margin;{distance};γ={gamma}": "max_margin",
}
DISTANCES = ("MSE", "cosine")
CONTEXTUAL_LOSSES = {"soft_cca": "SoftCCA", "mse": "mse", "cca": "cca"}
# The contextual teachers by what students call them: "100d": "DM;100d".
TEACHER_OF_DIMENSION = {teacher.split(";")[1]: teacher for teacher in CONTEXTUAL_TEACHERS}
if _lost := set(CONTEXTUAL_TEACHERS) - set(TEACHER_OF_DIMENSION.values()):
    _both = f"{min(_lost)} and {TEACHER_OF_DIMENSION[min(_lost).split(';')[1]]}"
    raise ValueError(
        f"lib/teachers/labels.py: students cannot tell {_both} apart: change what follows a semicolon"
    )
MM_MSE = "max-margin;MSE;γ=1.0"
MASK_LABEL = (
    "384"  # the limit in the thesis' labels; a profile says how many tokens stand behind it
)

# Models that no setting of an experiment changes.
_FIXED = {
    "base": "Longformer",
    "sbert": "SBERT",
    "tfidf": "TF-IDF",
    "sbert_chunks": "SBERT, mean of chunks",
}
_CUT = ";cut"  # ends the label of a model whose test texts are cut
_PARAGRAPH_VECTOR = re.compile(r"(DM|DBOW);\d+;.+")
_STUDENT = re.compile(
    r"(?P<structural>(?s:.*?))"
    rf"(;(?P<dimension>{'|'.join(TEACHER_OF_DIMENSION)});S:(?P<student>[^;]+);C:(?P<contextual>[^;]+)"
    rf"(;(?P<mask>None|{MASK_LABEL});λ=(?P<lam>\d+(\.\d+)?))?)?"
    rf"(;(?P<contextual_loss>{'|'.join(CONTEXTUAL_LOSSES)}))?"
    r"(?P<cls>;\[CLS\])?"
)


@dataclass(frozen=True)
class Variant:
    """One model to evaluate: a baseline, a teacher or a student.

    kind: "base" (the student before training), "sbert", "paragraph_vector", "student", or a baseline that the thesis
        does not have: "tfidf", "sbert_chunks" (mean of SBERT over the pieces of a text).
    """

    kind: str
    structural: str | None = None  # the structural loss in the labels of Figure 4.3
    contextual: str | None = (
        None  # the label of the contextual teacher, or of the Paragraph Vector that this is
    )
    student_projection: str | None = None  # labels of Section 4.5.2, unscaled
    contextual_projection: str | None = None
    masked: bool = (
        False  # documents longer than the structural teacher's limit are masked (Listing 4.1)
    )
    lam: float | None = (
        None  # static weight of the structural loss; None is the plain sum (`no-weighting`)
    )
    contextual_loss: str = "soft_cca"  # or a draft's ablation: "mse" or "cca"
    pooling: str = (
        "mean"  # or the drafts' "cls": the state of the first token, which has global attention
    )
    cut: bool = (
        False  # it embeds only as many tokens of a test text as the structural teacher reads
    )

    @property
    def identity(self) -> str:
        """The one label under which this model is recorded."""
        if self.cut:
            return self.uncut.identity + _CUT
        if self.kind in _FIXED:
            return _FIXED[self.kind]
        short = {teacher: name for name, teacher in CONTEXTUAL_TEACHERS.items()}
        if self.kind == "paragraph_vector":
            return short.get(str(self.contextual), str(self.contextual))
        if self.contextual is None:
            label = str(self.structural)
        else:
            dimension = short[self.contextual].split(";")[1]
            loss = {None: "only-contextual", MM_MSE: "mm-MSE"}.get(self.structural, self.structural)
            label = f"{loss};{dimension};S:{self.student_projection};C:{self.contextual_projection}"
        if self.masked or self.lam is not None:
            label += f";{MASK_LABEL if self.masked else 'None'};λ={self.lam}"
        if self.contextual_loss != "soft_cca":
            label += f";{self.contextual_loss}"
        return label if self.pooling == "mean" else f"{label};[CLS]"

    @property
    def uncut(self) -> "Variant":
        """The model itself, which embeds test texts whole."""
        return replace(self, cut=False)

    def __str__(self) -> str:
        return self.identity

    @property
    def losses(self) -> list[str]:
        """The functions of `lib.losses` that train this student; its `Objective` can reach no other."""
        if self.kind != "student":
            return []
        name, arguments = structural_loss(self.structural) if self.structural else (None, {})
        mask = "structural_mask" if self.structural and self.masked else None
        contextual = CONTEXTUAL_LOSSES[self.contextual_loss] if self.contextual else None
        both = "weighted" if self.structural and self.contextual else None
        used = (name, arguments.get("distance"), mask, contextual, both)
        return [function for function in used if isinstance(function, str)]


def structural_loss(label: str) -> tuple[str, dict[str, str | float]]:
    """The function of `lib.losses` behind a structural loss' label, and its arguments.

    "max-margin;MSE;γ=1.0" is ("max_margin", {"distance": "mse", "gamma": 1.0}), the distance again by its function.
    """
    for form, name in STRUCTURAL_LOSSES.items():
        pattern = re.escape(form).replace(r"\{distance\}", f"(?P<distance>{'|'.join(DISTANCES)})")
        match = re.fullmatch(pattern.replace(r"\{gamma\}", r"(?P<gamma>\d+(\.\d+)?)"), label)
        if match:
            values = match.groupdict()
            distance = (
                {"distance": STRUCTURAL_LOSSES[values["distance"]]} if "distance" in values else {}
            )
            return name, distance | ({"gamma": float(values["gamma"])} if "gamma" in values else {})
    raise ValueError(
        f"unknown model {label!r}: expected Longformer, SBERT, a Paragraph Vector (DM;100;stem;2), a structural loss "
        f"({', '.join(STRUCTURAL_LOSSES)}), or <only-contextual|mm-MSE|structural loss>;"
        f"<{'|'.join(TEACHER_OF_DIMENSION)}>;S:<projection>;C:<projection>[;<None|{MASK_LABEL}>;λ=<weight>], "
        f"perhaps with {_CUT}"
    )


def parse(label: str) -> Variant:
    """The variant behind a label, `cosine;2048d;S:1024(ReLU)x2048;C:-;384;λ=0.5`; ValueError names the known forms."""
    label = label.strip().replace("×", "x")
    if label.endswith(_CUT):
        whole = parse(label.removesuffix(_CUT))
        if whole.cut or whole.kind not in ("base", "student"):
            raise ValueError(
                f"{label!r}: only texts of students and {_FIXED['base']} are cut, and once"
            )
        return replace(whole, cut=True)
    if label in _FIXED.values():
        return next(Variant(kind) for kind, name in _FIXED.items() if name == label)
    if label in CONTEXTUAL_TEACHERS or _PARAGRAPH_VECTOR.fullmatch(label):
        return Variant("paragraph_vector", contextual=CONTEXTUAL_TEACHERS.get(label, label))
    match = _STUDENT.fullmatch(
        {"only-structural;cosine": "cosine", "only-structural;mm-MSE": MM_MSE}.get(label, label)
    )
    assert match is not None  # the structural loss takes whatever is left
    teacher = TEACHER_OF_DIMENSION.get(match["dimension"])
    short = {"only-contextual": None, "mm-MSE": MM_MSE} if teacher else {}
    structural = short.get(match["structural"], match["structural"])
    if structural is not None:
        structural_loss(structural)
    return Variant(
        "student",
        structural=structural,
        contextual=CONTEXTUAL_TEACHERS[teacher] if teacher else None,
        student_projection=match["student"],
        contextual_projection=match["contextual"],
        masked=match["mask"] == MASK_LABEL,
        lam=float(match["lam"]) if match["lam"] else None,
        contextual_loss=match["contextual_loss"] or "soft_cca",
        pooling="cls" if match["cls"] else "mean",
    )


# Section 4.5.3: the combination each structural loss is weighted on, which is also that loss' `no-weighting` student.
NO_WEIGHTING = {
    "cosine": "cosine;2048d;S:768(ReLU)x4096(ReLU)x2048;C:-",
    "mm-MSE": "mm-MSE;100d;S:768(ReLU)x1024(ReLU)x768;C:768",
}
