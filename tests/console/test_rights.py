"""A console whose Kafka user has the rights of the role `console`, and no other, shows every view and acts."""

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browsing import visiting
from tests.console.serving import serving
from tests.scenarios.redriving import dead_letter
from tests.scenarios.users import Users

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]


def test_the_rights_of_the_role_suffice(browser: Browser, users: Users) -> None:
    """Nothing is missing on any page; a letter is sent, edited and set aside, and the group is paused and resumed."""
    users.configure(journal=True)
    users.apply()
    users.grant("console", "worker", "scheduler")
    group = users.group
    for role in ("worker", "scheduler"):
        users.start(role)
    dead_letter(group, range(6))
    user = f"--set=kafka.sasl.username={users.name('console')}"
    with serving(group, user) as console, visiting(browser, console.address) as visit:
        page = visit.open("/failures")
        expect(page.locator("#list")).to_contain_text("6 dead letters")
        letter = f"{group.dead_letters}-0@0"
        for path in ("/", "/letters", f"/letters/{letter}", "/jobs", "/waiting", "/topology", "/audit", "/export"):
            page.goto(console.address + path)
            expect(page.locator("main h1")).to_be_visible()
            expect(page.locator("#banner")).to_be_empty()
            expect(page.locator(".fault")).to_have_count(0)
        page.goto(f"{console.address}/topology")
        expect(page.locator("#topology")).to_contain_text("looked at")
        expect(page.locator("#topology .fault")).to_have_count(0)
        page.goto(f"{console.address}/letters/{letter}")
        expect(page.locator("#story li")).not_to_have_count(0)
        expect(page.locator("#story")).not_to_contain_text("right")

        page.get_by_role("link", name="Edit and redrive").click()
        text = page.get_by_label("Value")
        text.fill(text.input_value().replace('"ok"', '"ok", "ok"'))
        page.get_by_role("button", name="Check and show what differs").click()
        page.get_by_role("button", name="Send the edited letter").click()
        expect(page.locator("#job")).to_contain_text("1 recovered")
        page.goto(f"{console.address}/discard?id={group.dead_letters}-1@1")
        page.get_by_label("Enter the number of letters to confirm").fill("1")
        page.get_by_role("button", name="Discard 1 letter").click()
        expect(page.locator("#job")).to_contain_text("1 set aside")
        page.goto(f"{console.address}/letters?state=waiting")
        expect(page.locator("#list")).to_contain_text("4 letters")
        page.get_by_role("link", name="Redrive").click()
        page.get_by_role("button", name="Redrive 4 letters").click()
        expect(page.locator("#job")).to_contain_text("4 recovered")
        page.goto(f"{console.address}/topology")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#pauses")).to_contain_text("paused")
        page.locator("#pauses").get_by_role("button", name="Resume").click()
        expect(page.locator("#pauses")).to_contain_text("Nothing is paused")
        page.goto(f"{console.address}/audit")
        expect(page.locator("#list tbody tr")).to_have_count(5)
