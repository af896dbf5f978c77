"""The site: `sphinx-build -W docs build/site`, from the checkout alone, without a network.

Notebooks are shown as they ran (`docs/notebooks`, written by `python docs/publish.py`).
THESIS_REPOSITORY, such as https://github.com/me/thesis, adds launch buttons and links to files.
"""

import os
import re
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
REPOSITORY = os.environ.get("THESIS_REPOSITORY", "").rstrip("/")
BRANCH = os.environ.get("THESIS_BRANCH", "main")
THESIS = "https://dspace.cuni.cz/handle/20.500.11956/190630"
THESIS_CODE = "https://github.com/dburian/transformer_document_embedding"
# Pages that show a file from elsewhere in the repository.
SHOWN = {"start": "README.md", "contributing": "CONTRIBUTING.md", "code": "lib/README.md"}

# [words](target#heading) and <img src="target", unless the target is an address. Notebooks are
# read as they are stored, as JSON, so a quotation mark may have a backslash.
LINK = re.compile(r"\[((?:[^\[\]\n]|\[[^\]\n]*\])*)\]\((?!\w+:|#)([^)#\s]+)(#[\w-]+)?\)")
IMAGE = re.compile(r"""(<img [^>]*?src=\\?["'])(?!\w+:)([^"'\\]+)""")

project = "Document embedding using Transformers"
html_title = project
author = "The thesis-companion authors"
language = "en"
extensions = ["myst_nb", "sphinx_copybutton"]
exclude_patterns = ["_static/*"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "html_image"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["fold.js"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None  # no dates: the same notebooks give the same site
html_math_renderer = "mathml"  # browsers draw it; MathJax would come from a network
html_theme_options = {
    "navbar_persistent": [],  # the sidebar has the search
    "show_toc_level": 2,
    "home_page_in_toc": True,
    "use_download_button": True,
    "use_fullscreen_button": True,
    "icon_links": [
        {"name": "The thesis", "url": THESIS, "icon": "fa-solid fa-graduation-cap"},
        {"name": "Code of the thesis", "url": THESIS_CODE, "icon": "fa-solid fa-code"},
    ],
}
if REPOSITORY:
    hosts = [host for host in ("gitlab", "bitbucket") if host in REPOSITORY]
    html_theme_options |= {
        "repository_url": REPOSITORY,
        "repository_provider": hosts[0] if hosts else "github",
        "repository_branch": BRANCH,
        "path_to_docs": "",  # notebooks/<name>.ipynb of the repository is what is opened
        "use_repository_button": True,
        "use_issues_button": True,
        "launch_buttons": {
            "binderhub_url": "https://mybinder.org",
            "notebook_interface": "jupyterlab",
        },
    }
    if "github.com/" in REPOSITORY:  # .devcontainer, ready to run
        codespace = f"https://codespaces.new/{REPOSITORY.partition('github.com/')[2]}"
        html_theme_options["icon_links"].append(
            {"name": "Run in a codespace", "url": codespace, "icon": "fa-solid fa-play"}
        )


def show_file(app, docname, source):
    """Show the file that a page of `SHOWN` stands for, and resolve links that leave docs/."""
    shown = ROOT / SHOWN[docname] if docname in SHOWN else None
    page = shown or Path(app.env.doc2path(docname))
    if shown:
        source[0] = shown.read_text(encoding="utf-8")
    here = (DOCS / docname).parent

    def resolve(match):
        words, target, heading = match.groups()
        return _link(words, (page.parent / target).resolve(), heading or "", here)

    def resolve_image(match):
        begin, target = match.groups()
        return begin + os.path.relpath((page.parent / target).resolve(), here)

    source[0] = LINK.sub(resolve, source[0])
    source[0] = IMAGE.sub(resolve_image, source[0])


def _link(words: str, reached: Path, heading: str, here: Path) -> str:
    """A link to a page of the site, else to the file in the repository, else its words alone.

    The site has copies of the CSV files that it cannot link to.
    """
    pages = {ROOT / file: DOCS / f"{name}.md" for name, file in SHOWN.items()}
    reached = pages.get(reached, reached)
    executed = DOCS / "notebooks" / reached.name
    if reached.parent == ROOT / "notebooks" and executed.is_file():  # as it ran, not bare
        reached = executed
    is_page = reached.is_relative_to(DOCS) and reached.suffix in (".md", ".ipynb")
    if is_page or reached.suffix in (".svg", ".png") or not reached.exists():
        # Sphinx warns of what does not exist.
        return f"[{words}]({os.path.relpath(reached, here)}{heading})"
    place = reached.relative_to(ROOT)
    if REPOSITORY:
        return f"[{words}]({REPOSITORY}/blob/{BRANCH}/{place}{heading})"
    if reached.suffix == ".csv":
        return f"[{words}]({os.path.relpath(reached, here)})"
    return f"{words} (`{place}`)"


def draw_inline(self, node):
    """Write a formula within a line as MathML."""
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def draw_block(self, node):
    """Write a formula of its own as MathML."""
    self.body.append(f'<div class="math-block">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Connect the functions above."""
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
    app.connect("source-read", show_file)
