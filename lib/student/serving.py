"""A student to embed texts with: also in int8, and in bfloat16 without the casts of training.

What students are trained and judged with is `lib.student.encoder`, whose code names all that is
stored of them. This is apart from it, so that faster encoding makes nothing anew.
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
            `owner/name`. The repository is made if it is not there.
        card : mapping, optional
            What the model card says: see `lib.student.export.save_sentence_transformer`.
        private : bool, optional
            Of a new repository. By default the owner's setting counts.
        token : str, optional
            By default the one that `hf auth login` has stored.
        **options
            What `huggingface_hub.HfApi.upload_folder` takes, such as `commit_message`.

        Returns
        -------
        Address of the commit.

        Raises
        ------
        ValueError
            As `export`. Then nothing is uploaded.
        """
        from huggingface_hub import HfApi

        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / Path(repo_id).name  # which titles the card, unless `card` does
            self.export(folder, card)
            api = HfApi(token=token)
            api.create_repo(repo_id, private=private, exist_ok=True)
            return api.upload_folder(repo_id=repo_id, folder_path=folder, **options)


# By student, and not in it: converted weights can be neither copied nor pickled.
_KEPT: WeakKeyDictionary[Student, dict[str, tuple[list, LowPrecision]]] = WeakKeyDictionary()


def _convert(student: Student, precision: str) -> LowPrecision:
    """The student's layers in this precision, from before if its weights are those of before."""
    weights = [(weight.data_ptr(), weight._version) for weight in student.parameters()]
    kept = _KEPT.setdefault(student, {})
    if precision not in kept or kept[precision][0] != weights:
        kept[precision] = weights, LowPrecision(student, precision)
    return kept[precision][1]
