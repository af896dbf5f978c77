"""Do the verdicts survive bfloat16? Students of the same profile, seeds and data, trained and run in both precisions.

    ./run_all.sh mini fig4_2 fig4_3
    ./run_all.sh mini fig4_2 fig4_3 --set training.precision=fp32
    python tests/benchmarks/precision.py fig4_2 fig4_3

Printed are the seconds of a student in both, how far bfloat16 moves an accuracy, beside what another seed does, and
every finding of these figures with both effects, intervals and verdicts. mini is in bfloat16 only where the processor
has it.
"""

from __future__ import annotations

import argparse

import pandas as pd

from lib.chapters import chapter4
from lib.config import profiles
from lib.ledger import claims
from lib.store import executors

KEYS = ["model", "seed", "task"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="+", metavar="figure")
    parser.add_argument("--profile", default="mini")
    options = parser.parse_args()
    scores, ledgers = {}, {}
    for precision in ("fp32", "bf16"):
        profile = profiles.load(options.profile, overrides={"training.precision": precision})
        with executors.nothing_computed():
            scores[precision] = {
                figure: chapter4.records(figure, profile=profile) for figure in options.figures
            }
        ledgers[precision] = claims.check(scores[precision]).set_index("id")
    frames = {name: pd.concat(by.values()).drop_duplicates(KEYS) for name, by in scores.items()}
    both = (
        frames["fp32"]
        .query("kind == 'student'")
        .merge(frames["bf16"], on=KEYS, suffixes=("", "_bf16"))
    )
    seconds = both.drop_duplicates(["model", "seed"])[["seconds", "seconds_bf16"]].median()
    print(
        "a student, trained and embedded: {:.1f} seconds in fp32, {:.1f} in bf16".format(*seconds)
    )
    change = both["value_bf16"] - both["value"]
    seeds = both.groupby(["model", "task"])["value"].std().pow(2).mean() ** 0.5
    print(
        f"{len(change)} accuracies: bf16 less fp32 {change.mean():+.4f} in the mean, sd {change.std():.4f};"
    )
    print(f"sd of seeds {seeds:.4f}, so of the difference of two seeds {2**0.5 * seeds:.4f}")
    columns = ["effect", "low", "high", "verdict"]
    table = ledgers["fp32"][columns].join(ledgers["bf16"][columns], suffixes=("", " bf16"))
    table = table[ledgers["fp32"]["label"].isin(options.figures)]
    print(table.round(4).to_string())
    print(
        f"{(table['verdict'] == table['verdict bf16']).sum()} of {len(table)} verdicts are the same"
    )


if __name__ == "__main__":
    main()
