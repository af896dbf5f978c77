"""Students on disk: reads Longformers and short encoders, writes Longformers and exports.

Weights are float32 on the CPU, under the names of `transformers.LongformerModel`.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import tokenizers
import torch
import transformers  # whose names are imported when they are used, some for seconds
from tokenizers import normalizers
from torch import Tensor

from lib.messages import one_line_errors, quiet_transformers
from lib.texts import DROPPED, LIGATURES

# Encoders whose layers are those of a Longformer, and whether their positions start after the
# padding id. docs/scale.md says why others cannot be used.
SHORT_ENCODERS = dict.fromkeys(("bert", "electra"), False)
SHORT_ENCODERS |= dict.fromkeys(("roberta", "xlm-roberta", "camembert", "data2vec-text"), True)
# Settings that a Longformer takes over from the config of a short encoder.
TAKEN_OVER = (
    "vocab_size hidden_size num_attention_heads intermediate_size hidden_act type_vocab_size "
    "layer_norm_eps pad_token_id bos_token_id eos_token_id hidden_dropout_prob "
    "attention_probs_dropout_prob initializer_range"
).split()
KIND = "student"  # of folder: it replaces no folder that this project wrote for something else
# As sentence-transformers reads it since version 2; before 6, it cannot load what 6.2 saves.
_MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]

Source = str | Path  # a folder or, as a str without a folder of that name, a hub id


def read_checkpoint(
    source: Source,
    revision: str | None,
    known: Collection[str],
    layers: Sequence[int] | None = None,
) -> tuple[Any, dict[str, Tensor], Any]:
    """Read a model of a known type, without its heads, in float32: config, weights and, if it has
    a vocabulary, tokenizer.

    A weight that transformers would fill at random is an error, but for a Longformer's global
    attention and a pooler.
    """
    source = source.absolute() if isinstance(source, Path) else source  # which is no hub id
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
    whole = options | {"dtype": torch.float32, "output_loading_info": True}
    with one_line_errors(f"read {source}"), quiet_transformers(), torch.random.fork_rng([]):
        config = transformers.AutoConfig.from_pretrained(source, **options)
        if config.model_type not in known:
            raise ValueError(f"it is a {config.model_type}; expected one of {', '.join(known)}")
        model, info = transformers.AutoModel.from_pretrained(source, **whole)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
        missing = info["missing_keys"]
        for name in missing:
            if "_global." not in name and not name.startswith("pooler."):
                raise ValueError(f"it lacks {name}")
    if layers is not None:
        model.encoder.layer = torch.nn.ModuleList(model.encoder.layer[layer] for layer in layers)
    state = model.state_dict()
    weights = {name: tensor.clone() for name, tensor in state.items() if name not in missing}
    # Without a vocabulary, every word would be [UNK].
    knows_words = len(tokenizer) > len(tokenizer.all_special_ids)
    return config, weights, tokenizer if knows_words else None


def to_longformer(student: Any) -> "transformers.LongformerModel":
    """The stock Longformer with a student's weights, in float32 on the CPU.

    Global attention, which the student lacks, comes from `unused`, or is a copy of the local
    projections, which is how Longformer initialises it. A missing pooler becomes zeros.
    """
    weights = student.unused | student.state_dict()
    with torch.random.fork_rng([]), torch.no_grad():
        stock = transformers.LongformerModel(student.config)
        for name, parameter in stock.named_parameters():
            local = name.replace("_global.", ".")
            value = weights.get(name, weights.get(local))
            parameter.copy_(torch.zeros(()) if value is None else value)
    return stock


def save_longformer(
    student: Any, folder: str | Path, finish: Callable[[Path], Any] | None = None
) -> None:
    """Write a stock Longformer, with the tokenizer if there is one; the folder is replaced whole.

    `finish` may add to the new folder. `ValueError`, in one line, for a folder with files that this
    project did not write, and for a full disk. Then nothing is written.
    """
    from lib.store import replace_folder  # whose packages reading does not need

    def write(new: Path) -> None:
        with one_line_errors(f"write {folder}"), quiet_transformers():
            to_longformer(student).save_pretrained(new)
            # safetensors' 0600 would hide it from colleagues.
            (new / "model.safetensors").chmod(new.stat().st_mode & 0o666)
            if (tokenizer := student.tokenizer) is not None:
                backend, longest = tokenizer.backend_tokenizer, student.max_positions
                backend.no_padding()  # a base such as MiniLM pads and cuts to 128
                backend.enable_truncation(longest, direction=tokenizer.truncation_side)
                tokenizer.model_max_length = longest
                tokenizer.init_kwargs.pop("max_length", None)
                tokenizer.save_pretrained(new)
            if finish is not None:
                finish(new)

    replace_folder(folder, KIND, write)


def save_sentence_transformer(
    student: Any, folder: str | Path, card: Mapping[str, Any] | None = None
) -> None:
    """Write what `SentenceTransformer(folder)` loads: a mean over all tokens, without Normalize.

    The folder is replaced whole. `card` is what README.md says besides what the student itself
    tells (docs/export.md). `ValueError` as `save_longformer`.
    """
    if student.tokenizer is None:
        raise ValueError("a SentenceTransformer needs a tokenizer; set student.tokenizer")
    pooling = {"word_embedding_dimension": student.dim, "pooling_mode_mean_tokens": True}
    files = {"modules.json": _MODULES, "1_Pooling/config.json": pooling}
    facts = {"name": Path(folder).name, "card": defaultdict(type(None), card or {})}
    facts |= {"student": student, "parameters": sum(each.numel() for each in student.parameters())}

    def finish(new: Path) -> None:
        normalize_tokenizer(new, student.max_positions)
        (new / "1_Pooling").mkdir()
        for name, content in files.items():
            (new / name).write_text(json.dumps(content), encoding="utf-8")
        text = render_card(Path(__file__).with_name("card.md.j2"), **facts)
        (new / "README.md").write_text(text, encoding="utf-8")

    save_longformer(student, folder, finish)


def normalize_tokenizer(folder: Path, longest: int) -> None:
    """Let a SentenceTransformer's folder read words as `lib.texts.normalize_text` does, and at most
    `longest` tokens, special ones included.
    """
    backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    steps: list[Any] = [normalizers.Replace(sign, letters) for sign, letters in LIGATURES.items()]
    dropped = DROPPED.pattern.replace(r"\xad", r"\u00ad")  # as Oniguruma spells it
    steps += [normalizers.Replace(tokenizers.Regex(dropped), ""), normalizers.NFC()]
    steps += [backend.normalizer] if backend.normalizer else []
    backend.normalizer = normalizers.Sequence(steps)
    backend.save(str(folder / "tokenizer.json"))
    # Other classes of transformers 5 make a normalizer of their own instead of reading this one.
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest}
    changes = {"tokenizer_config": own, "sentence_bert_config": {"max_seq_length": longest}}
    for name, values in changes.items():
        path = folder / f"{name}.json"
        config = json.loads(path.read_text("utf-8") if path.exists() else "{}") | values
        path.write_text(json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8")


def render_card(template: Path, **values: Any) -> str:
    """Fill in a template; a value that it lacks is an error."""
    blocks: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, **blocks)
    text = template.read_text(encoding="utf-8")
    return environment.from_string(text).render(values) + "\n"
