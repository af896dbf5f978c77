"""Three ideas of the thesis' drafts, each beside the twin that the thesis kept (notebook 05, Figure A.1)."""

import pandas as pd

from lib import experiments
from lib.config.profiles import Profile
from lib.distillation.variants import NO_WEIGHTING
from lib.findings import chapter4
from lib.statistics import verdicts
from lib.statistics.effects import normalized_runs
from lib.statistics.intervals import from_runs

# Identity -> name in the figure. All else is equal, but for Deep CCA's batch, which has to be larger.
NAMES = {
    "cosine": "cosine, mean of tokens",
    "cosine;[CLS]": "cosine, [CLS]",
    NO_WEIGHTING["cosine"]: "cosine + 2048d, SoftCCA",
    f"{NO_WEIGHTING['cosine']};mse": "cosine + 2048d, MSE",
    f"{NO_WEIGHTING['cosine']};cca": "cosine + 2048d, CCA",
}
# What the draft tried -> its twin that the thesis kept.
TWINS = {
    "cosine, [CLS]": "cosine, mean of tokens",
    "cosine + 2048d, MSE": "cosine + 2048d, SoftCCA",
    "cosine + 2048d, CCA": "cosine + 2048d, SoftCCA",
}


def run(profile: Profile) -> pd.DataFrame:
    """Tidy records of the ablations and their twins under their names in the figure, each with the reference seeds."""
    return chapter4.renamed(experiments.run(NAMES, profile=profile, seeds=profile.reference_seeds), NAMES)


def twins(records: pd.DataFrame) -> pd.DataFrame:
    """Ablation against twin, compared over their seeds: `verdicts.compare` of mean normalised accuracies."""
    table = verdicts.compare(TWINS.items(), from_runs(normalized_runs(records)))
    return table.rename(columns={"left": "ablation", "right": "twin"})
