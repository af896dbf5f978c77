"""A ledger with every finding, whose verdicts are what a test says."""

import pandas as pd

from lib.ledger import claims
from lib.ledger.kinds import Number, load_claims
from lib.statistics import verdicts


def make_ledger(**columns) -> pd.DataFrame:
    """The ledger of a run in which every finding holds; `columns` are for all but the numbers."""
    told = {"id", "section", "finding", "quote", "read_off"}
    found = load_claims()
    ledger = pd.DataFrame([claim.model_dump(include=told) for claim in found])
    ledger = ledger.reindex(columns=claims.COLUMNS).astype(object)
    ledger = ledger.where(ledger.notna(), None)
    ledger["label"] = [claim.figure for claim in found]
    number = pd.Series([isinstance(claim, Number) for claim in found])
    values = {"survives": verdicts.HOLDS, "survives_q": 0.02, "note": ""}
    for place, prefix in enumerate(("published_", *claims.PREFIXES.values())):
        effect = 0.04 + 0.01 * place
        values |= {f"{prefix}effect": effect, f"{prefix}low": 0.02, f"{prefix}high": effect + 0.03}
        values |= {f"{prefix}p": 0.01, f"{prefix}q": 0.02, f"{prefix}verdict": verdicts.HOLDS}
        values |= {f"{prefix}arithmetic": f".5000 - .4500 = {effect}", f"{prefix}holding": "2 of 3"}
        values |= {f"{prefix}decided_by": "a against b"}
        ledger[f"{prefix}verdict"] = verdicts.NUMBER
        ledger[f"{prefix}effect"] = 2.5
    ledger["survives"] = verdicts.NUMBER
    for name, value in (values | columns).items():
        ledger.loc[~number, name] = value
    return ledger.assign(profile="mini", rules=verdicts.RULES).infer_objects()
