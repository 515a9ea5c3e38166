"""What waits for its time: by tier, and when it is due."""

from __future__ import annotations

import json
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.flow import Flow

_BARS: Final = 60
_WIDTHS_S: Final = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 43_200, 86_400, 604_800)


async def show(console: Console, request: Request) -> Response:
    """Show what waits."""
    return await console.in_thread(_show, console, request)


def _show(console: Console, request: Request) -> Response:
    flow = console.flow.value
    chart, width_s = (None, 0) if flow is None else _chart(flow)
    return console.page(request, "waiting.html", flow=flow, chart=chart, width_s=width_s)


def _chart(flow: Flow) -> tuple[str | None, int]:
    """Return how many records are due when, as JSON for the chart, and how long a bar lasts."""
    due = sorted(each // 1000 for tier in flow.of("tier") for each in tier.due_ms)
    if not due:
        return None, 0
    first, last = due[0], due[-1]
    width_s = next((each for each in _WIDTHS_S if (last - first) / each <= _BARS), _WIDTHS_S[-1])
    start = first // width_s * width_s
    numbers = [0] * min(_BARS + 1, (last - start) // width_s + 1)
    for each in due:
        numbers[min(len(numbers) - 1, (each - start) // width_s)] += 1
    at = [start + number * width_s for number in range(len(numbers))]
    return json.dumps({"at": at, "series": ["records due"], "values": [numbers]}), width_s
