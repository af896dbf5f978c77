"""The student of the thesis drafts (Figure A.1): [CLS] with global attention, on Hugging Face."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lib.student.encoder import Student, is_bf16
from lib.student.folders import to_longformer


class ClsStudent(nn.Module):
    """A student whose embedding is the last hidden state of the first token.

    The first token attends to all tokens, and all attend to it. Global attention gets the weights
    that the checkpoint of `student` had for it, or else those of local attention.
    """

    def __init__(self, student: Student):
        super().__init__()
        self.longformer = to_longformer(student)
        self.longformer.pooler = None
        self.dim, self.gradient_checkpointing = student.dim, False

    def freeze_token_embeddings(self) -> None:
        """Exclude the token embeddings from training."""
        self.longformer.embeddings.word_embeddings.weight.requires_grad_(False)

    def forward(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """Embed token id lists, (documents, dim), one by one: padded, long ones would take GBs."""
        if self.gradient_checkpointing:
            self.longformer.activation_checkpointing_enable()
        embeddings = []
        for document in ids:
            row = torch.tensor([[*document]], device=self.longformer.device)
            first = torch.zeros_like(row)
            first[:, 0] = 1
            states = self.longformer(row, torch.ones_like(row), global_attention_mask=first)
            embeddings.append(states.last_hidden_state[:, 0])
        return torch.cat(embeddings)

    @torch.inference_mode()
    def encode(self, ids: Sequence[Sequence[int]], *, precision: str = "fp32") -> np.ndarray:
        """Embed token id lists, (documents, dim) float32; `precision` is "fp32" or "bf16"."""
        training = self.training
        with torch.autocast(self.longformer.device.type, torch.bfloat16, is_bf16(precision)):
            embeddings = self.eval()(ids)
        self.train(training)
        return embeddings.float().cpu().numpy()
