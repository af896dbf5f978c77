"""How far a ranking of students hangs on the heads that judge them (Section 4.2)."""

import pandas as pd

from lib import experiments
from lib.config.profiles import Profile
from lib.findings import chapter4
from lib.statistics.effects import chance_corrected

_SHORT = {"epochs": 10, "learning_rate": 1e-4}  # Table 4.3
SETTINGS = {
    "published": _SHORT | {"features": "raw", "classifier": "head"},
    "unit norm": _SHORT | {"features": "unit norm", "classifier": "head"},
    "standardised": _SHORT | {"features": "standardized", "classifier": "head"},
    "converged": {"epochs": 40, "learning_rate": 1e-3, "features": "standardized", "classifier": "head"},
    "no head": {"classifier": "similarity"},  # nearest centroid, or a threshold for the cosine of a pair
}


def scores(label: str, profile: Profile) -> pd.DataFrame:
    """Mean chance-corrected accuracy of a figure's models, a row each, under every setting, a column each.

    One seed of each model; only heads are trained anew. The best model under "converged" comes first. "no label": MRR
    of the other half of a held-out document.
    """
    names = {identity: name for name, identity in chapter4.models(label, profile).items()}
    columns = {}
    for setting, changes in SETTINGS.items():
        own = profile.model_copy(update={"heads": profile.heads.model_copy(update=changes)})
        records = experiments.run(names, profile=own, seeds=profile.seeds[:1])
        columns[setting] = chance_corrected(records).groupby(records["model"].map(names)).mean()
    matched = {name: experiments.halves_mrr(model, profile.seeds[0], profile) for model, name in names.items()}
    columns["no label"] = pd.Series(matched)
    return pd.DataFrame(columns).sort_values("converged", ascending=False).rename_axis("model").reset_index()
