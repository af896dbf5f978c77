"""The losses of the thesis. They return a value per row, and the caller averages.

Structural losses are of Section 4.4, contextual ones (`SoftCCA`, `cca`) of Section 4.5.2.
"""

from lib.losses.cca import SoftCCA, cca
from lib.losses.contrastive import contrastive
from lib.losses.cosine import cosine
from lib.losses.max_margin import max_margin
from lib.losses.mse import mse
from lib.losses.weighting import structural_mask, weighted

__all__ = ["SoftCCA", "cca", "contrastive", "cosine", "max_margin", "mse"]
__all__ += ["structural_mask", "weighted"]
