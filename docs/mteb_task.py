"""Score an export by MTEB on a classification of a dataset folder, offline: see docs/export.md."""

import sys
from pathlib import Path

try:
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.classification import AbsTaskClassification
    from mteb.abstasks.task_metadata import TaskMetadata
    from sentence_transformers import SentenceTransformer

    from lib.config.loading import one_line_errors
    from lib.data import task_files
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}; needs: pip install -e '.[mteb]'") from None


def task(folder: Path) -> AbsTaskClassification:
    """The task in `<dataset folder>/tasks/<task>/` and its documents, as MTEB reads one.

    `ValueError`, in one line, for what is wrong with it, and unless it is a classification of
    single documents with a test.
    """
    if task_files.kind(folder) != "classification" or not (folder / "test.jsonl").is_file():
        raise ValueError(f"{folder}: expected a classification, with train.jsonl and test.jsonl")
    # With folds no validation examples are taken from train.
    folds = None if (folder / "validation.jsonl").is_file() else 5
    data = task_files.read_task(folder, folds=folds)
    if any(len(ids) > 1 for ids in data.inputs["train"]):
        raise ValueError(f"{folder}: expected labels of single documents, it has pairs")

    class FolderClassification(AbsTaskClassification):
        metadata = TaskMetadata(
            name=f"{folder.parents[1].name}-{folder.name}",
            description="A classification of a dataset folder.",
            type="Classification",
            main_score="accuracy",
            eval_langs=["eng-Latn"],
            eval_splits=["test"],
            dataset={"path": folder.name, "revision": "local"},
        )

        def load_data(self, **_) -> None:  # instead of the hub's
            self.dataset = DatasetDict()
            for split in ("train", "test"):
                texts = [data.texts[text_id] for (text_id,) in data.inputs[split]]
                columns = {"text": texts, "label": data.labels[split].tolist()}
                self.dataset[split] = Dataset.from_dict(columns)
            self.data_loaded = True

    return FolderClassification()


def score(export: Path, folder: Path) -> str:
    """MTEB's table of scores."""
    found = task(folder.resolve())
    if not export.is_dir():  # sentence-transformers would look for it on the hub
        raise ValueError(f"{export}: no such folder")
    with one_line_errors(f"load {export}"):
        model = SentenceTransformer(str(export), device="cpu", trust_remote_code=False)
    result = mteb.evaluate(model, found, cache=None)
    return result.to_dataframe().to_string(index=False)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python docs/mteb_task.py <export> <dataset folder>/tasks/<task>")
    try:
        print(score(*map(Path, sys.argv[1:])))
    except (ValueError, OSError) as error:
        raise SystemExit(f"mteb_task.py: {error}") from None
