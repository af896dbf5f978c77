"""Chapter 5: final students, which train longer, and what they are compared with, on test data."""

import math

import pandas as pd

from lib.chapters.chapter4 import assign_seeds, rename_models
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
    models = load_models().items()
    return tuple(name for name, identity in models if parse(identity).kind == "student")


def list_models(profile: Profile) -> dict[str, str]:
    """All models that a profile judges in Chapter 5: name -> identity."""
    return load_models() | {name: parse(name).identity for name in profile.final.baselines}


def prepare_bench(bench: Bench) -> Bench:
    """A bench with the training scheme of Table 5.2 and newly trained contextual teachers."""
    final = bench.profile.final
    scheme = final.model_dump(include={"documents", "learning_rate", "accumulation"})
    updates = bench.profile.changed("training", **scheme).training.updates
    warmup_share = min(final.warmup_updates / max(updates, 1), 0.5)  # training refuses 0 updates
    longer = bench.changed("training", **scheme, warmup_share=warmup_share)
    return longer.changed("contextual_teacher", seed=bench.profile.contextual_teacher.seed + 1)


def run_classifications(bench: Bench) -> pd.DataFrame:
    """Test accuracies of every model, by its name in Chapter 5, in every round (column round).

    In the round with all examples, base, students and the profile's further baselines also read
    only as far as the structural teacher; they are then called "<name>;cut".
    """
    profile, final = bench.profile, prepare_bench(bench)
    models, seeds = list_models(profile), _assign_seeds(profile)
    shortened = ("Longformer", *list_students(), *profile.final.baselines)
    cut = {f"{name};cut": f"{models[name]};cut" for name in shortened}
    seeds |= {f"{identity};cut": numbers for identity, numbers in seeds.items()}
    names = {identity: name for name, identity in (models | cut).items()}
    runs = [(models, name, limit) for name, limit in profile.final.rounds.items()]
    frames = [
        final.run(list(run.values()), seeds=seeds, split="test", limit=limit).assign(round=name)
        for run, name, limit in [*runs, (cut, "all", None)]
    ]
    return rename_models(pd.concat(frames, ignore_index=True), names)


def run_readouts(bench: Bench) -> pd.DataFrame:
    """`run_classifications` by every readout."""
    frames = [run_classifications(bench.with_readout(name)) for name in READOUTS]
    return pd.concat(frames, ignore_index=True)


def run_retrievals(bench: Bench, *, top: int | None) -> pd.DataFrame:
    """MAP and MRR of every model, by its name in Chapter 5; for `top` see `Bench.retrieve`."""
    names = {identity: name for name, identity in list_models(bench.profile).items()}
    seeds = _assign_seeds(bench.profile)
    records = prepare_bench(bench).retrieve(list(names), seeds=seeds, top=top)
    return rename_models(records.assign(round=""), names)


def measure_numbers(bench: Bench) -> dict[str, float]:
    """How many documents a final student reads for each one that the structural loss reads, too."""
    lengths = bench.teacher.lengths(prepare_bench(bench).documents)[:]
    unmasked = float((lengths <= bench.profile.training.max_structural_len).mean())
    return {"structural_updates_ratio": 1 / unmasked if unmasked else math.nan}


def _assign_seeds(profile: Profile) -> dict[str, list[int]]:
    """Identity -> seeds: final students and Paragraph Vectors also have the reference seeds."""
    return assign_seeds(profile, [load_models()[name] for name in (*list_students(), "DM", "PV")])
