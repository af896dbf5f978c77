"""A student to embed texts with: also in int8, and in bfloat16 without the casts of training.

What students are trained and judged with is `lib.student.encoder`, whose code names all that is
stored of them. This is apart from it, so that faster encoding makes nothing anew.
"""

import copy
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float
from torch import Tensor

from lib.student import encoder, low_precision
from lib.student.low_precision import LowPrecision
from lib.student.packing import Packed, evaluation_mode


class Student(encoder.Student):
    __doc__ = encoder.Student.__doc__

    _converted: LowPrecision | None = None  # computes the states in place of the layers

    def token_states(self, packed: Packed) -> Float[Tensor, "tokens dim"]:
        """States (tokens, dim) of the last layer."""
        if self._converted is None:
            return super().token_states(packed)
        return self._converted.token_states(packed)

    def encode(
        self, inputs: Iterable[Any], *, batch_tokens: int | None = None, precision: str = "fp32"
    ) -> Float[np.ndarray, "documents dim"]:
        """Embed texts or token id lists.

        Several threads may encode with one student. Until they are done it is in evaluation mode,
        also for a thread that trains it.

        Parameters
        ----------
        inputs : iterable
            Texts (cut to `max_positions`) or token id lists (never cut), read once.
        batch_tokens : int, optional
            Tokens that are computed at once, by default 4,096, or 16,384 on a GPU; documents are
            grouped by length. On a CPU a document has the same bits alone and in any batch.
        precision : {"fp32", "bf16", "int8"}
            "bf16" is bfloat16. "int8", on a CPU, has 8 bits for the weights of linear layers and,
            token by token, for what these read; it is fast with AVX-512 VNNI, and without it as
            close to float32, but no faster. Weights are converted at the first call and kept, a
            second copy of the layers, until they change.

        Returns
        -------
        float32 array (documents, dim)

        Raises
        ------
        ValueError
            For what is neither texts nor ids, and for embeddings that are not finite.
        """
        if precision not in ("fp32", "bf16", "int8"):
            raise ValueError(f'precision must be "fp32", "bf16" or "int8", got {precision!r}')
        device = next(self.parameters()).device.type
        if precision == "int8" and device != "cpu":
            raise ValueError(f'precision "int8" is for a CPU; on {device} use "bf16"')
        if precision == "fp32" or device != "cpu":
            return super().encode(inputs, batch_tokens=batch_tokens, precision=precision)
        if precision == "bf16" and not low_precision.BFLOAT16:
            return super().encode(inputs, batch_tokens=batch_tokens, precision=precision)
        with evaluation_mode(self):  # of this student, whose layers the copy shares
            student = copy.copy(self)  # other threads may encode in another precision
            student._converted = _convert(self, precision)
            return encoder.Student.encode(student, inputs, batch_tokens=batch_tokens)


# By student, and not in it: converted weights can be neither copied nor pickled.
_KEPT: WeakKeyDictionary[Student, dict[str, tuple[list, LowPrecision]]] = WeakKeyDictionary()


def _convert(student: Student, precision: str) -> LowPrecision:
    """The student's layers in this precision, from before if its weights are those of before."""
    weights = [(weight.data_ptr(), weight._version) for weight in student.parameters()]
    kept = _KEPT.setdefault(student, {})
    if precision not in kept or kept[precision][0] != weights:
        kept[precision] = weights, LowPrecision(student, precision)
    return kept[precision][1]
