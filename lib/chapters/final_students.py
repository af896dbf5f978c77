"""Chapter 5: the final students, trained longer, and everything they are compared with, on test data."""

import pandas as pd

from lib import experiments, published
from lib.chapters import chapter4
from lib.config import roles
from lib.config.profiles import Profile, grid
from lib.distillation.variants import parse
from lib.experiments import structural_teacher
from lib.statistics.effects import best_means, normalized_runs
from lib.statistics.intervals import SeedNoise, seed_noise

MODELS = grid("beyond")["final"]  # by the names of Chapter 5
_NAMES = {identity: name for name, identity in MODELS.items()}
STUDENTS = tuple(name for name, identity in MODELS.items() if parse(identity).kind == "student")
PUBLISHED = published.CHAPTER_5
_PARTS = (
    *reversed(roles.ROUNDS),
    "retrieval",
)  # of Table 5.7; rounds of a profile's own come after them
_MEANS = ("mean", "norm_mean")
TOP = 1000  # what is ranked lower was ignored in the published retrieval scores


def final_profile(profile: Profile) -> Profile:
    """The profile with Table 5.2's training scheme and freshly trained contextual teachers."""
    final = profile.final
    updates = final.documents // (profile.training.batch_size * final.accumulation)
    if updates == 0:
        raise ValueError(
            f"final.documents={final.documents} are fewer than one update of final.accumulation batches"
        )
    scheme = final.model_dump(include={"documents", "learning_rate", "accumulation"})
    scheme["warmup_share"] = min(final.warmup_updates / updates, 0.5)
    return profile.changed("training", **scheme).changed(
        "contextual_teacher", seed=final.contextual_seed
    )


def classification(profile: Profile) -> pd.DataFrame:
    """Tidy test accuracies of every model in every round: as `experiments.run`, with Chapter 5's names and `round`."""
    given = {"profile": final_profile(profile), "seeds": seeds(profile), "split": "test"}
    rounds = profile.final.rounds.items()
    runs = [
        experiments.run(MODELS.values(), **given, limit=limit).assign(round=name)
        for name, limit in rounds
    ]
    return chapter4.renamed(pd.concat(runs, ignore_index=True), _NAMES)


def retrieval(profile: Profile, *, top: int | None) -> pd.DataFrame:
    """Tidy MAP and MRR of every model, over the whole ordering (`top=None`) or its first `top` texts."""
    records = experiments.retrieve(
        MODELS.values(), profile=final_profile(profile), seeds=seeds(profile), top=top
    )
    return chapter4.renamed(records.assign(round=""), _NAMES)


def score_table(accuracies: pd.DataFrame, retrieved: pd.DataFrame) -> pd.DataFrame:
    """Table 5.7, both parts in one ("retrieval" is MAP), with the summaries "mean" and "norm_mean" as tasks, the latter
    by the best of the published models. follows: whether a published summary follows from its row, to three digits."""
    ours = pd.concat(
        [accuracies, retrieved[retrieved["metric"] == "MAP"].assign(round="retrieval")]
    )
    ours = ours.groupby(["round", "model", "task"], sort=False)["value"].mean().reset_index()
    theirs = published.load("tab5_7").rename(columns={"value": "published"})
    cells = theirs[~theirs["task"].isin(_MEANS)]
    table = pd.concat([ours, _summaries(ours, "value")]).merge(
        theirs, on=["round", "model", "task"], how="outer"
    )
    table = table.merge(
        _summaries(cells, "published").rename(columns={"published": "recomputed"}), how="left"
    )
    off = (table["published"].astype(float) - table["recomputed"]).abs()
    # Half a unit of the third digit: in the summary, and in each cell and its task's best, which normalising scales up.
    best = cells.groupby(["round", "task"])["published"].max().astype(float)
    slack = table["round"].map(0.0005 + (0.001 / best).groupby("round").mean())
    table["follows"] = (
        off.le(slack).map({True: "yes", False: "no"}).where(table["recomputed"].notna(), "")
    )
    tasks = [*roles.ordered({*table["task"]} - {*_MEANS}, roles.TABLE_5_7), *_MEANS]
    orders = {"round": roles.ordered(table["round"], _PARTS), "model": list(MODELS), "task": tasks}
    return table.sort_values(
        [*orders], key=lambda column: column.map(orders[column.name].index), ignore_index=True
    )


def cut(profile: Profile) -> pd.DataFrame:
    """As `classification`, with all examples, of students and base that embed only what the structural teacher reads of
    a text; models are called "<name>;cut"."""
    names = {f"{MODELS[name]};cut": f"{name};cut" for name in ("Longformer", *STUDENTS)}
    own = {f"{identity};cut": own for identity, own in seeds(profile).items()}
    records = experiments.run(names, profile=final_profile(profile), seeds=own, split="test")
    return chapter4.renamed(records.assign(round="all"), names)


def numbers(profile: Profile) -> dict[str, float]:
    """Ours of the numbers in the ledger: how many documents the final students see for one that is not masked."""
    lengths = structural_teacher.embeddings("train", final_profile(profile))["lengths"]
    return {
        "structural_updates_ratio": 1
        / float((lengths <= profile.training.max_structural_len).mean())
    }


def band(accuracies: pd.DataFrame) -> SeedNoise:
    """The noise of mean accuracy over all rounds, normalised as in Figure 5.3, from the students' seeds."""
    runs = accuracies[accuracies["model"].isin(PUBLISHED)]
    students = runs["model"].isin(STUDENTS)
    runs = runs.assign(model=runs["model"] + ";" + runs["round"])
    return seed_noise(normalized_runs(runs[students], best=best_means(runs)))


def seeds(profile: Profile) -> dict[str, list[int]]:
    """Final students and Paragraph Vectors run with the reference seeds too."""
    return chapter4.seeds(profile, [MODELS[name] for name in (*STUDENTS, "DM", "PV")])


def _summaries(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    best = (
        scores[scores["model"].isin(PUBLISHED)]
        .groupby(["round", "task"])[column]
        .max()
        .rename("best")
    )
    joined = scores.join(best, on=["round", "task"])
    joined = joined.assign(mean=joined[column], norm_mean=joined[column] / joined["best"])
    means = joined.groupby(["round", "model"], sort=False)[[*_MEANS]].mean().reset_index()
    return means.melt(["round", "model"], var_name="task", value_name=column)
