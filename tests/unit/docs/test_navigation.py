"""Each page of the documentation is in the navigation of the site, which is the list in docs/README.md."""

from docs.site.conf import ROOT, navigation

DOCS = ROOT / "docs"
SECTIONS = navigation((DOCS / "README.md").read_text(encoding="utf-8"))


def test_each_page_is_in_the_navigation() -> None:
    """Each once. Runbooks are below the page of the alerts; the building of the site says the same in more time."""
    listed = [(DOCS / page).resolve() for pages in SECTIONS.values() for page in pages]
    pages = {*DOCS.glob("*.md"), *DOCS.glob("reference/*.md"), *ROOT.glob("examples/*/README.md")}
    assert len(set(listed)) == len(listed)
    assert sorted(map(str, pages - {DOCS / "README.md"} - set(listed))) == []


def test_the_sections_are_those_of_a_manual() -> None:
    """First steps, tasks, what to look up, reasons."""
    assert list(SECTIONS) == ["Start", "How-to", "Reference", "Why"]
