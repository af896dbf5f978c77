#!/usr/bin/env bash
# transformers 5 ignores how a BERT's tokenizer.json normalizes, splits and frames a text.
#
# Versions: transformers 4.57.3 with tokenizers 0.22.2, and 5.23.0 with 0.23.3; Python 3.11, Linux.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes about 60 s.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# tokenizer.json holds a whole tokenizer: its normalizer, how it splits words, what it puts around a
# text. transformers 4 reads all of it. In transformers 5, if tokenizer_config.json names the class
# BertTokenizer, only the vocabulary is read, and the usual parts of BERT take the place of the
# file's. There is no warning. So a model whose normalizer spells out ligatures, say, gets other
# token ids, and other vectors, after an upgrade; `tokenizers` itself still reads the file as it is.
# With the class PreTrainedTokenizerFast both versions read the whole file.
# Believed beforehand: the normalizer is kept (probability .6). Once it was seen to be gone: the
# way of splitting is replaced, too (.6), and so is the frame (.5).
#
# Output seen:
#   4.57.3 BertTokenizer: normalizer, words and frame as in the file
#   4.57.3 PreTrainedTokenizerFast: normalizer, words and frame as in the file
#   5.23.0 BertTokenizer: normalizer, words and frame otherwise
#   5.23.0 PreTrainedTokenizerFast: normalizer, words and frame as in the file
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"  # so that nothing of this project can be imported

cat >probe.py <<'PROBE'
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, __version__

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "office", "a-b", "a", "b", "-"]
TEXTS = ["o\ufb03ce", "a-b", "a"]  # which the normalizer, the words and the frame decide
numbers = {word: number for number, word in enumerate(WORDS)}
file = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
spelled = normalizers.Replace("\ufb03", "ffi")
file.normalizer = normalizers.Sequence([spelled, normalizers.BertNormalizer()])
file.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
file.post_processor = processors.TemplateProcessing("$A [SEP]", special_tokens=[("[SEP]", 3)])
for name in ("BertTokenizer", "PreTrainedTokenizerFast"):
    folder = Path(name)
    folder.mkdir(exist_ok=True)
    file.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": name, "unk_token": "[UNK]", "sep_token": "[SEP]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text('{"model_type": "bert"}')
    loaded = AutoTokenizer.from_pretrained(name)
    same = []
    for text in TEXTS:
        ids, expected = loaded(text)["input_ids"], file.encode(text).ids
        if text != "a":  # whatever frames it
            ids, expected = ([n for n in each if n not in (2, 3)] for each in (ids, expected))
        same.append(ids == expected)
    told = {(True,) * 3: "as in the file", (False,) * 3: "otherwise"}.get(tuple(same), f"{same}")
    print(f"{__version__} {name}: normalizer, words and frame {told}")
    replaced = __version__ >= "5" and name == "BertTokenizer"
    if told != ("otherwise" if replaced else "as in the file"):
        sys.exit(1)
PROBE

for version in 4.57.3:0.22.2 5.23.0:0.23.3; do
    if ! { "${PYTHON:-python3}" -m venv --clear env && env/bin/python -m pip install --quiet \
        "transformers==${version%:*}" "tokenizers==${version#*:}"; } >install.log 2>&1; then
        cat install.log >&2
        echo "could not install the packages" >&2
        exit 2
    fi
    env/bin/python -W ignore probe.py 2>probe.log || { cat probe.log; echo changed; exit 1; }
done
echo unchanged
