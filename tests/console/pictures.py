"""Pictures of the console for docs/images/console: ``python -m tests.console.pictures``.

The group is that of the flights demo after a bad day: planes were not known, and their flights are sent again while the
pictures are taken.
"""

import io
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Browser, expect

from tests.console.browsing import NARROW, WIDE, chromium, visiting
from tests.console.design import settle
from tests.console.flights import Flights, failed_flights
from tests.console.serving import serving
from tests.scenarios.commands import in_process

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images" / "console"

_COLOURS: Final = 96
_BEFORE: Final = {
    "edit": "/letters/{letter}/edit",
    "redrive": "/redrive?exception=UnknownPlaneError&state=waiting&rate=50",
}
"""Views of letters before they are sent."""

_WHILE: Final = {
    "flow": "/",
    "failures": "/failures?state=any",
    "letters": "/letters",
    "letter": "/letters/{letter}",
    "job": "/jobs/{job}",
    "waiting": "/waiting",
    "topology": "/topology",
    "audit": "/audit",
}
"""Views of a group with a job that runs."""

_SIZES: Final = {"wide": WIDE, "narrow": NARROW}


def main() -> int:
    """Write all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, failed_flights(Path(name)) as failed:
        failed.wait()
        with serving(failed.group) as console, chromium() as browser:
            letter = prepare(browser, console.address, failed)
            take(browser, console.address, _BEFORE, letter=letter)
            take(browser, console.address, _WHILE, letter=letter, job=begin(browser, console.address))
    print(f"{sum(file.stat().st_size for file in FOLDER.iterdir()):,} bytes in {FOLDER}")  # noqa: T201
    return 0


def prepare(browser: Browser, address: str, failed: Flights) -> str:
    """Discard and redrive some letters, pause a tier, and return a letter that waits."""
    for arguments in (
        ("dlq", "discard", "--reason", "undecodable", "--yes"),
        ("dlq", "redrive", "--where", "message like '%1%'", "--yes"),
        ("pause", "--tier", failed.group.tier("15m")),
    ):
        done = in_process(*arguments, file=failed.group.file)
        assert done.code == 0, done
    failed.send_planes(failed.late)
    with visiting(browser, address) as visit:
        # The console may not know of the job yet, which does not have these.
        page = visit.open("/letters?exception=UnknownPlaneError&state=waiting&where=message not like '%251%25'")
        return page.locator("#list a.id").nth(3).inner_text()


def begin(browser: Browser, address: str) -> str:
    """Begin to redrive what waits, slowly, and return the job when it has got somewhere."""
    with visiting(browser, address) as visit:
        page = visit.open("/redrive?exception=UnknownPlaneError&state=waiting&rate=1")
        number = page.get_by_label("Enter the number of letters to confirm")
        if number.count():
            number.fill(page.locator("#preview .n").inner_text())
        page.get_by_role("button", name="Redrive").click()
        expect(page.locator("#job .n")).to_have_text(re.compile("^[1-9][0-9]$"))
        return page.url.rpartition("/")[2]


def take(browser: Browser, address: str, views: Mapping[str, str], **names: str) -> None:
    """Take a picture of each view in each window and colour."""
    for size_name, size in _SIZES.items():
        with visiting(browser, address, size) as visit:
            page = visit.page()
            for name, path in views.items():
                page.emulate_media(color_scheme="light")
                page.goto(address + path.format(**names))
                settle(page)
                page.wait_for_timeout(2500)  # the first event of the stream, and what is loaded afterwards
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme)
                    page.wait_for_timeout(300)
                    _save(page.screenshot(), FOLDER / f"{name}-{size_name}-{scheme}.png")


def _save(picture: bytes, file: Path) -> None:
    """Write a picture with few colours, which is a quarter of the size."""
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
