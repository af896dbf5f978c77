"""Score an export by MTEB on a classification of a dataset folder, offline: see docs/export.md."""

import json
import sys
from pathlib import Path

try:
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.classification import AbsTaskClassification
    from mteb.abstasks.task_metadata import TaskMetadata
    from sentence_transformers import SentenceTransformer
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}; needs: pip install -e '.[mteb]'") from None


def task(folder: Path) -> AbsTaskClassification:
    """The task in `<dataset folder>/tasks/<task>/` and its documents, as MTEB reads one."""

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
            texts = {row["id"]: row["text"] for row in read(folder.parents[1] / "documents.jsonl")}
            labels = sorted({row["label"] for row in read(folder / "train.jsonl")})
            self.dataset = DatasetDict()
            for split in ("train", "test"):
                examples = read(folder / f"{split}.jsonl")
                columns = [
                    {"text": texts[row["id"]], "label": labels.index(row["label"])}
                    for row in examples
                ]
                self.dataset[split] = Dataset.from_list(columns)
            self.data_loaded = True

    return FolderClassification()


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    model = SentenceTransformer(sys.argv[1], device="cpu")
    result = mteb.evaluate(model, task(Path(sys.argv[2]).resolve()), cache=None)
    print(result.to_dataframe().to_string(index=False))
