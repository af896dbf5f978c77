"""One training in several processes (torchrun): each embeds its own rows and computes the loss of all of them."""

from typing import Any

import torch
from accelerate.utils import gather, gather_object
from torch import Tensor, distributed


def gathered(rows: Tensor) -> Tensor:
    """The rows of all processes in the order of ranks, (all rows, dim); in one process the rows themselves.

    The loss that every process computes from them is the same, so each finds the gradient of its own rows without the
    others. It is multiplied by their number, as DistributedDataParallel divides by it. Numbers of rows may differ.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return rows
    counts = gather(torch.tensor([len(rows)], device=rows.device)).tolist()
    padded = torch.nn.functional.pad(rows.detach(), (0, 0, 0, max(counts) - len(rows)))
    everyone = [
        block[:count]
        for block, count in zip(gather(padded).split(max(counts)), counts, strict=True)
    ]
    own = rows.clone()
    own.register_hook(lambda gradient: gradient * len(counts))
    everyone[distributed.get_rank()] = own
    return torch.cat(everyone)


def agree(values: dict[str, Any]) -> None:
    """Raises ValueError, in every process, that names the first of these plain values in which the processes differ."""
    everyone = gather_object([values])
    for name in values:
        by_rank = [str(other[name]) for other in everyone]
        if len(set(by_rank)) > 1:
            raise ValueError(
                f"the processes of this training have different {name}: {', '.join(by_rank)}"
            )
