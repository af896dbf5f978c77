"""Does a student of the contextual loss alone learn from its teacher? It is trained twice, once with wrong rows.

    python tests/benchmarks/permuted_teacher.py "1024d;S:1024;C:1024" --folder /tmp/permuted

Students of Figure 4.7 in mini, one seed. In the second training the teacher's embeddings of the training documents are
dealt to other documents, so nothing can be learned but what all of them have in common. Printed for both: the mean loss
over the last quarter of the updates over that of the first, held-out CCA with the true teacher before and after, and
the mean chance-corrected accuracy. Each side has an artifact root of its own below the folder, as a wrong student must
not be found by a later run. Some five minutes of one core for a first student, two for another.
"""

from __future__ import annotations

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

import argparse  # noqa: E402
import multiprocessing  # noqa: E402
import os  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

from lib import experiments  # noqa: E402
from lib.config import profiles  # noqa: E402
from lib.experiments import contextual_teacher, embeddings  # noqa: E402
from lib.findings import chapter4  # noqa: E402
from lib.statistics.effects import chance_corrected  # noqa: E402

SIDES = ("own", "other documents'")
SEED = 7  # of the permutation


def dealt(label: str, name: str, profile: profiles.Profile) -> np.ndarray:
    """The teacher's embeddings, those of the documents that a student is trained on in another order."""
    rows = TRUE(label, name, profile)
    if name != "train":
        return rows
    order, seen = np.arange(len(rows)), profile.training.documents
    order[:seen] = np.random.default_rng(SEED).permutation(seen)
    return np.asarray(rows[order])


TRUE = contextual_teacher.embeddings


def train(model: str, side: str, folder: Path) -> None:
    """Train, embed and judge a student; print its row."""
    os.environ["THESIS_ARTIFACTS"] = str(folder / side.partition(" ")[0])
    contextual_teacher.embeddings = TRUE if side == "own" else dealt
    profile = profiles.load("mini")
    student = chapter4.students(chapter4.models("fig4_7", profile), contextual=True)[model]
    arrays = embeddings.of(student, profile.seeds[0], profile)  # here: a process of `run` would deal nothing
    records = experiments.run([student], profile=profile, seeds=profile.seeds[:1])
    first, *_, last = np.array_split(arrays["loss"], 4)
    before, after = arrays["watched"][[0, -1], 1]
    cells = f"{last.mean() / first.mean():.3f} | {before:.3f}, {after:.3f}"
    print(f"| {model} | {side} | {cells} | {chance_corrected(records).mean():.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names of Figure 4.7, such as 100d;S:768;C:768")
    parser.add_argument("--folder", type=Path, required=True, help="for two artifact roots, some 100 MB")
    given = parser.parse_args()
    print("| student | rows | loss left | CCA before, after | accuracy |\n|---|---|---|---|---|", flush=True)
    for model in given.models:
        for side in SIDES:  # in a process each: what one root holds is remembered
            process = multiprocessing.get_context("spawn").Process(target=train, args=(model, side, given.folder))
            process.start()
            process.join()


if __name__ == "__main__":
    main()
