"""Every view in a wide and a narrow window, light and dark: it fits, reads well, keeps still, and survives a reload."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.console.bed import LETTERS, busy_group, new_letters
from tests.console.browsing import MIDDLE, NARROW, WIDE, visiting
from tests.console.design import check_design, check_fit, check_still, settle
from tests.console.serving import Served, serving, token_file
from tests.console.views import ALWAYS, LOGIN, NOWHERE, VIEWS, Known, View
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


_DRAWN: Final = """
([red, green, blue]) => {
  const canvas = document.querySelector("#chart canvas");
  if (!canvas) return false;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] === red && data[i + 1] === green && data[i + 2] === blue && data[i + 3] === 255) return true;
  }
  return false;
}
"""
"""Whether the chart has a colour."""


@pytest.fixture(scope="module")
def bed(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Group, Known]]:
    """A group that has everything."""
    cluster = Cluster(kafka.bootstrap_servers)
    with busy_group(cluster, "views-of-the-console", tmp_path_factory.mktemp("views")) as found:
        yield found


@pytest.fixture(scope="module")
def console(browser: Browser, bed: tuple[Group, Known]) -> Iterator[Served]:
    """The console of the group, when it has looked at everything."""
    with serving(bed[0]) as found:
        with visiting(browser, found.address) as visit:
            page = visit.open("/failures?state=any")
            expect(page.locator("#list")).to_contain_text(f"{LETTERS} dead letters")
            page.goto(f"{found.address}/topology")
            expect(page.locator("#topology")).to_contain_text("looked at")
            expect(page.locator("#paused")).not_to_contain_text("Looking at the group")
        yield found


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(each, marks=() if each.name in ALWAYS else pytest.mark.long, id=each.name)
        for each in (*VIEWS, NOWHERE)
    ],
)
def test_view(browser: Browser, bed: tuple[Group, Known], console: Served, view: View) -> None:
    """It looks as it should in both windows and in both colours, and the same after a reload."""
    with visiting(browser, console.address, WIDE) as visit:
        if view is NOWHERE or view.name.endswith("-wrong"):
            visit.expected += ["404", "400"]
        page = visit.open(view.address(bed[1]))
        expect(page.locator("main h1").first).to_contain_text(view.heading)
        check_design(page)
        address = page.url
        page.set_viewport_size({"width": MIDDLE[0], "height": MIDDLE[1]})
        check_fit(page)
        page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
        before = _text(page)  # a narrow window leaves some of it out
        page.reload()
        check_design(page)
        assert page.url == address
        assert _text(page) == before


def _text(page: Page) -> str:
    """Return what a view says, without its numbers, which are times and rates, too."""
    expect(page.locator("#story .muted")).to_have_count(0)  # what is loaded afterwards is there
    text = page.locator("main").inner_text()
    numbered = re.sub(r"\d[\d,.:]*( (s|min|h|d)\b)?|\bnow\b|ago|\bin\b", "#", " ".join(text.split()))
    return re.sub(r"#( #)+", "#", numbered)  # "now" becomes "1 s ago" in the meantime


@pytest.mark.parametrize("size", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow")])
def test_live_updates_keep_still(
    browser: Browser, bed: tuple[Group, Known], console: Served, size: tuple[int, int]
) -> None:
    """Letters that die while one looks change numbers and rows; what one reads does not jump."""
    group = bed[0]
    with visiting(browser, console.address, size) as visit:
        flow, failures, letters = visit.open("/"), visit.open("/failures?state=any"), visit.open("/letters")
        for page in (flow, failures, letters):
            settle(page)
        total = failures.locator("#list .list-head b").first
        before = int(total.inner_text().replace(",", ""))
        new_letters(group, 1000, 3)
        expect(total).to_have_text(str(before + 3))
        expect(letters.locator("#list .list-head b").first).to_have_text(str(before + 3))
        expect(flow.locator(".stage-dead")).to_contain_text(str(before + 3))
        for page in (flow, failures, letters):
            settle(page)
            check_still(page)


def test_a_slow_network_moves_nothing(browser: Browser, console: Served) -> None:
    """A page of which only a part has arrived is not shown: what comes later would push away what one reads."""
    with visiting(browser, console.address, NARROW) as visit:
        page = visit.open("/")  # from now on its styles and scripts are cached
        settle(page)
        slow = {"offline": False, "latency": 0, "downloadThroughput": 3000, "uploadThroughput": -1}
        page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", slow)
        page.reload()
        settle(page)
        check_still(page)


def test_a_letter_before_the_index(browser: Browser, bed: tuple[Group, Known], tmp_path: Path) -> None:
    """A letter that is opened while the first index is being built is shown when that is there, without a reload."""
    group, known = bed
    with serving(group, f"--index={tmp_path}", name="first") as console, visiting(browser, console.address) as visit:
        visit.expected.append("503")
        page = visit.open(f"/letters/{known.letter}")
        expect(page.locator("main .tree").first).to_contain_text("do")
        expect(page.locator("main h1")).to_have_text(known.letter)


def test_colours(browser: Browser, console: Served) -> None:
    """The button switches between light and dark, also in charts, and the choice outlasts a reload."""
    with visiting(browser, console.address) as visit:
        page = visit.open("/waiting")
        button = page.get_by_role("button", name="Switch between light and dark")
        _expect_colours(page, "rgb(244, 246, 248)", [11, 92, 173])
        button.click()
        _expect_colours(page, "rgb(15, 20, 27)", [109, 179, 255])
        page.reload()
        _expect_colours(page, "rgb(15, 20, 27)", [109, 179, 255])
        page.emulate_media(color_scheme="dark")
        button.click()
        _expect_colours(page, "rgb(244, 246, 248)", [11, 92, 173])


def _expect_colours(page: Page, ground: str, bar: list[int]) -> None:
    expect(page.locator("body")).to_have_css("background-color", ground)
    page.wait_for_function(_DRAWN, arg=bar)


@pytest.mark.long
def test_login(browser: Browser, bed: tuple[Group, Known], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page on which to log in."""
    tokens = token_file(tmp_path_factory.mktemp("tokens"))
    with serving(bed[0], f"--tokens={tokens}", name="login") as console:
        for size in (WIDE, NARROW):
            with visiting(browser, console.address, size) as visit:
                page = visit.open(LOGIN.address(bed[1]))
                check_design(page)
