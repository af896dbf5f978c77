"""A student as people use it: it can be saved, and encodes also in int8 or in pure bfloat16."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from torch import Tensor

from lib.student import encoder, low_precision
from lib.student.packing import Packed, evaluation_mode


class Student(encoder.Student):
    __doc__ = encoder.Student.__doc__

    # Computes token states instead of the student's layers.
    _converted: low_precision.LowPrecision | None = None

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load what `save` or `export` wrote; errors as in `from_longformer`."""
        return cls.from_longformer(Path(folder).expanduser())

    def token_states(self, packed: Packed) -> Float[Tensor, "tokens dim"]:
        """States (tokens, dim) of the last layer."""
        if self._converted is None:
            return super().token_states(packed)
        return self._converted.token_states(packed)

    def encode(
        self, inputs: Iterable[Any], *, batch_tokens: int | None = None, precision: str = "fp32"
    ) -> Float[np.ndarray, "documents dim"]:
        """Embed texts or token id lists, as `encoder.Student.encode` does, and also in int8.

        Precision "int8", for CPUs only, has 8 bits for the weights of linear layers and for their
        inputs, which are scaled token by token. It is fast on processors with AVX-512 VNNI; on
        others it is equally accurate, but no faster than float32. "int8" and "bf16" convert a copy
        of the layers in every call.
        """
        if precision not in ("fp32", "bf16", "int8"):
            raise ValueError(f'precision must be "fp32", "bf16" or "int8", got {precision!r}')
        on_cpu = next(self.parameters()).device.type == "cpu"
        if precision == "int8" and not on_cpu:
            raise ValueError('precision "int8" is for CPUs only; use "bf16"')
        if not (precision == "int8" or (precision == "bf16" and on_cpu and low_precision.BFLOAT16)):
            return super().encode(inputs, batch_tokens=batch_tokens, precision=precision)
        with evaluation_mode(self):  # for the copy too, which shares the layers
            student = copy.copy(self)  # because another thread may train this one
            student._converted = low_precision.LowPrecision(self, precision)
            return encoder.Student.encode(student, inputs, batch_tokens=batch_tokens)

    def save(self, folder: str | Path) -> None:
        """Write a standard Hugging Face Longformer: see `lib.student.export.save_longformer`."""
        from lib.student import export

        export.save_longformer(self, folder)

    def export(self, folder: str | Path, card: Mapping[str, Any] | None = None) -> None:
        """Write a SentenceTransformer: see `lib.student.export.save_sentence_transformer`."""
        from lib.student import export

        export.save_sentence_transformer(self, folder, card)
