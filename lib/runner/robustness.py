"""Judge the decided findings again under other conditions, and save `tab_robust`.

`python -m lib.runner.robustness mini` judges them under each variation of params/grids/beyond.yaml,
and `... mini "other seeds"` under one. Each trains most students of Chapter 4 again.
"""

import argparse
import sys

from lib.config import environment, paths, profiles
from lib.config.profiles import ParameterError
from lib.runner.notebook import Notebook

LABEL = "tab_robust"


def main() -> None:
    """Make the table; ParameterError without a ledger, or for an unknown variation."""
    parser = argparse.ArgumentParser(prog="python -m lib.runner.robustness")
    parser.add_argument("profile", help="a profile that ./run_all.sh has run")
    parser.add_argument("variations", nargs="*", help="variations to judge; all by default")
    asked = parser.parse_args()
    profile = profiles.load(asked.profile)
    file = paths.figures(profile) / "tab_claims.csv"
    if not file.is_file():
        raise ParameterError(f"{file} is missing; first run ./run_all.sh {profile.name}")
    environment.set_process_environment(offline=profile.offline)  # before NumPy and torch load
    from lib.ledger import robustness
    from lib.pages import Tables, write_pages

    variations = robustness.load_variations(asked.variations)
    ledger = Tables(file.parent).read("tab_claims")
    findings, students = robustness.count_named(ledger)
    print(f"{findings} decided findings name {students} students of Chapter 4")
    table = robustness.tabulate_robustness(ledger, asked.profile, variations)
    Notebook("robustness", profile).save_table(table, LABEL)
    for name, part in table.groupby("variation", sort=False):
        print(f"{name}: {part['same'].eq('yes').mean():.0%} of {len(part)} answers are the same")
    write_pages(profile)


if __name__ == "__main__":
    try:
        main()
    except ParameterError as error:
        sys.exit(str(error))
