"""The student of the thesis drafts (Figure A.1): [CLS] with global attention, on Hugging Face."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LongformerModel

from lib.student.encoder import Student
from lib.student.packing import embed_batches
from lib.texts import list_items


class ClsStudent(nn.Module):
    """A student whose embedding is the last hidden state of the first token.

    The first token attends to all tokens, and all attend to it. Global attention gets the weights
    that the checkpoint of `student` had for it, or else those of local attention.
    """

    def __init__(self, student: Student):
        super().__init__()
        self.longformer = LongformerModel(student.config, add_pooling_layer=False)
        weights = student.checkpoint().tensors
        names = self.longformer.state_dict()
        self.longformer.load_state_dict({name: weights[name] for name in names})
        self.dim, self.padding = student.dim, student.padding
        self.gradient_checkpointing = False

    def freeze_token_embeddings(self) -> None:
        """Exclude the token embeddings from training."""
        self.longformer.embeddings.word_embeddings.weight.requires_grad_(False)

    def forward(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """Embed token id lists, (documents, dim), one by one: padded, long ones would take GBs."""
        if self.gradient_checkpointing:
            self.longformer.activation_checkpointing_enable()
        return torch.cat([self._padded([document]) for document in ids])

    def _padded(self, ids: Sequence[Sequence[int]]) -> Tensor:
        device = self.longformer.device
        rows = [torch.tensor(document, dtype=torch.long, device=device) for document in ids]
        pad = nn.utils.rnn.pad_sequence
        padded = pad(rows, batch_first=True, padding_value=self.padding)
        attended = pad([torch.ones_like(row) for row in rows], batch_first=True)
        first = torch.zeros_like(padded)
        first[:, 0] = 1
        out = self.longformer(padded, attention_mask=attended, global_attention_mask=first)
        return out.last_hidden_state[:, 0]

    def encode(
        self, ids: Sequence[Sequence[int]], *, batch_tokens: int = 4096, precision: str = "fp32"
    ) -> np.ndarray:
        """Embed token id lists in padded batches, (documents, dim) float32; see `Student`."""
        ids = list_items(ids)
        batches: list[list[int]] = []
        for row in sorted(range(len(ids)), key=lambda row: -len(ids[row])):
            if not batches or (len(batches[-1]) + 1) * len(ids[batches[-1][0]]) > batch_tokens:
                batches.append([])
            batches[-1].append(row)
        shape = (len(ids), self.dim)
        return embed_batches(
            self, lambda rows: self._padded([ids[row] for row in rows]), batches, shape, precision
        )
