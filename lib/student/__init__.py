"""The student: a Longformer without global attention, fast on long documents."""

from lib.student.encoder import Student
