"""The losses of the thesis. Each takes embeddings and returns one value per row; the caller reduces.

One loss, one file. Distances and structural losses (thesis Section 4.4): `mse`, `cosine`, `max_margin`, `contrastive`.
Contextual losses (Section 4.5.2): `SoftCCA`, and `cca` for the drafts' ablation. `weighted` joins the two kinds
(Section 4.5.3).
"""

from lib.losses.cca import cca
from lib.losses.contrastive import contrastive
from lib.losses.cosine import cosine
from lib.losses.max_margin import max_margin
from lib.losses.mse import mse
from lib.losses.soft_cca import SoftCCA
from lib.losses.weighting import structural_mask, weighted

__all__ = ["SoftCCA", "cca", "contrastive", "cosine", "max_margin", "mse", "structural_mask", "weighted"]
