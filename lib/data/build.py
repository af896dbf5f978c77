"""`python -m lib.data.build <profile>`: download what is missing, write the dataset folders."""

import argparse
import sys
from collections.abc import Iterable

from lib.config import paths, profiles
from lib.config.schema import StructuralTeacherSettings, StudentSettings
from lib.config.terminal import escape_unprintable
from lib.data import sources

MODEL_FILES = "*.json,*.txt,*.safetensors,pytorch_model.bin"


def main(arguments: list[str] | None = None) -> int:
    """Build and print the data roots; return 0, or 2 after printing one line per problem."""
    escape_unprintable()
    parser = argparse.ArgumentParser(prog="python -m lib.data.build", description=__doc__)
    parser.add_argument("profile", help="a profile with a section build: mini, smoke, thesis")
    problems = []
    try:
        profile = profiles.load(parser.parse_args(arguments).profile)
        try:
            fetch_models([profile.structural_teacher, profile.student])
        except ValueError as error:
            problems.append(str(error))
        roots = sources.find_roots(profile.build, profile.data_roots, paths.artifacts())
        print(*roots, sep="\n")
    except (ValueError, OSError) as error:
        problems.append(str(error))
    if problems:
        print("error: " + "\n".join(problems), file=sys.stderr)
        return 2
    return 0


def fetch_models(sections: Iterable[StructuralTeacherSettings | StudentSettings]) -> None:
    """Download the models that sections of a profile pin to a commit of the hub."""
    pinned = [section for section in sections if section.revision]
    places = [f"hf://{each.model}@{each.revision}/{MODEL_FILES}" for each in pinned]
    if places:
        from lib.data.builders import fetch  # slow to import

        cache = paths.artifacts()
        fetch.fetch_all({place: place for place in places}, cache, cache, room=0)


if __name__ == "__main__":
    sys.exit(main())
