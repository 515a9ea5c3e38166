"""Pages from templates, with what they show and load: numbers, times and texts, scripts and styles.

Everything that comes from records is escaped; there is no way around it in a template.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kafka_redelivery.cli.console.access import Role
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.process.pause_watch import pause_text
from kafka_redelivery.dead_letters.letter import LetterState
from kafka_redelivery.topology.printable import printable, printable_line, printable_time

_TEMPLATES: Final = Path(__file__).parent / "templates"
FOLDER: Final = Path(__file__).parent / "assets"
MANIFEST: Final = "manifest.json"
"""Names, versions, licences and SHA-256 of the files that others wrote."""

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_YEAR_S: Final = 31_536_000
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_KIB: Final = 1024


class Asset(NamedTuple):
    """One file."""

    name: str
    content: bytes
    digest: bytes

    @property
    def address(self) -> str:
        """The path under which it is served; another content has another one."""
        return f"/assets/{self.digest.hex()[:16]}/{self.name}"

    @property
    def integrity(self) -> str:
        """What a page says about it, so that a browser refuses any other content."""
        return "sha256-" + base64.b64encode(self.digest).decode()


class Assets:
    """All files, which are read once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._assets = {each.name: _asset(each) for each in sorted(folder.iterdir()) if each.suffix in _TYPES}

    def __getitem__(self, name: str) -> Asset:
        return self._assets[name]

    def serve(self, request: Request) -> Response:
        """Return a file. Its address names its content, so that a browser may keep it."""
        found = self._assets.get(request.path_params["name"])
        if found is None or found.digest.hex()[:16] != request.path_params["digest"]:
            return Response("there is no such file", 404, media_type="text/plain")
        headers = {"Cache-Control": f"public, max-age={_YEAR_S}, immutable"}
        return Response(found.content, headers=headers, media_type=_TYPES[Path(found.name).suffix])


def manifest(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return what is known of the files that others wrote."""
    found: list[dict[str, Any]] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return found


def _asset(file: Path) -> Asset:
    content = file.read_bytes()
    return Asset(file.name, content, hashlib.sha256(content).digest())


class Rendering:
    """Renders templates."""

    def __init__(self, assets: Assets, common: Mapping[str, Any]) -> None:
        """Take the assets, and what all templates may name."""
        self._environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "number": number,
            "short": short_number,
            "span": span,
            "time": time,
            "size": size,
            "line": line,
            "sentence": sentence,
            "prose": prose,
            "ago": lambda at_ms: ago(at_ms, wall_clock_ms()),
        }
        self._environment.globals |= {
            "sparkline": sparkline,
            "share": share,
            "pause_text": pause_text,
            "selected": selected,
            "stylesheet": lambda name: _stylesheet(assets[name]),
            "script": lambda name: _script(assets[name]),
            "theme_script": lambda: _script(assets["theme.js"], "blocking"),
            "now_ms": wall_clock_ms,
            "Role": Role,
            "LetterState": LetterState,
            **common,
        }

    def text(self, template: str, **context: Any) -> str:  # noqa: ANN401 - what a template names
        """Return a rendered template."""
        return self._environment.get_template(template).render(**context)

    def page(self, template: str, status: int = HTTPStatus.OK, **context: Any) -> HTMLResponse:  # noqa: ANN401
        """Return a response with a rendered template."""
        return HTMLResponse(self.text(template, **context), status)


def _stylesheet(asset: Asset) -> Markup:
    return Markup('<link rel="stylesheet" href="{}" integrity="{}">').format(asset.address, asset.integrity)


def _script(asset: Asset, when: str = "defer") -> Markup:
    """Return the element of a script; ``blocking``: it runs before the page is shown."""
    waits = Markup(" defer") if when == "defer" else ""
    return Markup('<script src="{}" integrity="{}"{}></script>').format(asset.address, asset.integrity, waits)


def number(value: float | None) -> str:
    """Return a number with separators; a dash if it is not known."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash
    return f"{value:,.0f}" if isinstance(value, int) or value >= 10 else f"{value:,.1f}"  # noqa: PLR2004 - digits


def short_number(value: float) -> str:
    """Return a number in at most five characters, such as ``1.2 M``."""
    for limit, divisor, unit in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if value >= limit:
            return f"{value / divisor:.3g}{unit}"
    return f"{value:,.0f}"


def span(ms: float) -> str:
    """Return a length of time in its largest unit, such as ``12 min``."""
    for unit, name in _UNITS:
        if abs(ms) >= unit:
            shown = ms / unit
            return f"{shown:.0f} {name}" if abs(shown) >= 10 or unit == 1000 else f"{shown:.1f} {name}"  # noqa: PLR2004
    return "0 s"


def ago(at_ms: int, now_ms: int) -> str:
    """Return a time as people say it: ``3 min ago``, or ``in 20 s``."""
    distance_ms = now_ms - at_ms
    if abs(distance_ms) < 1000:  # noqa: PLR2004 - a second
        return "now"
    return f"{span(distance_ms)} ago" if distance_ms > 0 else f"in {span(-distance_ms)}"


def time(at_ms: int | None) -> str:
    """Return a time to the second, in UTC."""
    return "" if at_ms is None else printable_time(at_ms).removesuffix(" UTC")


def size(count: int | None) -> str:
    """Return a number of bytes."""
    if count is None:
        return "null"
    if count < _KIB:
        return f"{count} bytes"
    return f"{count / _KIB:.1f} KiB" if count < _KIB * _KIB else f"{count / _KIB / _KIB:.1f} MiB"


def share(part: int, whole: int) -> str:
    """Return a share in per cent, never rounded to 0 or 100 if it is not."""
    if not whole:
        return ""
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "< 1 %"
    if 99 < percent < 100:  # noqa: PLR2004 - per cent
        return "> 99 %"
    return f"{percent:.0f} %"


def line(text: object) -> str:
    """Return a text as one line in which nothing but what can be seen is left."""
    return printable_line(str(text))


def sentence(text: str) -> str:
    """Return the text of an exception as one line: a space is between its lines."""
    return line(text.replace("\n", " "))


def prose(text: object) -> Markup:
    """Return a message for people as HTML, all of it escaped: commands in backticks as code, and its lines as lines."""
    parts = printable(str(text)).split("`")
    if len(parts) % 2 == 0:  # one of them stands alone
        parts = ["`".join(parts)]
    marked = (Markup("<code>{}</code>").format(each) if at % 2 else escape(each) for at, each in enumerate(parts))
    return Markup("").join(marked).replace("\n", Markup("<br>"))


def selected(name: str, value: object) -> str:
    """Return a part of a job's selection as one line, whatever it is: who may write jobs may have forged it."""
    if name in {"sinceMs", "untilMs"} and isinstance(value, int):
        return printable_time(value)
    return line(", ".join(map(str, value)) if isinstance(value, list) else value)


def sparkline(numbers: Sequence[int], label: str) -> Markup:
    """Return bars for numbers as an SVG picture."""
    highest = max(numbers, default=0) or 1
    width = 8 * len(numbers)
    bars = Markup("").join(
        Markup('<rect x="{}" y="{}" width="6" height="{}" rx="1"/>').format(
            8 * at + 1, round(28 - max(2, 26 * each / highest), 1), round(max(2, 26 * each / highest), 1)
        )
        for at, each in enumerate(numbers)
        if each
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} 28" width="{w}" height="28" role="img" aria-label="{label}">'
        '<path class="spark-base" d="M0 27.5H{w}"/>{bars}</svg>'
    ).format(w=width, label=label, bars=bars)
