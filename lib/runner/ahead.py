"""Train what later notebooks of a run will ask for, at the lowest priority, in the time that the one at work leaves.

A notebook starts, judges and draws on one core. `run_all` starts this process beside its notebooks, for the cores that
stand still meanwhile. Both keep models in one store, under its locks, so none is trained twice, and no number depends
on who came first.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

from lib.config import profiles
from lib.runner.run_notebook import adopt_orphans, end_children
from lib.store.executors import end_with


def main() -> None:
    """Run the job named on the command line: labels of notebooks in their order, for a profile."""
    adopt_orphans()
    job = json.loads(sys.argv[1])
    end_with(job["runner"], end_children)
    os.nice(19)
    with contextlib.suppress(OSError):  # Linux shares cores between sessions first, by a number of each session's own
        Path("/proc/self/autogroup").write_text("19", encoding="utf-8")
    from lib.experiments import runs
    from lib.findings import costs

    profile = profiles.load(**job["parameters"])
    for label in job["labels"]:
        for own, split, pairs in costs.asked([label], profile):
            seeds: dict[str, list[int]] = {}
            for variant, seed in sorted(pairs, key=str):
                seeds.setdefault(variant.identity, []).append(seed)
            limits = profile.final.rounds.values() if split == "test" else [None]
            for limit in limits if split else ():
                runs.run(seeds, profile=own, seeds=seeds, split=split, limit=limit)
            runs.embed(sorted(pairs, key=str), own, None, split)


if __name__ == "__main__":
    main()
