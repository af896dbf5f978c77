"""Texts that end where the structural teacher stops reading."""

from collections.abc import Sequence

from lib.config.schema import StructuralTeacherSettings
from lib.experiments import encoders


def cut_texts(section: StructuralTeacherSettings, texts: Sequence[str]) -> list[str]:
    """Each text up to the end of the last token that the structural teacher reads."""
    teacher = encoders.load_structural_teacher(section)
    options = {"truncation": True, "max_length": teacher.max_tokens, "verbose": False}
    cut = []
    for text in texts:
        offsets = teacher.tokenizer(text, return_offsets_mapping=True, **options)["offset_mapping"]
        cut.append(text[: max(end for _, end in offsets)])
    return cut
