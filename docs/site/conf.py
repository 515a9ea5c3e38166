"""The documentation as a site: what Sphinx reads, and how it looks. ``./dev docs`` builds it.

The pages are Markdown, which GitHub shows as well. ``docs/README.md`` is the first page; its lists are the navigation.
"""

import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]

project = "kafka-redelivery"
html_title = project
html_theme = "furo"
html_extra_path = ["index.html"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
smartquotes = False

extensions = ["myst_parser"]
myst_heading_anchors = 6  # as GitHub names them
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**.md", "examples/**.md"]
exclude_patterns = [  # folders without pages, which Sphinx would search and follow
    *(".*", "build", "deploy", "dist", "findings", "grafana", "requirements", "src", "tests"),
    *("cli", "consumers", "dead_letters", "pipeline", "serdes", "topology", "transport"),
]

_SECTION: Final = re.compile(r"^## (.+)\n", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^]\n]+)\]\(([^)#:\n]+)\)")


def navigation(text: str) -> dict[str, dict[str, str]]:
    """Return the pages that each section of ``docs/README.md`` links to, in their order, with the text of the link."""
    _, *parts = _SECTION.split(text)
    return {
        section: {path: said for said, path in _LINK.findall(body) if path.endswith(".md")}
        for section, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _entry(path: str, said: str) -> str:
    """Return a line of the navigation: the text of the link if it is a name, else the page's own title."""
    return f"{said} <{path}>" if said[0].isupper() else path


def _tree(pages: list[str], *options: str) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "", *pages, "```", ""])


def _prepare(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add the navigation, and turn links to folders, which are no pages, into text."""
    folder = (ROOT / page).parent
    source[0] = _LINK.sub(lambda link: link[1] if (folder / link[2]).is_dir() else link[0], source[0])
    if page == root_doc:
        for name, pages in navigation(source[0]).items():
            source[0] += _tree([_entry(*each) for each in pages.items()], f":caption: {name}")
    elif page == "docs/reference/alerts":
        source[0] += _tree(["../runbooks/*"], ":glob:")


def setup(app: Sphinx) -> None:
    """Connect what this file adds."""
    app.connect("source-read", _prepare)
