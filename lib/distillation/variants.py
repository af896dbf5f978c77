"""The models of the experiments, under the labels of the thesis.

A variant is one model, whatever a figure calls it: `cosine` in Figure 4.3 is the student
`only-structural;cosine` of Figure 4.8. It is trained and recorded under its one `identity`.
"""

import re
from dataclasses import dataclass, replace

# The three models selected in Section 4.5.1, under the names of the later figures.
CONTEXTUAL_TEACHERS = {
    "DM;100d": "DM;100;lowercase;2",
    "DBOW;1024d": "DBOW;1024;None;2",
    "PV;2048d": "DM;1024;stem;2+DBOW;1024;None;2",
}
# Label of a structural loss -> its function in `lib.losses`; max-margin has arguments besides.
STRUCTURAL_LOSSES = {"MSE": "mse", "cosine": "cosine", "contrastive": "contrastive"}
_MAX_MARGIN = re.compile(r"max-margin;(MSE|cosine);γ=(\d+(?:\.\d+)?)(?:;negatives=([1-9]\d*))?")
CONTEXTUAL_LOSSES = {"soft_cca": "SoftCCA", "mse": "mse", "cca": "cca"}
LSA = "LSA"  # a contextual teacher that is not in the thesis (notebook 10)
# Contextual teachers as students' labels name them, "100d" for "DM;100d" -> the models joined.
_PARTS = {short.split(";")[1]: models for short, models in CONTEXTUAL_TEACHERS.items()}
_PARTS |= {LSA: LSA, f"2048d+{LSA}": f"{_PARTS['2048d']}+{LSA}"}
MM_MSE = "max-margin;MSE;γ=1.0"
MASK_LABEL = "384"  # in the thesis' labels; a profile says how many tokens it stands for

# Longformer is the student before training; chunks and LSA are side by side.
_FIXED = ("Longformer", "SBERT", "TF-IDF", LSA, "SBERT, mean of chunks", "chunks + LSA")
# Other names -> the label under which a model is recorded.
_ALIASES = {models: short for short, models in CONTEXTUAL_TEACHERS.items()}
_ALIASES |= {"only-structural;cosine": "cosine", "only-structural;mm-MSE": MM_MSE}
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
        (;(?P<contextual_loss>{"|".join(CONTEXTUAL_LOSSES)}))?
    )?
    (?P<cls>;\[CLS\])?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Variant:
    """One model to evaluate: a baseline, a teacher or a student."""

    label: str  # the one label of this model, if it reads whole texts
    kind: str  # one of `_FIXED`, "paragraph_vector" or "student"
    structural: str | None = None  # label of the structural loss, as in Figure 4.3
    contextual: str | None = None  # label of a contextual model, its parts joined by "+"
    student_projection: str | None = None  # labels of Section 4.5.2, unscaled
    contextual_projection: str | None = None
    masked: bool = False  # whether Listing 4.1 masks what the structural teacher cannot read whole
    lam: float | None = None  # weight of the structural loss; None is the sum (`no-weighting`)
    contextual_loss: str = "soft_cca"  # a key of CONTEXTUAL_LOSSES; others are from a draft
    negatives: int = 0  # drawn for each document from all others; 0: the rest of its batch
    reads_chunks: bool = False  # whether the structural target is the mean over all chunks
    pooling: str = "mean"  # or "cls": the state of the first token, with global attention (drafts)
    cut: bool = False  # whether test texts are cut to what the structural teacher reads

    @property
    def identity(self) -> str:
        """The one label under which this model is recorded."""
        return self.label + _CUT if self.cut else self.label

    @property
    def seed_class(self) -> str:
        """The class of models that vary about equally between seeds, whose variances are pooled."""
        alone = self.kind == "student" and self.structural is None  # varies two or three times more
        return "student of context alone" if alone else self.kind

    @property
    def losses(self) -> list[str]:
        """Names of the functions in `lib.losses` that this student is trained with."""
        names = [] if self.structural is None else structural_loss(self.structural)[0]
        if self.kind == "student" and self.contextual is not None:
            names += ["structural_mask", "weighted"] if names else []
            names.append(CONTEXTUAL_LOSSES[self.contextual_loss])
        return names


def structural_loss(label: str) -> tuple[list[str], dict[str, float]]:
    """Names in `lib.losses` of a structural loss and its distance, and the loss' other arguments.

    "max-margin;MSE;γ=1.0" is (["max_margin", "mse"], {"gamma": 1.0}); ";chunks" is ignored.
    `ValueError` for an unknown label, with the known forms.
    """
    name = label.removesuffix(_CHUNKS)
    if name in STRUCTURAL_LOSSES:
        return [STRUCTURAL_LOSSES[name]], {}
    if match := _MAX_MARGIN.fullmatch(name):
        return ["max_margin", STRUCTURAL_LOSSES[match[1]]], {"gamma": float(match[2])}
    known = ", ".join([*_FIXED, "DM;100;stem;2", *STRUCTURAL_LOSSES, MM_MSE])
    form = f"<loss>;<{'|'.join(_PARTS)}>;S:<projection>;C:<projection>[;<None|384>;λ=<weight>]"
    raise ValueError(f"unknown model {label!r}: expected {known}, or {form}")


def parse(label: str) -> Variant:
    """The variant of a label, such as `cosine;2048d;S:1024(ReLU)x2048;C:-;384;λ=0.5`.

    `ValueError` for an unknown label, with the known forms.
    """
    label = label.strip().replace("×", "x")
    if label.endswith(_CUT):
        whole = parse(label.removesuffix(_CUT))
        if whole.kind in ("Longformer", "student", LSA, "chunks + LSA"):  # others read
            return replace(whole, cut=True)
    label = _ALIASES.get(label, label)
    if label in _FIXED:
        return Variant(label, kind=label)
    if label in CONTEXTUAL_TEACHERS or _PARAGRAPH_VECTOR.fullmatch(label):
        models = CONTEXTUAL_TEACHERS.get(label, label)
        return Variant(label, "paragraph_vector", contextual=models)
    match = _STUDENT.fullmatch(label)
    assert match is not None  # the structural loss takes whatever is left
    structural, lam, teacher = match["structural"], match["lam"], _PARTS.get(match["dimension"])
    if teacher:
        structural = {"only-contextual": None, "mm-MSE": MM_MSE}.get(structural, structural)
        if structural == MM_MSE:  # which labels with a teacher call mm-MSE
            label = "mm-MSE" + label[match.end("structural") :]
    if structural is not None:
        structural_loss(structural)
    drawn = re.search(r";negatives=(\d+)", structural or "")
    if lam is not None:  # λ=0.50 and λ=0.5 are one identity
        label = label.replace(f"λ={lam}", f"λ={float(lam)}")
    return Variant(
        label,
        "student",
        structural=structural,
        contextual=teacher,
        student_projection=match["student"],
        contextual_projection=match["contextual"],
        masked=match["mask"] == MASK_LABEL,
        lam=None if lam is None else float(lam),
        contextual_loss=match["contextual_loss"] or "soft_cca",
        negatives=int(drawn[1]) if drawn else 0,
        reads_chunks=(structural or "").endswith(_CHUNKS),
        pooling="cls" if match["cls"] else "mean",
    )
