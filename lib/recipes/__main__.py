"""`python -m lib.recipes <profile>`: download what is missing, write the dataset folders."""

import argparse
import sys

from lib.config import paths, profiles
from lib.data.dataset_folder import find_roots
from lib.recipes import fetch

MODEL_FILES = "*.json,*.txt,*.safetensors,pytorch_model.bin"


def main(arguments: list[str] | None = None) -> int:
    """Print the data roots; return 0, or 2 after printing one line per problem."""
    parser = argparse.ArgumentParser(prog="python -m lib.recipes", description=__doc__)
    parser.add_argument("profile", help="a profile with a section build: mini, smoke, thesis")
    try:
        profile = profiles.load(parser.parse_args(arguments).profile)
        models = (profile.structural_teacher, profile.student)
        pinned = [f"hf://{m.model}@{m.revision}/{MODEL_FILES}" for m in models if m.revision]
        fetch.fetch_all({place: place for place in pinned}, paths.artifacts())
        print(*find_roots(profile.build, profile.data_roots, paths.artifacts()), sep="\n")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
