"""Train one student and keep it: `python -m lib.train MSE --data my_texts --out students/mine --export`.

With `--data` sizes follow from what is there, and a table tells how good the student is. With `--profile`, under
`torchrun --nproc_per_node 2 -m lib.train ...`, the batches spread over all processes (docs/scale.md). What fails
is one line and exit code 1 (a bad request: 2); the checkpoint stays till the student is saved: run it again."""

import argparse
import json
import os
import re
import shutil
from pathlib import Path

try:
    from tqdm import tqdm

    from lib.config import environment, paths, profiles
    from lib.distillation import variants
    from lib.store import provenance
    from lib.store.owned_folder import check_target
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"{missing}: run ./run_all.sh --setup once, then . .venv/bin/activate"
    ) from None

MAIN = os.environ.get("RANK", "0") == "0"  # of several processes the one that speaks and saves


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lib.train", description="Train one student and save it."
    )
    parser.add_argument(
        "model", help="cosine, max-margin;MSE;γ=1.0, of two teachers cosine;100d;S:768x100;C:-"
    )
    parser.add_argument(
        "--data", type=Path, help="a dataset folder or a folder of them, which decides all sizes"
    )
    parser.add_argument(
        "--task",
        nargs="*",
        metavar="folder/task",
        help="tasks of --data to judge by; all by default",
    )
    parser.add_argument("--profile", help="mini by default; with --data, lab")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="key=value", help="changes to the profile"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained student")
    parser.add_argument("--export", action="store_true", help="write a stock SentenceTransformer")
    given, code = parser.parse_args(arguments), 2
    try:
        try:
            variant = variants.parse(given.model)
        except ValueError:
            raise profiles.unknown("model", given.model, variants.STRUCTURAL_LOSSES) from None
        if variant.kind != "student" or variant.pooling != "mean":
            raise ValueError(
                f"{given.model!r} is no student that can be saved; expected a loss such as cosine"
            )
        out, root = check_target(given.out), paths.artifacts()  # now, not after hours of training
        if out in (root, *root.parents) or {root / "store", root / "data"} & {out, *out.parents}:
            raise ValueError(f"{out} is where the store and data are kept; choose another folder")
        environment.set_process_environment(offline=False)  # before NumPy is imported
        own = _own(given, out) if given.data else []
        name = given.profile or ("lab" if given.data else "mini")
        profile = profiles.load(name, overrides=own + given.set, seeds=[given.seed])
        environment.set_process_environment(offline=profile.offline)
        if profile.build is None:
            from lib.tasks import classification_names  # imports NumPy

            classification_names(profile)  # looks for every folder
        code = 1
        return _train(variant, given.seed, profile, out, given.export, bool(own))
    except KeyboardInterrupt:
        code, problem = (
            1,
            "interrupted; the same command goes on from what is kept, a training from its checkpoint",
        )
    except (ValueError, OSError, ArithmeticError, MemoryError, ImportError) as error:
        problem = str(error) or type(error).__name__
        problem += "; THESIS_ARTIFACTS names another folder to keep things in" * (
            str(paths.artifacts()) in problem
        )
    except RuntimeError as error:
        if not re.search("memory|gloo|nccl|connection|socket|clients", str(error), re.IGNORECASE):
            raise
        problem = (
            f"a process of this training has ended or never came; the same command goes on: {error}"
        )
        if "memory" in str(error):
            problem = f"out of memory, set training.gradient_checkpointing=true or lower training.batch_size: {error}"
    parser.exit(code, " ".join(f"{parser.prog}: {problem}".split()) + "\n")


def _own(given: argparse.Namespace, out: Path) -> list[str]:
    """What `check.suggested` changes in the profile, and bfloat16 where there is; says so, and what the check notes."""
    from lib.data import check
    from lib.experiments import models
    from lib.store.files import check_room

    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError(
            "--data trains in one process; for several write a profile and name it with --profile"
        )
    changes, told, size = check.suggested(given.data.resolve(), given.task)
    for place in (paths.artifacts(), out.parent):
        check_room(place, size)
    os.environ.pop("THESIS_DATA", None)  # what is asked for here counts, whatever stood there
    changes["training.precision"] = "bf16" if models.has_bfloat16() else "fp32"
    notes = [
        line for line in check.findings(given.data.resolve(), given.task) if ": note: " in line
    ]
    print(*notes, f"suggested: {told}, {changes['training.precision']}", sep="\n", flush=True)
    return [f"{key}={json.dumps(value)}" for key, value in changes.items()]


def _train(
    variant: variants.Variant,
    seed: int,
    profile: profiles.Profile,
    out: Path,
    export: bool,
    own: bool,
) -> None:
    from transformers import AutoConfig

    from lib.experiments import (
        contextual_teacher,
        keys,
        models,
        structural_teacher,
        student_training,
        text_sets,
    )
    from lib.ledger import own_student
    from lib.store.records import store
    from lib.student import export as student_export
    from lib.tasks import read

    count = models.processes()  # refuses half a launcher before any work
    if MAIN:
        print(
            "reading the corpus and the teachers' embeddings; those that are missing are made",
            flush=True,
        )
        if count > 1:
            place = ":".join(map(os.environ.get, ("MASTER_ADDR", "MASTER_PORT")))
            print(
                f"then the training begins, as soon as all {count} processes are at {place}",
                flush=True,
            )
    checkpoint = store().path(keys.student(variant, seed, profile), student_training.CHECKPOINT)
    kept = checkpoint.with_name(
        f"{checkpoint.name}.kept"
    )  # while the student is judged, which removes the checkpoint
    if kept.exists() and not checkpoint.exists():  # it was killed then
        os.replace(kept, checkpoint)
    tokens = sum(map(len, text_sets.token_ids("train", profile)))
    lengths = structural_teacher.embeddings("train", profile)["lengths"]
    settings = profile.training
    batch_size = (
        settings.cca_batch_size if variant.contextual_loss == "cca" else settings.batch_size
    )
    rest = len(lengths) % (batch_size * settings.accumulation * count)
    if MAIN:
        limits = {
            "student": profile.student.max_positions,
            "teacher": profile.structural_teacher.max_tokens,
        }
        cut = [
            f"{(lengths > limit - 2).sum()} at the {name}'s {limit} tokens"
            for name, limit in limits.items()
        ]
        reasons = text_sets.corpus(profile).left_out.items()
        told = [
            f"{name}: {count} {reason}"
            for name, each in reasons
            for reason, count in each.items()
            if count
        ]
        told += [
            f"{name}: {note}"
            for name, task in read(profile).items()
            for note in task.notes
            if "left out" in note
        ]
        told += [f"{rest} that fill no batch"] * bool(rest)
        left_out = ", ".join(told) or "nothing"
        print(
            f"left out: {left_out}; of {len(lengths)} documents are cut {' and '.join(cut)}",
            flush=True,
        )
    if variant.contextual:
        contextual_teacher.embeddings(variant.contextual, "train", profile)
    with tqdm(
        desc="training",
        total=tokens,
        unit="token",
        unit_scale=True,
        disable=not MAIN,
        mininterval=1,
    ) as bar:

        def on_update(done: int, updates: int, loss: float) -> None:
            if not bar.n:  # a training that is resumed does not begin at 0
                bar.n = bar.initial = tokens * (done - 1) // updates
            bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
            bar.update(tokens * done // updates - bar.n)

        student, _, history = student_training.train_student(
            variant, seed, profile, on_update=on_update
        )
        bar.initial, bar.n = (
            bar.initial if bar.n else tokens,
            tokens,
        )  # where nothing was left to train, too
    if not MAIN:
        return
    card, failed = _card(variant, seed, profile, history.loss, own), None
    base = AutoConfig.from_pretrained(
        models.model_path(profile.student.model),
        revision=profile.student.revision,
        trust_remote_code=False,
    )
    card["data"]["texts read in training"] = len(lengths) - rest
    card["training"]["layers"] = (
        f"{student.config.num_hidden_layers} of the base's {base.num_hidden_layers}"
    )
    if own:
        print("trained; now judging it beside base, teacher and TF-IDF", flush=True)
        shutil.copyfile(checkpoint, kept)
        try:
            cells, sentences = own_student.told(
                *own_student.compare(student, variant, seed, profile)
            )
            print(cells.to_string(index=False), *sentences, sep="\n")
            card |= {"scores": cells.to_dict("records"), "verdict": sentences}
        except (
            Exception
        ) as error:  # the student is saved all the same; where a person interrupts it is not
            failed = error
        finally:
            if kept.exists():  # the same command, given twice at once, may have taken it
                os.replace(kept, checkpoint)
    student_export.save(student, out, sentence_transformer=export, card=card)
    student_training.remove_checkpoint(variant, seed, profile)
    print(
        f"saved to {out}: {len(history.loss)} updates, loss {history.loss[0]:.4f} -> {history.loss[-1]:.4f}"
    )
    if failed:
        raise failed


def _card(
    variant: variants.Variant, seed: int, profile: profiles.Profile, losses: list[float], own: bool
) -> dict:
    """What the model card of an export tells of a training, but for how good it is. own: shares are documents."""
    from lib.experiments import models

    told = "{:g} documents, those held out among them" if own else "share {:g} of the documents"
    shares = {folder.folder: told.format(folder.share) for folder in profile.corpus.folders}
    model, structural, settings = (
        Path(profile.student.model),
        profile.structural_teacher,
        profile.training,
    )
    teachers = [f"{Path(structural.model).name}, first {structural.max_tokens} tokens"] * bool(
        variant.structural
    )
    training = settings.model_dump(include={"batch_size", "learning_rate"}) | {
        "precision": models.precision(profile)
    }
    return {
        "title": f"{variant}, of documents from {', '.join(shares)}",
        "base_model": model.name
        if model.is_dir()
        else profile.student.model,  # not where a person's folders lie
        "teachers": teachers
        + [f"Paragraph Vector {variant.contextual}"] * bool(variant.contextual),
        "losses": variant.losses,
        "data": shares,
        "training": {
            "updates": len(losses),
            "loss": f"{losses[0]:.4f} -> {losses[-1]:.4f}",
            "seed": seed,
        }
        | training,
        "provenance": provenance.commit() | provenance.versions(),
    }


if __name__ == "__main__":
    main()
