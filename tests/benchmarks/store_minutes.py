"""Core-minutes that a store's notes add up to, by kind of entry: what a run has cost, whatever else the cores did.
They are the processor's; until 24 November 2026 they were the clock's, on cores that had other work, too.

THESIS_ARTIFACTS=... python tests/benchmarks/store_minutes.py

Heads are noted for each model and task, everything else for each entry. Entries of other runs in one store count too.
"""

import collections
import json

from lib.store.records import store


def main() -> None:
    minutes: dict[str, float] = collections.Counter()
    for path in store().folder.glob("*/*.note"):
        minutes[path.parent.name] += (json.loads(path.read_text("utf-8")).get("seconds") or 0) / 60
    for kind, count in sorted(minutes.items(), key=lambda item: -item[1]):
        if count >= 0.5:
            print(f"{kind}: {count:.0f}")
    print(f"in all: {sum(minutes.values()):.0f} core-minutes")


if __name__ == "__main__":
    main()
