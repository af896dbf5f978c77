"""Train what later notebooks of a run will ask for, at a low priority, in the time that the one at work leaves.

A notebook starts, judges and draws on one core. `run_all` starts this process beside its notebooks, for the cores that
stand still meanwhile. All keep models in one store, under its locks, so no student is trained twice, and no number
depends on who came first. A notebook may wait for a student that is being trained here: the priority is low, but not so
low that this would take for ever on a machine with other work.
"""

import contextlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

from lib.config import profiles
from lib.runner.run_notebook import adopt_orphans, end_children
from lib.store.executors import end_with

NICE = 10  # a tenth of what others of the same core get


def yield_to_others() -> None:
    """Let other processes go first, those of other sessions too, and be the one that ends if memory is short."""
    os.nice(NICE)
    for file, value in (
        ("autogroup", NICE),
        ("oom_score_adj", 1000),
    ):  # Linux; a session has a number of its own
        for _ in range(5):  # the kernel takes a few such numbers a second
            with contextlib.suppress(OSError):
                Path(f"/proc/self/{file}").write_text(f"{value}", encoding="utf-8")
                break
            time.sleep(0.2)


def main() -> None:
    """Run the job named on the command line: labels of notebooks in their order, for a profile."""
    adopt_orphans()
    job = json.loads(sys.argv[1])
    end_with(job["runner"], end_children)
    yield_to_others()
    from lib.ledger import costs

    profile = profiles.load(job["parameters"].pop("profile"), **job["parameters"])
    for label in job["labels"]:
        try:
            costs.train(label, profile)
        except Exception:  # its notebook will meet it and say so
            traceback.print_exc()


if __name__ == "__main__":
    main()
