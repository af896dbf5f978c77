"""Score an export by MTEB on a classification of a dataset folder, offline: see docs/export.md.

With `--meta owner/name` in place of a folder it prints what MTEB lists of a model.
"""

import sys
from pathlib import Path

try:
    import mteb
    from datasets import Dataset, DatasetDict
    from huggingface_hub import metadata_load
    from mteb.abstasks.classification import AbsTaskClassification
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models.model_meta import ModelMeta
    from sentence_transformers import SentenceTransformer

    from lib.data import task_files
    from lib.messages import one_line_errors
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}; needs: pip install -e '.[mteb]'") from None


def task(folder: Path) -> AbsTaskClassification:
    """The task in `<dataset folder>/tasks/<task>/` and its documents, as MTEB reads one.

    `ValueError`, in one line, for what is wrong with it, and unless it is a classification of
    single documents with a test.
    """
    if task_files.kind(folder) != "classification" or not (folder / "test.jsonl").is_file():
        raise ValueError(f"{folder}: expected a classification, with train.jsonl and test.jsonl")
    data = task_files.read_task(folder)
    if any(len(ids) > 1 for ids in data.inputs["train"]):
        raise ValueError(f"{folder}: expected labels of single documents, it has pairs")
    print(*(f"note: {note}" for note in data.notes), sep="\n", file=sys.stderr)

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


def load(export: Path) -> SentenceTransformer:
    """The export as sentence-transformers reads it; `ValueError`, in one line, if it cannot."""
    if not export.is_dir():  # sentence-transformers would look for it on the hub
        raise ValueError(f"{export}: no such folder")
    with one_line_errors(f"load {export}"):
        model = SentenceTransformer(str(export), device="cpu", trust_remote_code=False)
    model.model_card_data.model_name = f"local/{export.resolve().name}"  # MTEB asks for two parts
    return model


def score(export: Path, folder: Path) -> str:
    """MTEB's table of scores."""
    found = task(folder.resolve())
    result = mteb.evaluate(load(export), found, cache=None)
    return result.to_dataframe().to_string(index=False)


def describe(export: Path, name: str) -> ModelMeta:
    """What MTEB lists of a model that is `owner/name` on the hub.

    What only its author knows is None: languages, release date, training data, contacts.
    """
    model, card = load(export), metadata_load(export / "README.md") or {}
    sizes = [(weight.numel(), weight.element_size()) for weight in model.parameters()]
    known = {
        "name": name,
        "reference": f"https://huggingface.co/{name}",
        "n_parameters": sum(count for count, _ in sizes),
        "memory_usage_mb": round(sum(count * size for count, size in sizes) / 2**20),
        "license": card.get("license"),
        "adapted_from": card.get("base_model"),
        "open_weights": True,
        "use_instructions": False,
        "framework": ["Sentence Transformers", "PyTorch", "safetensors"],
    }
    return ModelMeta.from_sentence_transformer_model(model).model_copy(update=known)


if __name__ == "__main__":
    place, *asked = sys.argv[1:] or [""]
    if len(asked) != 1 and asked[:-1] != ["--meta"]:
        usage = "<export> <dataset folder>/tasks/<task>, or <export> --meta <owner/name>"
        raise SystemExit(f"usage: python docs/mteb_task.py {usage}")
    try:
        about = describe(Path(place), asked[1]).to_python() if asked[1:] else None
        print(about or score(Path(place), Path(asked[0])))
    except (ValueError, OSError) as error:
        raise SystemExit(f"mteb_task.py: {error}") from None
