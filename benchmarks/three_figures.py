"""Compute the tables of Figures 4.2, 4.12 and 5.3 alone, to compare two builds by `two_runs.py`.

python benchmarks/three_figures.py /tmp/before mini    in the checkout of one build
python benchmarks/three_figures.py /tmp/now mini       in that of the other
python benchmarks/two_runs.py /tmp/before /tmp/now
"""

import sys
from pathlib import Path

from lib.config import environment

environment.set_process_environment(offline=True)  # before NumPy is imported

from lib import figures, published  # noqa: E402
from lib.chapters import chapter4, final_students  # noqa: E402
from lib.experiments.bench import Bench  # noqa: E402


def main(folder: str, profile: str = "mini") -> None:
    bench, tables = Bench.load(profile), {}
    for label in ("fig4_2", "fig4_12"):
        records = chapter4.run_figures([label], bench)
        tables[label] = chapter4.select_records(records, label, bench.profile)
    records = final_students.run_classifications(bench)
    records = records[records["model"].isin(published.CHAPTER_5)]
    tables["fig5_3"] = records.assign(model=records["model"] + ";" + records["round"])
    Path(folder).mkdir(parents=True, exist_ok=True)
    for label, records in tables.items():
        table = figures.boxplot_frame(label, records)
        table.to_csv(Path(folder) / f"{label}.csv", index=False, float_format="%.6f")


if __name__ == "__main__":
    main(*sys.argv[1:])
