"""What Section 4.5 reports besides accuracies: correlation with the contextual teacher."""

from collections.abc import Mapping

import pandas as pd

from lib.chapters import chapter4
from lib.distillation.measures import chance_cca
from lib.experiments.bench import Bench


def collect_histories(groups: Mapping[str, Mapping[str, str]], bench: Bench) -> pd.DataFrame:
    """Figures A.2 and A.6: how students with a contextual loss change while they train.

    `groups` are names of groups -> models, name -> identity; other models are left out. There is a
    row for each measurement of a student with the profile's first seed. Columns: group, model,
    dimension, update, embedding and projected (held-out CCA of the student's embedding and of its
    projection with the teacher), chance (held-out CCA of documents paired at random), and share (of
    the contextual loss in the gradient, `lib.distillation.measures`).
    """
    students = {
        (group, name): bench.model(variant, bench.profile.seeds[0])
        for group, models in groups.items()
        for name, variant in chapter4.select_students(models, contextual=True).items()
    }
    bench.embed(students.values(), bench.held_out)
    columns, frames = ["update", "embedding", "projected", "share"], []
    for (group, name), student in students.items():
        frame = pd.DataFrame(student.history()["watched"], columns=columns)
        rows = student.embed(bench.held_out)[:], student.prepare_rows(bench.held_out)[:]
        facts = {"group": group, "model": name, "dimension": name.partition("d;")[0]}
        frames.append(frame.assign(**facts, chance=chance_cca(*rows)))
    order = ["group", "model", "dimension", *columns[:3], "chance", "share"]
    return pd.concat(frames, ignore_index=True)[order].astype({"update": int})
