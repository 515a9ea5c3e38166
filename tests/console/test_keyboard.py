"""All of the daily work needs no mouse: search, rows, redrive, help."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.console.browsing import visiting
from tests.console.design import check_design
from tests.console.serving import Served, serving
from tests.scenarios.cluster import Cluster
from tests.scenarios.redriving import dead_letter, died
from tests.scenarios.running import Group

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LETTERS = 4
FIRST = "exception=ConnectionError&exception=TimeoutError"
"""Selects the letters that are there from the beginning, not the one that a test adds."""


@pytest.fixture(scope="module")
def group(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """A group with two failures."""
    found = Group(Cluster(kafka.bootstrap_servers), "keys-of-the-console", tmp_path_factory.mktemp("keys"))
    found.prepare()
    dead_letter(found, range(LETTERS))
    found.cluster.produce(found.dead_letters, [died(found, LETTERS, exception="TimeoutError")])
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def console(browser: Browser, group: Group) -> Iterator[Served]:
    """Its console."""
    with serving(group) as found:
        with visiting(browser, found.address) as visit:
            visit.await_data()
        yield found


def test_rows_and_redrive(browser: Browser, group: Group, console: Served) -> None:
    """J and k choose a row, Enter opens it, r asks to redrive it."""
    with visiting(browser, console.address) as visit:
        page = visit.open(f"/failures?{FIRST}")
        rows = page.locator("#list tbody tr")
        expect(rows).to_have_count(2)
        page.keyboard.press("j")
        expect(rows.nth(0)).to_be_focused()
        page.keyboard.press("j")
        expect(rows.nth(1)).to_be_focused()
        page.keyboard.press("j")
        expect(rows.nth(1)).to_be_focused()
        page.keyboard.press("k")
        expect(rows.nth(0)).to_be_focused()
        expect(rows.nth(0)).to_contain_text("ConnectionError")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/letters\?.*fingerprint="))
        expect(page.locator("#list tbody tr")).to_have_count(LETTERS)
        page.keyboard.press("k")
        page.keyboard.press("r")
        page.wait_for_url(re.compile(rf"/redrive\?id={re.escape(group.dead_letters)}"))
        expect(page.locator("#preview")).to_contain_text("1 letter to send")
        page.goto(f"{console.address}/letters?{FIRST}")
        page.keyboard.press("r")  # no row is chosen, so all that is shown is meant
        page.wait_for_url(re.compile("/redrive"))
        expect(page.locator("#preview")).to_contain_text(f"{LETTERS + 1} letters to send")


def test_a_chosen_row_stays_chosen(browser: Browser, group: Group, console: Served) -> None:
    """A letter that dies meanwhile changes the list and not where one is."""
    with visiting(browser, console.address) as visit:
        page = visit.open("/failures")
        expect(page.locator("#list tbody tr")).to_have_count(2)
        page.keyboard.press("j")
        focused = page.locator("tr:focus")
        expect(focused).to_contain_text("ConnectionError")
        group.cluster.produce(group.dead_letters, [died(group, 99, exception="LookupError")])
        expect(page.locator("#list tbody tr")).to_have_count(3)
        expect(focused).to_contain_text("ConnectionError")


def test_search(browser: Browser, group: Group, console: Served) -> None:
    """/ goes to the search field, which finds an id and a text; Escape leaves it."""
    with visiting(browser, console.address) as visit:
        page = visit.open("/")
        search = page.get_by_role("searchbox")
        page.keyboard.press("/")
        expect(search).to_be_focused()
        expect(search).to_have_value("")
        page.keyboard.type(f"{group.dead_letters}-0@0")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(rf"/letters/{re.escape(group.dead_letters)}-0(@|%40)0$"))
        page.keyboard.press("/")
        page.keyboard.type("timeout")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/find"))
        expect(page.locator("#found")).to_contain_text("Not found")
        page.get_by_role("link", name="1 dead letter has").click()
        expect(page.locator("#list tbody tr")).to_have_count(1)
        page.keyboard.press("/")
        page.keyboard.type("r?")  # letters are letters while one types
        expect(search).to_have_value(re.compile(r"r\?$"))
        page.keyboard.press("Escape")
        expect(search).not_to_be_focused()


def test_help_and_places(browser: Browser, console: Served) -> None:
    """? lists the keys, and g with a letter goes to a view."""
    with visiting(browser, console.address) as visit:
        page = visit.open("/")
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        expect(dialog).to_be_visible()
        check_design(page)
        page.keyboard.press("Escape")
        expect(dialog).not_to_be_visible()
        for key, path in (("f", "/failures"), ("l", "/letters"), ("j", "/jobs"), ("w", "/waiting"), ("a", "/audit")):
            page.evaluate("void (Date.now = () => 1)")  # the second key comes in time, however long the browser takes
            page.keyboard.press("g")
            page.keyboard.press(key)
            page.wait_for_url(console.address + path)


def test_skip_link(browser: Browser, console: Served) -> None:
    """The first Tab offers to skip what is the same on each page."""
    with visiting(browser, console.address) as visit:
        page = visit.open("/failures")
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to content")
        expect(skip).to_be_focused()
        expect(skip).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
