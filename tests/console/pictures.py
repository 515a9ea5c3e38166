"""Pictures of the console for docs/images/console: ``python -m tests.console.pictures``.

The group is that of the flights demo after a bad day: planes were not known, and their flights are sent again while the
pictures are taken.
"""

import io
import sys
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Browser, expect

from tests.console.browsing import NARROW, WIDE, chromium, visiting
from tests.console.design import settle
from tests.console.flights import DEAD_LETTERS, Flights, failed_flights
from tests.console.serving import serving
from tests.scenarios.commands import in_process
from tests.scenarios.waiting import LONG_S, until

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images" / "console"

_COLOURS: Final = 48
_LETTER: Final = f"{DEAD_LETTERS}-0@3"
_VIEWS: Final = {
    "flow": "/",
    "failures": "/failures",
    "letters": "/letters",
    "letter": f"/letters/{_LETTER}",
    "edit": f"/letters/{_LETTER}/edit?again=1",
    "redrive": "/redrive?exception=UnknownPlaneError&state=waiting&rate=50",
    "job": "/jobs/{job}",
    "waiting": "/waiting",
    "topology": "/topology",
    "audit": "/audit",
}
_SIZES: Final = {"wide": WIDE, "narrow": NARROW}


def main(folder: Path = FOLDER) -> int:
    """Write all pictures."""
    with tempfile.TemporaryDirectory() as name, failed_flights(Path(name)) as failed:
        failed.wait()
        with serving(failed.group) as console, chromium() as browser:
            take(browser, console.address, begin(browser, console.address, failed), folder)
    print(f"{sum(file.stat().st_size for file in folder.iterdir()):,} bytes in {folder}")  # noqa: T201
    return 0


def begin(browser: Browser, address: str, failed: Flights) -> str:
    """Discard and redrive some letters, pause a tier, begin to redrive the others slowly, and return that job."""
    file = failed.group.file
    for arguments in (
        ("dlq", "discard", "--reason", "undecodable", "--yes"),
        ("dlq", "redrive", "--id", f"{DEAD_LETTERS}-0@0", "--id", f"{DEAD_LETTERS}-0@1", "--yes"),
        ("pause", "--tier", failed.group.tier("15m")),
    ):
        done = in_process(*arguments, file=file)
        assert done.code == 0, done
    failed.send_planes(failed.late)
    with visiting(browser, address) as visit:
        page = visit.open("/redrive?exception=UnknownPlaneError&state=waiting&rate=4")
        preview = page.locator("#preview")
        until(lambda: "to send" in preview.inner_text() or not page.reload(), "the index is there")
        total = preview.locator(".n").inner_text()
        page.get_by_label("Enter the number of letters to confirm").fill(total)
        page.get_by_role("button", name="Redrive").click()
        expect(page.locator("#job .n")).not_to_have_text("0", timeout=1000 * LONG_S)
        page.wait_for_timeout(8000)
        return page.url.rpartition("/")[2]


def take(browser: Browser, address: str, job: str, folder: Path = FOLDER) -> None:
    """Take a picture of each view in each window and colour."""
    folder.mkdir(parents=True, exist_ok=True)
    for size_name, size in _SIZES.items():
        with visiting(browser, address, size) as visit:
            page = visit.page()
            for name, path in _VIEWS.items():
                page.emulate_media(color_scheme="light")
                page.goto(address + path.format(job=job))
                settle(page)
                page.wait_for_timeout(2500)  # the first event of the stream, and what is loaded afterwards
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme)
                    page.wait_for_timeout(300)
                    _save(page.screenshot(), folder / f"{name}-{size_name}-{scheme}.png")


def _save(picture: bytes, file: Path) -> None:
    """Write a picture with few colours, which is a quarter of the size."""
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
