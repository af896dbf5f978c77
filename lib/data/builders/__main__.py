"""`python -m lib.data.builders <profile>`: write the dataset folders of a profile where they are missing; say where."""

import argparse
import sys

from lib.config import profiles
from lib.data import sources


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m lib.data.builders", description=__doc__)
    parser.add_argument("profile", help="a profile with a section build: mini, smoke, thesis")
    try:
        print(sources.root(profiles.load(parser.parse_args(arguments).profile)))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
