"""A student for embedding texts, which also encodes in int8, and in bfloat16 without autocast.

Students are trained and judged with `lib.student.encoder`, and stored results are named by its
code. Faster encoding is a module of its own, so that changes here make no stored result stale.
"""

import copy
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
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

    _converted: LowPrecision | None = None  # computes token states instead of the student's layers

    def token_states(self, packed: Packed) -> Float[Tensor, "tokens dim"]:
        """States (tokens, dim) of the last layer."""
        if self._converted is None:
            return super().token_states(packed)
        return self._converted.token_states(packed)

    def encode(
        self, inputs: Iterable[Any], *, batch_tokens: int | None = None, precision: str = "fp32"
    ) -> Float[np.ndarray, "documents dim"]:
        """Embed texts or token id lists.

        Several threads may encode with one student. Until they are done, the student is in
        evaluation mode, even for a thread that trains it.

        Parameters
        ----------
        inputs : iterable
            Texts (cut to `max_positions`) or token id lists (never cut), read once.
        batch_tokens : int, optional
            Number of tokens computed at once, by default 4,096, or 16,384 on a GPU. Documents are
            grouped by length. On a CPU, a document's embedding has the same bits alone and in any
            batch.
        precision : {"fp32", "bf16", "int8"}
            "bf16" is bfloat16. "int8", for CPUs only, has 8 bits for the weights of linear layers
            and for their inputs, which are scaled token by token. It is fast on processors with
            AVX-512 VNNI; on others it is equally accurate, but no faster than float32. For both,
            the first call makes a converted copy of the layers, which is kept until the weights
            change.

        Returns
        -------
        float32 array (documents, dim)

        Raises
        ------
        ValueError
            For inputs that are neither texts nor token ids, an unknown precision, "int8" on a GPU,
            and embeddings that are not finite.
        """
        if precision not in ("fp32", "bf16", "int8"):
            raise ValueError(f'precision must be "fp32", "bf16" or "int8", got {precision!r}')
        device = next(self.parameters()).device.type
        if precision == "int8" and device != "cpu":
            raise ValueError(f'precision "int8" is for CPUs only; on {device}, use "bf16"')
        if precision == "fp32" or device != "cpu":
            return super().encode(inputs, batch_tokens=batch_tokens, precision=precision)
        if precision == "bf16" and not low_precision.BFLOAT16:
            return super().encode(inputs, batch_tokens=batch_tokens, precision=precision)
        with evaluation_mode(self):  # for the copy too, which shares the layers
            student = copy.copy(self)  # because other threads may encode in another precision
            student._converted = _convert(self, precision)
            return encoder.Student.encode(student, inputs, batch_tokens=batch_tokens)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        card: Mapping[str, Any] | None = None,
        private: bool | None = None,
        token: str | None = None,
        **options: Any,
    ) -> str:
        """Export the student and upload the folder to the Hugging Face hub.

        `SentenceTransformer(repo_id)` then loads it.

        Parameters
        ----------
        repo_id : str
            `owner/name`. The repository is created if it does not exist.
        card : mapping, optional
            What the model card says: see `lib.student.export.save_sentence_transformer`.
        private : bool, optional
            Whether a new repository is private; by default, the owner's setting decides.
        token : str, optional
            By default the one that `hf auth login` has stored.
        **options
            Arguments of `huggingface_hub.HfApi.upload_folder`, such as `commit_message`.

        Returns
        -------
        The address of the commit.

        Raises
        ------
        ValueError
            As in `export`. Then nothing is uploaded.
        """
        from huggingface_hub import HfApi

        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / Path(repo_id).name  # the card's title, unless `card` has one
            self.export(folder, card)
            api = HfApi(token=token)
            api.create_repo(repo_id, private=private, exist_ok=True)
            return api.upload_folder(repo_id=repo_id, folder_path=folder, **options)


# Kept outside the students, because converted weights can be neither copied nor pickled.
_KEPT: WeakKeyDictionary[Student, dict[str, tuple[list, LowPrecision]]] = WeakKeyDictionary()


def _convert(student: Student, precision: str) -> LowPrecision:
    """Convert the student's layers, or return the kept ones if the weights have not changed."""
    weights = [(weight.data_ptr(), weight._version) for weight in student.parameters()]
    kept = _KEPT.setdefault(student, {})
    if precision not in kept or kept[precision][0] != weights:
        kept[precision] = weights, LowPrecision(student, precision)
    return kept[precision][1]
