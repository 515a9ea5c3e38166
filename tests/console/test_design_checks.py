"""The checks of the design find what they are for."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.console.browsing import OBSERVE, WITHIN_MS
from tests.console.design import barriers, faults, settle, shift

_GOOD = """<!doctype html><html lang="en"><title>Good</title><body><main><h1>A heading</h1>
<p>One line</p><p style="width: 200px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis">{long}</p>
<button>Press</button></main>"""
_LONG = "word " * 60


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page of 400 pixels."""
    context = browser.new_context(viewport={"width": 400, "height": 600})
    context.set_default_timeout(WITHIN_MS)
    context.add_init_script(OBSERVE)
    found = context.new_page()
    found.goto("about:blank")
    yield found
    context.close()


def test_nothing_is_wrong_with_a_good_page(page: Page) -> None:
    """Text that is cut off on purpose is none of the faults."""
    page.set_content(_GOOD.format(long=_LONG))
    settle(page)
    assert faults(page) == []
    assert barriers(page) == []


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ('<p style="margin-top: -16px">Over it</p>', "overlaps"),
        ('<p style="position: absolute; top: 25px; left: 12px">Over it</p>', "overlaps"),
        ('<button style="position: absolute; top: 25px; left: 12px">Over</button>', "overlaps"),
        ('<p style="width: 700px">Wide</p>', "the page is"),
        ('<div style="width: 90px"><p style="white-space: nowrap">much longer than ninety pixels</p></div>', "holds"),
    ],
)
def test_what_overlaps_or_sticks_out_is_found(page: Page, wrong: str, found: str) -> None:
    """Text over text, a control over text, a wide page, text beside its box."""
    page.set_content(_GOOD.format(long="short") + wrong.replace("<p", "<main><p", 1))
    settle(page)
    assert any(found in each for each in faults(page)), faults(page)


@pytest.mark.parametrize("wrong", ['<p style="color: #bbb">Pale</p>', "<input>", '<img src="data:,">'])
def test_barriers_are_found(page: Page, wrong: str) -> None:
    """Pale text, a field without a name, a picture without a text."""
    page.set_content(_GOOD.format(long="short") + wrong)
    assert barriers(page)


def test_shifts_are_found(page: Page) -> None:
    """What is pushed down by something that comes later."""
    page.set_content(_GOOD.format(long="short"))
    page.wait_for_timeout(200)
    # Only what has been drawn can shift: the second frame begins when the first one has been drawn.
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    page.evaluate(
        "document.querySelector('h1').insertAdjacentHTML('beforebegin', '<div style=\"height: 300px\"></div>')"
    )
    page.wait_for_function("window.seen.shifts.length > 0")
    assert shift(page)[0] > 0.05
