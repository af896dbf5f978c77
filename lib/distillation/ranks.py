"""Training in several processes: each embeds its rows and computes the loss of all rows."""

from typing import Any

import torch
from accelerate.utils import gather, gather_object
from torch import Tensor, distributed


def gathered(rows: Tensor) -> Tensor:
    """Join the rows of all processes in the order of ranks, (all rows, dim).

    Processes may have different numbers of rows. They all compute the loss of the joined rows, and
    each the gradient of its own rows, times the number of processes, because
    DistributedDataParallel divides by it.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return rows
    counts = gather(torch.tensor([len(rows)], device=rows.device)).tolist()
    longest = max(counts)
    padded = torch.nn.functional.pad(rows.detach(), (0, 0, 0, longest - len(rows)))
    blocks = gather(padded).split(longest)
    everyone = [block[:count] for block, count in zip(blocks, counts, strict=True)]
    own = rows.clone()
    own.register_hook(lambda gradient: gradient * len(counts))
    everyone[distributed.get_rank()] = own
    return torch.cat(everyone)


def agree(values: dict[str, Any]) -> None:
    """Raise ValueError in every process if a value differs; the message names the first one."""
    everyone = gather_object([values])
    for name in values:
        by_rank = [str(other[name]) for other in everyone]
        if len(set(by_rank)) > 1:
            raise ValueError(f"the processes have different {name}: {', '.join(by_rank)}")
