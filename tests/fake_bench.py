"""A bench whose products are what a test says, so that nothing is trained."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from lib.config import profiles


class FakeBench:
    """`profile` and `changed` as of `lib.experiments.bench.Bench`.

    members: name of a method -> function of the bench and the method's arguments, or of another
    member -> its value. What embeds in advance does nothing.
    """

    def __init__(self, profile: Any, **members: Any):
        self.profile = profiles.load(profile) if isinstance(profile, str) else profile
        self.members = {"prepare": lambda *_: None, "held_out": ["a text"]} | members
        for name, member in self.members.items():
            setattr(self, name, partial(member, self) if callable(member) else member)

    def changed(self, section: str, **values: Any) -> FakeBench:
        return FakeBench(self.profile.changed(section, **values), **self.members)

    def with_readout(self, name: str) -> FakeBench:
        return self.changed("heads", readout=name)

    def reading(self) -> FakeBench:
        return self


def fake_model(vectors: Any, **others: Any) -> SimpleNamespace:
    """A model with these vectors of any texts. others: name of a method -> what it returns."""
    methods = {name: lambda *_, value=value: value for name, value in others.items()}
    return SimpleNamespace(embed=lambda _: vectors, **methods)
