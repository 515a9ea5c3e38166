"""The group: what moves, its topics and what is wrong with them, and outages."""

from __future__ import annotations

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
from kafka_redelivery.dead_letters.audit import note_outage
from kafka_redelivery.topology.cluster.changes import changes, topic_rows

_WITHIN_S: Final = 5.0
_OBEYED_S: Final = 3.0


def show(console: Console, request: Request) -> Response:
    """Show what moves, what waits and what is stuck."""
    return console.page(request, "flow.html", flow=console.flow.value, kept=console.kept())


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
