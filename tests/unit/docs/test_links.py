"""Every relative link and anchor in the Markdown files has a target."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[3]
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
IN_HTML = re.compile(r"""(?:href|src)\s*=\s*["']([^"']+)["']""")
NAMED_IN_HTML = re.compile(r"""<[a-z0-9]+\s[^>]*(?:id|name)\s*=\s*["']([^"']+)["']""")


def pages() -> Iterator[Path]:
    """All Markdown files, but none of a folder such as .venv, which has tens of thousands of others."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in files if name.endswith(".md") and not name.startswith("."))


PAGES = sorted(pages())


@cache
def tokens(page: Path) -> list[Token]:
    """All tokens of a page, in order."""
    found = MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
    return [each for token in found for each in (token, *(token.children or ()))]


def links(page: Path) -> Iterator[str]:
    """Links of a page into this repository."""
    for token in tokens(page):
        found = [str(token.attrs[name]) for name in ("href", "src") if name in token.attrs]
        if token.type in {"html_block", "html_inline"}:
            found += IN_HTML.findall(token.content)
        yield from (link for link in found if not ELSEWHERE.match(link))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Valid anchors of a page: headings as GitHub names them, and names in HTML."""
    found: list[str] = []
    heading = False
    for token in tokens(page):
        if heading and token.type == "inline":
            text = "".join(child.content for child in token.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            again = sum(re.fullmatch(rf"{re.escape(slug)}(-\d+)?", other) is not None for other in found)
            found.append(f"{slug}-{again}" if again else slug)
        elif token.type in {"html_block", "html_inline"}:
            found += NAMED_IN_HTML.findall(token.content)
        heading = token.type == "heading_open" or (heading and token.type != "heading_close")
    return frozenset(found)


def broken(page: Path) -> Iterator[str]:
    """Links of a page without a target."""
    for link in links(page):
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if (
            not target.exists()
            or not target.is_relative_to(ROOT)
            or (anchor and (target.suffix != ".md" or anchor not in anchors(target)))
        ):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_has_a_target(page: Path) -> None:
    """The target is a file or folder of this repository, and a heading of it if the link names one."""
    assert list(broken(page)) == []


def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken links of each kind are found; code is not searched for links."""
    monkeypatch.setattr("tests.unit.docs.test_links.ROOT", tmp_path)
    page = tmp_path / "a.md"
    page.write_text(
        "# One `two`, three\n# Twice\n# Twice\n<a id='here'></a>\n\n"
        "[a](#one-two-three) [b](a.md#twice-1) [c](#here) [d](https://example.org/x#y) `[e](no)`\n\n"
        "[f](b.md) [g](#four) ![h](c.png) [i][ref] [j](../outside) <img src='d.png'> [k](a.md#twice-2)\n\n"
        "| t |\n|---|\n| [l](e.md) |\n\n[ref]: f.md\n"
    )
    assert list(broken(page)) == ["b.md", "#four", "c.png", "f.md", "../outside", "d.png", "a.md#twice-2", "e.md"]


def test_there_are_pages() -> None:
    """The pages exist and have links."""
    assert len(PAGES) > 10
    assert sum(1 for page in PAGES for _ in links(page)) > 50
