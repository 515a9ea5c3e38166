"""Pages from templates. Everything that comes from records is escaped; there is no way around it in a template."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from kafka_redelivery.cli.console import formatting
from kafka_redelivery.cli.console.assets import Asset, Assets
from kafka_redelivery.cli.console.users import Role
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.standing import LetterState

_log = logging.getLogger(__name__)
_TEMPLATES: Final = Path(__file__).parent / "templates"


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
            "number": formatting.number,
            "short": formatting.short_number,
            "span": formatting.span,
            "time": formatting.time,
            "size": formatting.size,
            "line": formatting.line,
            "lines": formatting.lines,
            "ago": lambda at_ms: formatting.ago(at_ms, wall_clock_ms()),
        }
        self._environment.globals |= {
            "sparkline": formatting.sparkline,
            "share": formatting.share,
            "selected": formatting.selected,
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
