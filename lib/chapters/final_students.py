"""Chapter 5: final students, which train longer, and what they are compared with, on test data."""

from typing import Any

import pandas as pd

from lib.chapters.chapter4 import assign_seeds, rename_models, select_students
from lib.config.profiles import grid
from lib.config.schema import Profile
from lib.distillation.variants import parse
from lib.evaluation.readouts import READOUTS
from lib.experiments.bench import Bench


def load_models() -> dict[str, str]:
    """Name in Chapter 5 -> identity."""
    return grid("beyond")["final"]


def list_students() -> tuple[str, ...]:
    """The names of the final students."""
    return tuple(select_students(load_models()))


def list_models(profile: Profile) -> dict[str, str]:
    """All models that a profile judges in Chapter 5: name -> identity."""
    return load_models() | {name: parse(name).identity for name in profile.final.baselines}


def prepare_bench(bench: Bench) -> Bench:
    """A bench with the training scheme of Table 5.2 and newly trained contextual teachers."""
    final = bench.profile.final
    scheme = final.model_dump(include={"documents", "learning_rate", "accumulation"})
    updates = bench.profile.changed("training", **scheme).training.count_updates(final.documents)
    warmup_share = final.warmup_updates / max(updates, 1)  # training refuses 0 updates
    longer = bench.changed("training", **scheme, warmup_share=warmup_share)
    return longer.changed("contextual_teacher", seed=bench.profile.contextual_teacher.seed + 1)


def run_readouts(bench: Bench) -> pd.DataFrame:
    """Test accuracies of all models, by name in Chapter 5, in every round and by every readout. In
    the round with all examples, base, students and the profile's further baselines also read only
    as far as the structural teacher; they are then called "<name>;cut".
    """
    profile, frames = bench.profile, []
    models, seeds = list_models(profile), _assign_seeds(profile)
    shortened = ("Longformer", *list_students(), *profile.final.baselines)
    cut = {f"{name};cut": f"{models[name]};cut" for name in shortened}
    seeds |= {f"{identity};cut": numbers for identity, numbers in seeds.items()}
    runs = [(models, *each) for each in profile.final.rounds.items()]
    for readout in READOUTS:
        final = prepare_bench(bench.with_readout(readout))
        for run, name, limit in [*runs, (cut, "all", None)]:
            records = final.run(run.values(), seeds=seeds, split="test", limit=limit)
            frames.append(records.assign(round=name))
    names = {identity: name for name, identity in (models | cut).items()}
    return rename_models(pd.concat(frames, ignore_index=True), names)


def run_retrievals(bench: Bench, **how: Any) -> pd.DataFrame:
    """MAP and MRR of every model, by its name in Chapter 5; `how` as for `Bench.retrieve`."""
    names = {identity: name for name, identity in list_models(bench.profile).items()}
    seeds = _assign_seeds(bench.profile)
    records = prepare_bench(bench).retrieve(list(names), seeds=seeds, **how)
    return rename_models(records.assign(round=""), names)


def _assign_seeds(profile: Profile) -> dict[str, list[int]]:
    """Identity -> seeds: final students and Paragraph Vectors also have the reference seeds."""
    return assign_seeds(profile, [load_models()[name] for name in (*list_students(), "DM", "PV")])
