"""Trained models in folders of plain arrays and JSON, checksummed, written whole or not at all. Nothing is pickled.

<folder>/settings.json        plain values, the sha256 of every other file, and a checksum of all that
<folder>/<part>-<field>.npy   an array
<folder>/<part>-<field>.json  a list of strings
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np


def fingerprint(value: Any) -> str:
    """32 hex digits of the canonical JSON of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def identity(part: Any) -> dict[str, Any]:
    """A dataclass' content as plain values, arrays and lists by their sha256; times (`seconds`) are left out."""
    values, blobs = _split(part)
    values.pop("seconds", None)
    return values | {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()}


def save(folder: str | Path, settings: dict[str, Any], parts: Sequence[Any]) -> None:
    """Write `parts` (dataclasses of arrays, string lists and plain values) to `folder`, replacing what is there."""
    folder = Path(folder)
    new, old = (folder.with_name(f".{folder.name}.{kind}-{os.getpid()}") for kind in ("new", "old"))
    new.mkdir(parents=True)
    try:
        document: dict[str, Any] = {"settings": settings, "parts": [], "files": {}}
        for number, part in enumerate(parts):
            values, blobs = _split(part)
            document["parts"].append(values)
            for name, blob in blobs.items():
                with open(new / f"{number}-{name}", "wb") as file:
                    file.write(blob)
                    file.flush()
                    os.fsync(file.fileno())  # a rename may outlive a power cut that its content does not
                document["files"][f"{number}-{name}"] = hashlib.sha256(blob).hexdigest()
        document["checksum"] = fingerprint(document)
        (new / "settings.json").write_text(json.dumps(document, indent=1))
        if folder.exists():
            os.replace(folder, old)
        os.replace(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def load(folder: str | Path, kind: type) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Settings and parts (instances of the dataclass `kind`) as saved.

    Raises ValueError in one line for a file that is missing, damaged or truncated.
    """
    folder = Path(folder)
    path = folder / "settings.json"
    try:
        document = json.loads(path.read_text())
        checksum = document.pop("checksum")
    except FileNotFoundError:
        raise ValueError(f"{path}: no saved model here (settings.json is missing); train it again") from None
    except (ValueError, KeyError, AttributeError):
        raise ValueError(f"{path}: damaged or truncated, not the JSON that was saved; train the model again") from None
    if fingerprint(document) != checksum:
        raise ValueError(f"{path}: altered since it was saved, its checksum does not match; train the model again")
    parts = [dict(values) for values in document["parts"]]
    for name, expected in document["files"].items():
        try:
            blob = (folder / name).read_bytes()
        except FileNotFoundError:
            raise ValueError(f"{folder / name}: missing from the saved model; train it again") from None
        found = hashlib.sha256(blob).hexdigest()
        if found != expected:
            raise ValueError(f"{folder / name}: damaged or truncated, sha256 is {found}, expected {expected}")
        number, _, rest = name.partition("-")
        key, _, form = rest.partition(".")
        parts[int(number)][key] = json.loads(blob) if form == "json" else np.load(BytesIO(blob), allow_pickle=False)
    return document["settings"], tuple(kind(**values) for values in parts)


def _split(part: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Plain values by field, and the bytes of arrays and lists by file name."""
    values, blobs = {}, {}
    for entry in fields(part):
        value = getattr(part, entry.name)
        if isinstance(value, np.ndarray):
            buffer = BytesIO()
            np.save(buffer, value, allow_pickle=False)
            blobs[f"{entry.name}.npy"] = buffer.getvalue()
        elif isinstance(value, list):
            blobs[f"{entry.name}.json"] = json.dumps(value).encode()
        else:
            values[entry.name] = value
    return values, blobs
