"""`python -m lib.data.build <profile>`: download what is missing, write the profile's dataset folders, say where."""

import argparse
import sys

from lib.config import profiles
from lib.data import sources


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with what is wrong, a line for each thing."""
    parser = argparse.ArgumentParser(prog="python -m lib.data.build", description=__doc__)
    parser.add_argument("profile", help="a profile with a section build: mini, smoke, thesis")
    try:
        print(sources.root(profiles.load(parser.parse_args(arguments).profile)))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
