"""The models of the experiments, under the labels of the thesis.

A variant is one model, whatever a figure calls it: `cosine` in Figure 4.3 is the student
`only-structural;cosine` of Figure 4.8. It is trained and recorded under its one `identity`.
"""

import re
from dataclasses import dataclass, replace

from lib.teachers.labels import CONTEXTUAL_TEACHERS

# Label of a structural loss -> its function in `lib.losses`.
STRUCTURAL_LOSSES = {
    "MSE": "mse",
    "cosine": "cosine",
    "contrastive": "contrastive",
}
# Negatives are drawn from all documents, or else are those of the batch (notebook 10).
_MAX_MARGIN = re.compile(r"max-margin;(MSE|cosine);γ=(\d+(?:\.\d+)?)(?:;negatives=([1-9]\d*))?")
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
# The students whose weighting Section 4.5.3 varies, as they are without weighting.
NO_WEIGHTING = {
    "cosine": "cosine;2048d;S:768(ReLU)x4096(ReLU)x2048;C:-",
    "mm-MSE": "mm-MSE;100d;S:768(ReLU)x1024(ReLU)x768;C:768",
}
# Students of Paragraph Vector alone vary two to three times as much between seeds as all others.
STUDENT_CLASSES = ("student", "student of context alone")

_FIXED = {
    "base": "Longformer",  # the student before training
    "sbert": "SBERT",
    "tfidf": "TF-IDF",
    "lsa": "LSA",
    "sbert_chunks": "SBERT, mean of chunks",
    "both": "chunks + LSA",  # side by side
}
_CAN_BE_CUT = ("base", "student", "lsa", "both")
_CUT = ";cut"  # at the end of a model's label: test texts are cut
_CHUNKS = ";chunks"  # at the end of a structural loss: the target is the mean over chunks
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
    """One model to evaluate: a baseline, a teacher or a student."""

    kind: str  # a key of `_FIXED`, "paragraph_vector" or "student"
    structural: str | None = None  # label of the structural loss, as in Figure 4.3
    contextual: str | None = None  # label of a contextual model, its parts joined by "+"
    student_projection: str | None = None  # labels of Section 4.5.2, unscaled
    contextual_projection: str | None = None
    masked: bool = False  # whether Listing 4.1 masks what the structural teacher cannot read whole
    lam: float | None = None  # weight of the structural loss; None is the sum (`no-weighting`)
    contextual_loss: str = "soft_cca"  # a key of CONTEXTUAL_LOSSES; others are from a draft
    pooling: str = "mean"  # or "cls": the state of the first token, with global attention (drafts)
    cut: bool = False  # whether test texts are cut to what the structural teacher reads

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
        """The class of models that vary about equally between seeds, whose variances are pooled."""
        return self.kind if self.kind != "student" else STUDENT_CLASSES[self.structural is None]

    @property
    def reads_chunks(self) -> bool:
        """Whether the target is the mean over all chunks, not the embedding of the beginning."""
        return (self.structural or "").endswith(_CHUNKS)

    @property
    def negatives(self) -> int:
        """Number of negatives drawn for each document; 0 if the batch supplies the negatives."""
        match = _MAX_MARGIN.fullmatch((self.structural or "").removesuffix(_CHUNKS))
        return int(match[3] or 0) if match else 0

    @property
    def uncut(self) -> "Variant":
        """The same model, with test texts embedded whole."""
        return replace(self, cut=False)

    def __str__(self) -> str:
        return self.identity

    @property
    def losses(self) -> list[str]:
        """Names of the functions in `lib.losses` that this student is trained with."""
        names: list[str] = []
        if self.structural is not None:
            name, arguments = structural_loss(self.structural)
            names += [name, str(arguments["distance"])] if arguments else [name]
            names += ["structural_mask"] if self.masked else []
        if self.kind == "student" and self.contextual is not None:
            names.append(CONTEXTUAL_LOSSES[self.contextual_loss])
            names += ["weighted"] if self.structural is not None else []
        return names


def structural_loss(label: str) -> tuple[str, dict[str, str | float]]:
    """The name of a structural loss in `lib.losses`, and its arguments; ";chunks" is ignored.

    "max-margin;MSE;γ=1.0" is ("max_margin", {"distance": "mse", "gamma": 1.0}). `ValueError` for an
    unknown label, with the known forms.
    """
    name = label.removesuffix(_CHUNKS)
    if name in STRUCTURAL_LOSSES:
        return STRUCTURAL_LOSSES[name], {}
    if match := _MAX_MARGIN.fullmatch(name):
        return "max_margin", {"distance": STRUCTURAL_LOSSES[match[1]], "gamma": float(match[2])}
    raise ValueError(
        f"unknown model {label!r}: expected {', '.join(_FIXED.values())}, a Paragraph Vector "
        f"(DM;100;stem;2), a structural loss ({', '.join(STRUCTURAL_LOSSES)}, {MM_MSE}), or "
        f"<only-contextual|mm-MSE|structural loss>;<{'|'.join(_PARTS)}>;S:<projection>;"
        f"C:<projection>[;<None|{MASK_LABEL}>;λ=<weight>], perhaps with {_CUT}"
    )


def parse(label: str) -> Variant:
    """The variant of a label, for example `cosine;2048d;S:1024(ReLU)x2048;C:-;384;λ=0.5`.

    `ValueError` for an unknown label, with the known forms.
    """
    label = label.strip().replace("×", "x")
    if label.endswith(_CUT):
        whole = parse(label.removesuffix(_CUT))
        if whole.cut or whole.kind not in _CAN_BE_CUT:
            raise ValueError(f"{label!r}: {_CUT} may follow only a model that reads whole texts")
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
