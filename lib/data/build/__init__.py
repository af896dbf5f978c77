"""Builders write dataset folders: mini from the files of installed packages, thesis from hub and Zenodo files."""
