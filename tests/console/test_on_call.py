"""An engineer on call finds out what failed, repairs a letter, redrives the rest, and reads who did it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.flights.wire import FLIGHTS
from tests.console.browsing import visiting
from tests.console.flights import BROKEN, READY, Flights, failed_flights
from tests.console.serving import Served, serving
from tests.scenarios.commands import in_process

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

RATE = 8
"""Letters in a second: the job takes about twenty seconds, so that a slow browser sees it run."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flights]:
    """Flights that are dead letters."""
    with failed_flights(tmp_path_factory.mktemp("flights")) as found:
        yield found


@pytest.fixture(scope="module")
def console(failed: Flights) -> Iterator[Served]:
    """The console of their group."""
    with serving(failed.group) as found:
        yield found


def test_from_the_failure_to_the_audit_trail(browser: Browser, failed: Flights, console: Served) -> None:
    """Every step is a click, a key or a field; the numbers are those of the flights."""
    unknown = len(failed.unknown)
    with visiting(browser, console.address) as visit:
        page = visit.open()
        expect(page.get_by_role("heading", name="Flow")).to_be_visible()
        expect(page.get_by_role("region", name="Dead letters")).to_contain_text(f"{unknown + BROKEN}")

        # The failure group.
        page.get_by_role("link", name="Failures", exact=True).click()
        group = page.locator("tr", has_text="UnknownPlaneError")
        expect(group).to_have_count(1)
        expect(group).to_contain_text(f"{unknown}")
        expect(group).to_contain_text("none sent")
        expect(page.locator("#list")).to_contain_text(f"{unknown + BROKEN} dead letters")
        group.locator("a.failure").click()
        expect(page.locator("#list")).to_contain_text(f"{unknown} letters")
        expect(page.get_by_role("list", name="Filters")).to_contain_text("fingerprint")

        _redrive_one_cause(page, console.address)
        _find_and_pause(page, console.address, failed)
        page.goto(f"{console.address}/letters?exception=UnknownPlaneError")

        _read_and_edit(page, failed)

        # The cause is repaired, and the group is redriven.
        failed.send_planes(failed.late)
        page.goto(f"{console.address}/failures")
        expect(group).to_contain_text(f"{unknown - 1}")  # what was edited has left the list
        group.get_by_role("checkbox").check()
        page.get_by_role("button", name="Redrive").click()
        expect(page.locator("#preview")).to_contain_text(f"{unknown - 1} letters to send")
        expect(page.locator("#preview")).to_contain_text(f"{unknown - 1} to {READY}")
        expect(page.locator("main")).to_contain_text(f"{unknown - 1} UnknownPlaneError")
        page.get_by_label("Note").fill("the planes are there now")
        page.get_by_label("Rate").fill(str(RATE))
        page.get_by_label("Rate").press("Tab")
        expect(page.locator("#preview")).to_contain_text(f"at {RATE:.1f} a second this takes about")
        page.get_by_label("Enter the number of letters to confirm").fill("7")
        page.get_by_role("button", name=f"Redrive {unknown - 1} letters").click()
        expect(page.get_by_role("alert")).to_contain_text(f"enter the number of letters, {unknown - 1}, to confirm")
        page.get_by_label("Enter the number of letters to confirm").fill(str(unknown - 1))
        visit.expected.append("400")  # the refusal above
        page.get_by_role("button", name=f"Redrive {unknown - 1} letters").click()

        job = _watch(page, failed, unknown - 1)
        _see_what_recovered(page, failed, job)
        _deliver_now_and_cancel(page, console.address, failed)

        page.get_by_role("link", name="Audit", exact=True).click()
        entries = page.locator("#list tbody tr")
        expect(entries.filter(has_text=job)).to_contain_text(["redrive"])
        expect(entries.filter(has_text=job)).to_contain_text(["the planes are there now"])
        expect(entries.filter(has_text="pause")).to_contain_text(["the planes are being loaded"])
        expect(entries.filter(has_text="edit")).to_have_count(1)
        expect(entries.filter(has_text="a passenger asks")).to_contain_text(["deliver-now waiting"])
        expect(entries.filter(has_text="cancel waiting")).to_have_count(1)
        [by_command] = [each for each in entries.all_inner_texts() if "(console, " not in each]
        assert f"tier {failed.group.tier('5m')}" in by_command


def _redrive_one_cause(page: Page, address: str) -> None:
    """Tell the causes of one class apart, and send one of them again: it dies again, because nothing was repaired."""
    page.goto(f"{address}/failures?exception=DecodeError")
    causes = page.locator("#list tbody tr")
    expect(causes.filter(has_text="bad_magic")).to_have_count(1)
    cause = causes.filter(has_text="unknown_schema")
    expect(cause).to_have_count(1)
    cause.get_by_role("checkbox").check()
    page.get_by_role("button", name="Redrive").click()
    expect(page.locator("#preview")).to_contain_text("1 letter to send")
    page.get_by_role("button", name="Redrive 1 letter").click()
    expect(page.locator("#job")).to_contain_text("1 dead again")


def _find_and_pause(page: Page, address: str, failed: Flights) -> None:
    """Find a flight that arrived, and one that did not; pause the source for ten minutes, and end that."""
    there = next(each for each in failed.flights if each not in failed.unknown)
    page.get_by_role("searchbox").fill(str(there.tailnum))
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("#places")).to_contain_text("acked")
    page.get_by_role("searchbox").fill(str(failed.unknown[0].tailnum))
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("#found")).to_contain_text("waiting")
    expect(page.locator("#found")).to_contain_text("UnknownPlaneError")

    page.goto(address)
    page.get_by_role("link", name="Pause ...").click()
    page.get_by_label(f"source {FLIGHTS}").check()
    page.get_by_label("For", exact=True).select_option("10 minutes")
    page.get_by_label("Note").fill("the planes are being loaded")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("link", name="Failures", exact=True).click()
    expect(page.locator("#banner")).to_contain_text(f"Paused: source {FLIGHTS} until 20")
    expect(page.locator("#banner")).to_contain_text("the planes are being loaded")
    page.get_by_role("link", name="Resume or change").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#paused")).to_contain_text("Nothing is paused")


def _deliver_now_and_cancel(page: Page, address: str, failed: Flights) -> None:
    """Deliver a flight that waits; then ask for a whole tier that is paused, and cancel that."""
    failed.wait()
    page.goto(f"{address}/find?q={failed.never.tailnum}")
    waits = page.locator("#places tr", has_text="waits")
    waits.get_by_role("link", name="Act ...").first.click()
    page.get_by_label("Deliver now").check()
    page.get_by_label("Note").fill("a passenger asks")
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("#task")).to_contain_text("1 record is delivered now")

    paused = in_process("pause", "--tier", "5m", "--until", "10m", file=failed.group.file)
    assert paused.code == 0, paused
    page.get_by_role("link", name="Waiting", exact=True).first.click()
    page.get_by_role("link", name=f"Act on {failed.group.tier('5m')}").click()
    page.get_by_label("Deliver now").check()
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("#task")).to_contain_text("the schedulers do it")
    page.get_by_role("link", name="Waiting", exact=True).first.click()
    page.get_by_role("link", name="Cancel ...").first.click()
    expect(page.locator("main")).to_contain_text("0 done")
    page.get_by_role("button", name="Cancel it").click()
    expect(page.locator("#waiting")).not_to_contain_text("Under way")


def _read_and_edit(page: Page, failed: Flights) -> None:
    """Read a letter of a plane that will never be known, correct its tail number, and send it."""
    never = failed.never
    page.get_by_label("Condition").fill(f"value ->> '$.tailnum' = '{never.tailnum}'")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("where="))  # the list before it has letters of other planes
    page.locator("#list tbody tr a.id").first.click()
    expect(page.locator("h1")).to_have_text(re.compile(r"^DLQ\.flights-"))
    expect(page.locator(".failure-line")).to_contain_text(f"no plane {never.tailnum}")
    expect(page.locator(".tree").first).to_contain_text(f"{never.tailnum}")
    expect(page.locator("#story li")).not_to_have_count(0)
    expect(page.locator("#story")).to_contain_text("UnknownPlaneError")

    page.get_by_role("link", name="Edit and redrive").click()
    page.wait_for_url(re.compile("/edit"))  # the page of the letter has something labelled "Value", too
    text = page.get_by_label("Value")
    value = text.input_value()
    assert f'"{never.tailnum}"' in value
    text.fill(value.replace(f'"distance": {never.distance}', '"distance": "far"'))
    page.get_by_role("button", name="Check and show what differs").click()
    expect(page.locator("#invalid")).to_contain_text("distance")
    text.fill(re.sub(r'("tailnum": )"[^"]*"', r'\1"N14228"', value))
    page.get_by_role("button", name=re.compile("^Check")).click()
    expect(page.get_by_role("region", name="What you have changed")).to_contain_text("N14228")
    page.get_by_role("button", name="Send the edited letter").click()
    expect(page.locator("#job")).to_contain_text("1 recovered")


def _watch(page: Page, failed: Flights, letters: int) -> str:
    """Watch the job until it has ended, without a reload, and return its name."""
    page.wait_for_url(re.compile("/jobs/"))
    loaded = page.evaluate("performance.timeOrigin")
    job = page.locator("#job")
    expect(job).to_contain_text("running")
    expect(job).to_contain_text("It runs in this console on")
    recovered = failed.recoverable
    page.wait_for_function(
        "(parts) => parts.every((each) => document.querySelector('#job').innerText.includes(each))",
        arg=[f"{recovered} recovered", f"{letters - recovered} dead again"],
    )
    assert page.evaluate("performance.timeOrigin") == loaded, "the page was loaded again"
    expect(job).to_contain_text(f"{letters} of {letters} letters")
    return page.locator("h1 .mono").inner_text()


def _see_what_recovered(page: Page, failed: Flights, job: str) -> None:
    page.get_by_role("link", name="Those that died again").click()
    died_again = len(failed.unknown) - 1 - failed.recoverable
    expect(page.locator("#list")).to_contain_text(f"{died_again} letters")
    page.get_by_role("link", name="Failures", exact=True).click()
    page.get_by_role("link", name="Remove the filter state").click()
    group = page.locator("tr", has_text="UnknownPlaneError")
    expect(group).to_contain_text(f"{failed.recoverable + 1} recovered")
    expect(group).to_contain_text("%")
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.locator("tr", has_text=job)).to_contain_text(f"{failed.recoverable}")
