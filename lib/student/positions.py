"""Which learned positions a student repeats."""

import torch

from lib.student.encoder import Student


def repeat_positions(student: Student, period: int) -> None:
    """Let a student use its first `period` positions again and again, in place.

    Short encoders have positions that they never learned: all-MiniLM-L6-v2 has 512 and was trained
    on texts of 128 tokens. `Student.from_encoder` tiles all of them. Here those behind the first
    `period` are 1 to `period` - 1 in turn; 0 is that of the token that opens a text.

    Parameters
    ----------
    student : Student
    period : int
        At least 2, and at most as many as the student has.

    Raises
    ------
    ValueError
        For another period.

    Examples
    --------
    >>> student = Student.from_encoder(folder, None, 256, 4096)  # doctest: +SKIP
    >>> repeat_positions(student, 128)  # doctest: +SKIP
    """
    if not 2 <= period <= student.max_positions:
        raise ValueError(f"period must be from 2 to {student.max_positions}, got {period}")
    with torch.no_grad():
        table = student.embeddings.position_embeddings.weight[student.padding + 1 :]
        later = torch.arange(period, len(table), device=table.device)
        table[period:] = table[1 + (later - period) % (period - 1)]
