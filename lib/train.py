"""Train one student and keep it: `python -m lib.train cosine --profile lab --out students/cosine`.

Under `accelerate launch -m lib.train ...` or `torchrun -m lib.train ...` the batches spread over all processes. What
fails is one line and exit code 1 (a bad request: 2); the checkpoint stays till the student is saved: run it again."""

import argparse
import os
from pathlib import Path

from tqdm import tqdm

from lib.config import environment, profiles
from lib.distillation import variants
from lib.store.owned_folder import check_target

MAIN = os.environ.get("RANK", "0") == "0"  # of several processes the one that speaks and saves


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lib.train", description="Train one student and save it.")
    parser.add_argument("model", help="a student's label, for example cosine, or max-margin;MSE;γ=1.0")
    parser.add_argument("--profile", default="mini")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="changes to the profile")
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained student")
    parser.add_argument("--export", action="store_true", help="write a stock SentenceTransformer")
    given, code = parser.parse_args(arguments), 2
    try:
        variant = variants.parse(given.model)
        if variant.kind != "student" or variant.pooling != "mean":
            raise ValueError(f"{given.model!r} is no student that can be saved; expected a loss such as cosine")
        profile = profiles.load(given.profile, overrides=given.set, seeds=[given.seed])
        environment.set_process_environment(offline=profile.offline)
        out = check_target(given.out)  # now, not after hours of training
        if profile.build is None:
            from lib.tasks import classification_names  # imports NumPy

            classification_names(profile)  # looks for every folder
        code = 1
        return _train(variant, given.seed, profile, out, given.export)
    except KeyboardInterrupt as interruption:
        problem = f"interrupted{interruption}"
    except (ValueError, OSError, ArithmeticError, MemoryError, ImportError) as error:
        problem = str(error) or type(error).__name__
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        problem = f"out of memory, make training.batch_size smaller: {error}"
    parser.exit(code, " ".join(f"{parser.prog}: {problem}".split()) + "\n")


def _train(variant: variants.Variant, seed: int, profile: profiles.Profile, out: Path, export: bool) -> None:
    from lib.experiments import contextual_teacher, keys, structural_teacher, student_training
    from lib.store.records import store

    if MAIN:
        print("reading the corpus and the teachers' embeddings; those that are missing are made", flush=True)
    structural_teacher.embeddings("train", profile)
    if variant.contextual:
        contextual_teacher.embeddings(variant.contextual, "train", profile)
    try:
        with tqdm(desc="training", unit="update", disable=not MAIN, mininterval=1) as bar:

            def on_update(done: int, updates: int, loss: float) -> None:
                bar.total = updates
                bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
                bar.update(done - bar.n)

            student, _, history = student_training.train_student(variant, seed, profile, on_update=on_update)
    except KeyboardInterrupt:
        kept = store().path(keys.student(variant, seed, profile), student_training.CHECKPOINT).exists()
        raise KeyboardInterrupt("; the same command goes on from the last checkpoint" * kept) from None
    if MAIN:
        (student.export if export else student.save)(out)
        student_training.remove_checkpoint(variant, seed, profile)
        print(f"saved to {out}: {len(history.loss)} updates, loss {history.loss[0]:.4f} -> {history.loss[-1]:.4f}")


if __name__ == "__main__":
    main()
