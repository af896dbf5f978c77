"""Every command prints whatever it has to say, on any terminal."""

import io
import json
import runpy
import sys

import pytest

COMMANDS = {
    "check": ["lib.data.check", "{folder}"],
    "train": ["lib.train", "MSE", "--data", "{folder}", "--out", "{folder}/out"],
    "train's help": ["lib.train", "--help"],
    "run_all": ["lib.runner.run_all", "mini", "Жук"],
    "build": ["lib.data.build", "Жук"],
    "publish": ["lib.runner.publish", "Жук"],
}


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_encoding_lacks_is_no_error(command, encoding, tmp_path, monkeypatch):
    """Ids, groups and labels in Cyrillic; the folder's own name, too."""
    folder = tmp_path / "ü"
    (folder / "tasks/Ж").mkdir(parents=True)
    rows = [{"id": f"Ж{n}", "text": f"a letter, number {n}" * (n > 2)} for n in range(6)]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "documents.jsonl").write_text(lines, encoding="utf-8")
    (folder / "tasks/Ж/train.jsonl").write_text('{"id": "Ж", "label": "Ж"}', encoding="utf-8")
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    module, *words = [word.format(folder=folder) for word in COMMANDS[command]]
    printed = io.BytesIO()
    for name in ("stdout", "stderr"):
        stream = io.TextIOWrapper(printed, encoding=encoding, write_through=True)
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.setattr(sys, "argv", [module, *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__")
    told = printed.getvalue().decode(encoding)
    assert ended.value.code == (0 if command == "train's help" else 2)
    assert "encode" not in told and "Traceback" not in told
    assert (r"\u03b3" if command == "train's help" else r"\u0416") in told
