"""Does a student of the contextual loss alone learn from its teacher? It is trained twice, once with wrong rows.

    python tests/benchmarks/permuted_teacher.py "1024d;S:1024;C:1024" --set training.contextual_features=raw

Students of Figure 4.7 in mini, one seed. In the second training the teacher's embeddings of the training documents are
dealt to other documents, so nothing can be learned but what all of them have in common. Printed for both: the mean loss
over the last quarter of the updates over that of the first, held-out CCA with the true teacher before and after, and
the mean chance-corrected accuracy. Students that the store holds are not trained again. Some five minutes of one core
for a first student, two for another.
"""

from __future__ import annotations

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

import argparse  # noqa: E402

import numpy as np  # noqa: E402

from lib import experiments  # noqa: E402
from lib.chapters import chapter4  # noqa: E402
from lib.config import profiles  # noqa: E402
from lib.experiments import embeddings  # noqa: E402
from lib.statistics.effects import chance_corrected  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="names of Figure 4.7, such as 100d;S:768;C:768")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="change the profile"
    )
    given = parser.parse_args()
    profile = profiles.load("mini", overrides=given.set)
    print(
        "| student | rows | loss left | CCA before, after | accuracy |\n|---|---|---|---|---|",
        flush=True,
    )
    students = chapter4.students(chapter4.models("fig4_7", profile), contextual=True)
    for model in given.models:
        student, seeds = students[model], profile.seeds[:1]
        for rows in ("own", "dealt"):
            own = profile.changed("training", contextual_rows=rows)
            records = experiments.run([student], profile=own, seeds=seeds)
            arrays = embeddings.of(student, seeds[0], own)
            first, *_, last = np.array_split(arrays["loss"], 4)
            before, after = arrays["watched"][[0, -1], 1]
            cells = f"{last.mean() / first.mean():.3f} | {before:.3f}, {after:.3f}"
            print(
                f"| {model} | {rows} | {cells} | {chance_corrected(records).mean():.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
