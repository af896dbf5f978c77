"""Write the pages of a profile whose ledger is saved."""

from pathlib import Path

from lib.config import paths
from lib.config.schema import Profile
from lib.pages.front_page import EMPTY, replace_blocks, tabulate_scale, tell_findings
from lib.pages.gallery import gallery_page
from lib.pages.results import results_page
from lib.pages.saved_tables import Tables
from lib.pages.verdicts import other_ledgers, verdicts_page
from lib.store import write_text


def write_pages(profile: Profile) -> list[Path]:
    """Write the pages of a profile whose ledger is saved.

    Returns
    -------
    The files written: for an unchanged `mini` the committed pages, else files in `pages/` of the
    run's folder. Results and front page are written for `mini` alone, because their words are about
    a scale model.
    """
    tables, folder = Tables(paths.figures(profile)), paths.run_folder(profile) / "pages"
    readme, text = folder / "front_page.md", EMPTY
    if profile.name == "mini" and not profile.departures:
        folder, readme = paths.ROOT / "docs", paths.ROOT / "README.md"
        text = readme.read_text(encoding="utf-8")
    pages = {
        folder / "verdicts.md": verdicts_page(tables, other_ledgers(tables.folder)),
        folder / "figures.md": gallery_page(profile, folder),
    }
    if profile.name == "mini":
        blocks = {"findings": tell_findings(tables), "scale": tabulate_scale(profile)}
        pages[folder / "results.md"] = results_page(tables, folder)
        pages[readme] = replace_blocks(text, blocks)
    for file, text in pages.items():
        write_text(file, text)
    return [*pages]
