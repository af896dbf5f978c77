"""Train one student and keep it: `python -m lib.train cosine --profile lab --out students/cosine`.

Under `accelerate launch -m lib.train ...` or `torchrun -m lib.train ...` the batches spread over all processes.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lib.config import profiles
from lib.distillation import variants


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lib.train", description="Train one student and save it.")
    parser.add_argument("model", help="a student's label, for example cosine, or max-margin;MSE;γ=1.0")
    parser.add_argument("--profile", default="mini")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="changes to the profile")
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained student")
    parser.add_argument("--export", action="store_true", help="write a stock SentenceTransformer")
    given = parser.parse_args(arguments)
    try:
        variant = variants.parse(given.model)
        if variant.kind != "student" or variant.pooling != "mean":
            raise ValueError(f"{given.model!r} is no student that can be saved; expected a loss such as cosine")
        profile = profiles.load(given.profile, overrides=given.set)
    except ValueError as error:
        parser.error(str(error))
    from lib.experiments.student_training import train_student  # imports torch

    student, _, history = train_student(variant, given.seed, profile)
    if int(os.environ.get("RANK", 0)) == 0:
        (student.export if given.export else student.save)(given.out)
        print(f"{variant.identity}: {len(history.loss)} updates, loss {history.loss[0]:.4f} -> {history.loss[-1]:.4f}")
        print(f"saved to {given.out}")


if __name__ == "__main__":
    main()
