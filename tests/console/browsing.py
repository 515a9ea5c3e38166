"""Chromium, and pages that note whatever must not happen in them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, expect, sync_playwright

from tests.scenarios.waiting import LONG_S

WIDE, MIDDLE, NARROW = (1280, 800), (820, 1100), (360, 740)

WITHIN_MS = int(1000 * LONG_S)

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

OBSERVE = """
window.seen = {shifts: [], violations: []};
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) {
    if (each.hadRecentInput) continue;
    const moved = each.sources.map(({node, previousRect: from, currentRect: to}) => {
      const element = node && (node.nodeType === 1 ? node : node.parentElement);
      const name = element ? element.tagName.toLowerCase() + (element.id ? "#" + element.id : "") +
        (typeof element.className === "string" && element.className ? "." + element.className : "") : "?";
      return `${name} (${from.x},${from.y} ${from.width}x${from.height}) -> (${to.x},${to.y} ${to.width}x${to.height})`;
    });
    window.seen.shifts.push({value: each.value, moved});
  }
}).observe({type: "layout-shift", buffered: true});
document.addEventListener("securitypolicyviolation", (event) => {
  window.seen.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium. Without one the tests are skipped, which CI counts as a failure."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium on PATH (Debian: chromium)")
    arguments = ["--no-proxy-server", "--disable-dev-shm-usage"]
    if os.getuid() == 0:
        arguments.append("--no-sandbox")  # Chromium refuses to sandbox what root runs
    expect.set_options(timeout=WITHIN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=WITHIN_MS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A browser without a history, and what happened in its pages that must not happen."""

    context: BrowserContext
    address: str
    mishaps: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of messages that a test provokes, such as the status of a page that is refused."""

    def __post_init__(self) -> None:
        """Watch every page."""
        self.context.set_default_timeout(WITHIN_MS)
        self.context.add_init_script(OBSERVE)
        self.context.on("request", self._requested)
        self.context.on("console", self._logged)
        self.context.on("weberror", lambda error: self.mishaps.append(f"script failed: {error.error}"))
        self.context.on("dialog", self._asked)

    def page(self) -> Page:
        """Open an empty page."""
        return self.context.new_page()

    def open(self, path: str = "/") -> Page:
        """Open a page of the console."""
        page = self.page()
        page.goto(self.address + path)
        return page

    def log_in(self, token: str) -> Page:
        """Log in and return the page that follows."""
        page = self.open("/login")
        page.get_by_label("Your token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{self.address}/")
        return page

    def await_data(self) -> None:
        """Wait until the console has read letters and jobs: until then a letter and a job are not there."""
        page = self.page()
        for path, reading in (("/letters", "is being built"), ("/jobs", "are being read")):
            page.goto(self.address + path)
            expect(page.locator("#list")).not_to_contain_text(reading)
        page.close()

    def check(self) -> None:
        """Assert that nothing happened that must not."""
        for page in self.context.pages:
            if page.url.startswith(self.address):
                self.mishaps += [f"policy violated: {each}" for each in page.evaluate("window.seen.violations")]
        left = [each for each in self.mishaps if not any(part in each for part in self.expected)]
        assert not left, "\n".join(left)

    def _requested(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob"} and f"{parts.scheme}://{parts.netloc}" != self.address:
            self.mishaps.append(f"request to another host: {request.url}")

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            where = message.location["url"]
            self.mishaps.append(f"{message.type} in the console of the browser: {message.text} ({where})")

    def _asked(self, dialog: Dialog) -> None:
        self.mishaps.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def visiting(browser: Browser, address: str, size: tuple[int, int] = WIDE, **options: object) -> Iterator[Visit]:
    """Visit a console in a browser without cookies; at the end nothing must have happened that must not."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, **options)  # type: ignore[arg-type]
    visit = Visit(context, address)
    try:
        yield visit
        visit.check()
    finally:
        context.close()
