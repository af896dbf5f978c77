"""The student: a Longformer without global attention, fast on long documents."""

from lib.student.serving import Student

__all__ = ["Student"]
