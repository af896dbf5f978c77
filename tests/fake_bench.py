"""A bench whose products are what a test says, so that nothing is trained."""

from functools import partial
from typing import Any

from lib.config import profiles
from lib.experiments import judging


class FakeBench:
    """`profile` and `changed` as of `lib.experiments.bench.Bench`.

    functions: name of a method -> function of the bench and the method's arguments.
    """

    readout = "thesis"

    def __init__(self, profile: Any, **functions: Any):
        self.profile = profiles.load(profile) if isinstance(profile, str) else profile
        self.functions = functions
        for name, function in functions.items():
            setattr(self, name, partial(function, self))

    def changed(self, section: str, **values: Any) -> "FakeBench":
        return FakeBench(self.profile.changed(section, **values), **self.functions)

    def with_readout(self, name: str) -> "FakeBench":
        bench = self.changed("heads", **judging.READOUTS[name])
        bench.readout = name
        return bench

    def reading(self) -> "FakeBench":
        return self
