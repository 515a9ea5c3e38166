"""The group: what moves, what waits for its time, its topics and what is wrong with them, and outages."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.access import Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS
from kafka_redelivery.cli.console.requests import action, go_to, text_of
from kafka_redelivery.cli.console.tasks import signature
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.operations import outages, pausing
from kafka_redelivery.consumers.operations.flow import Flow
from kafka_redelivery.dead_letters.audit import note_outage
from kafka_redelivery.topology.cluster.changes import changes, topic_rows

_BARS: Final = 60
_FEWEST: Final = 10
"""Without some room beside it, a single bar has no label."""

_WIDTHS_S: Final = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 43_200, 86_400, 604_800)
_WITHIN_S: Final = 5.0
_OBEYED_S: Final = 3.0


def show(console: Console, request: Request) -> Response:
    """Show what moves, what waits and what is stuck."""
    return console.page(request, "flow.html", flow=console.flow.value, kept=console.kept())


def show_waiting(console: Console, request: Request) -> Response:
    """Show what waits, and when it is due."""
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
    numbers = [0] * max(_FEWEST, min(_BARS + 1, (last - start) // width_s + 1))
    for each in due:
        numbers[min(len(numbers) - 1, (each - start) // width_s)] += 1
    at = [start + number * width_s for number in range(len(numbers))]
    return json.dumps({"at": at, "series": ["records due"], "values": [numbers]}), width_s


def show_topology(console: Console, request: Request, problem: str = "", field: str = "") -> Response:
    """Show topics, faults, pauses and outages.

    Args:
        console: the console.
        request: what is asked for.
        problem: what is wrong with the form of an outage that was sent, or why a pause does not end.
        field: the field that it is about.
    """
    console.look_at_topology()
    look, flow = console.topology.value, console.flow.value
    rows = [] if look is None else topic_rows(look.plan, look.cluster, changes(look.plan, look.cluster))
    return console.page(
        request,
        "topology.html",
        HTTPStatus.BAD_REQUEST if problem else HTTPStatus.OK,
        look=look,
        at_ms=console.topology.at_ms,
        topology_problem=console.topology.problem,
        rows=rows,
        flow=flow,
        form_problem=problem,
        wrong=field,
        dependencies=list(console.settings.dependencies),
    )


@action(Role.OPERATOR)
def refresh(console: Console, _request: Request, _form: FormData, _user: User) -> Response:
    """Look again."""
    console.look_at_topology()
    console.topology.produce_now(_WITHIN_S)
    return go_to("/topology")


@action(Role.OPERATOR)
def open_outage(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Say that a dependency is away."""
    until, until_ms = text_of(form, "until"), None
    name = _dependency(console, form)
    try:
        if until:
            until_ms = pausing.end_of_pause(until, wall_clock_ms())
        if not text_of(form, "sure"):
            problem = f"confirm that the records that need {name} are to wait"
            return show_topology(console, request, problem, "sure")
        note_outage(console.settings, signature(user), name, until_ms, opens=True)
        outages.open_outage(console.settings, name, signature(user), until_ms, _OBEYED_S)
    except LIBRARY_ERRORS as error:
        return show_topology(console, request, str(error), "until")
    console.flow.produce_now(_WITHIN_S)
    return go_to("/topology#outages")


@action(Role.OPERATOR)
def close_outage(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Say that a dependency is back."""
    name = _dependency(console, form)
    try:
        note_outage(console.settings, signature(user), name, None, opens=False)
        outages.close_outage(console.settings, name, signature(user), _OBEYED_S)
    except LIBRARY_ERRORS as error:
        return show_topology(console, request, str(error), "dependency")
    console.flow.produce_now(_WITHIN_S)
    return go_to("/topology#outages")


def _dependency(console: Console, form: FormData) -> str:
    name = text_of(form, "dependency")
    if problem := outages.unknown_dependency(console.settings, name):
        raise HTTPException(HTTPStatus.BAD_REQUEST, problem)
    return name
