"""`python -m lib.recipes <profile>`: download what is missing, write the dataset folders."""

import argparse

from lib.config import profiles
from lib.messages import exit_in_one_line
from lib.recipes import find_roots
from lib.recipes.thesis import fetch_hub

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lib.recipes", description=__doc__)
    parser.add_argument("profile", help="a profile with a section build: mini, smoke, thesis")
    with exit_in_one_line(parser, code=2):
        profile = profiles.load(parser.parse_args().profile)
        for model in (profile.structural_teacher, profile.student):
            if model.revision:
                files = "*.json,*.txt,*.safetensors,pytorch_model.bin"
                fetch_hub(f"hf://{model.model}@{model.revision}/{files}")
        print(*find_roots(profile.build, profile.data_roots), sep="\n")
