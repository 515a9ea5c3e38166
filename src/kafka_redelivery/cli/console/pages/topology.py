"""The topics of the group, what is wrong with them, and pauses."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import typer
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.requests import action, go_to, text_of
from kafka_redelivery.cli.console.tasks import signature
from kafka_redelivery.cli.console.users import Role, User
from kafka_redelivery.cli.options import point_in_time
from kafka_redelivery.cli.views.topology import topic_rows
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.operations import pausing
from kafka_redelivery.consumers.process.pause_watch import pause_text
from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.topology.cluster.changes import changes
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.wire.pauses import PauseScope, PauseTarget
from kafka_redelivery.transport.admin.topic_metadata import TopicMetadataCache

_WITHIN_S: Final = 5.0
_OBEYED_S: Final = 3.0


async def show(console: Console, request: Request) -> Response:
    """Show topics, faults and pauses."""
    console.look_at_topology()
    return await console.in_thread(_show, console, request)


@action(Role.OPERATOR)
async def refresh(console: Console, _request: Request, _form: FormData, _user: User) -> Response:
    """Look again."""
    console.look_at_topology()
    await console.in_thread(console.topology.produce_now, _WITHIN_S)
    return go_to("/topology")


@action(Role.OPERATOR)
async def pause(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Pause the group, a source or a tier."""
    return await console.in_thread(_pause, console, request, form, user)


@action(Role.OPERATOR)
async def resume(console: Console, request: Request, form: FormData, user: User) -> Response:
    """End a pause, or all."""
    return await console.in_thread(_resume, console, request, form, user)


def _show(console: Console, request: Request, problem: str = "", field: str = "") -> Response:
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
        pause_text=pause_text,
        sources=[each.topic for each in console.settings.sources],
        tiers=[] if flow is None else [each.topic for each in flow.of("tier")],
        pause_problem=problem,
        pause_field=field,
        given={"target": "", "until": ""},
    )


def _pause(console: Console, request: Request, form: FormData, user: User) -> Response:
    now_ms, until = wall_clock_ms(), text_of(form, "until")
    until_ms = None
    if until:
        try:
            until_ms = point_in_time(until, "until", now_ms, ago=False)
        except typer.BadParameter as error:
            return _show(console, request, error.message, "until")
        if until_ms <= now_ms:
            return _show(console, request, f"{until} is in the past", "until")
    try:
        targets = _targets(console, text_of(form, "target"))
        about = ", ".join(map(str, targets)) + (f" until {printable_time(until_ms)}" if until_ms else "")
        write_note(console.settings, signature(user), "pause", about)
        pausing.pause(console.settings, targets, until_ms, _OBEYED_S)
    except LIBRARY_ERRORS as error:
        return _show(console, request, str(error), "target")
    console.flow.produce_now(_WITHIN_S)
    return go_to("/topology#pauses")


def _resume(console: Console, request: Request, form: FormData, user: User) -> Response:
    scope, topic = text_of(form, "scope"), text_of(form, "topic")
    try:
        targets = [PauseTarget(PauseScope(scope), topic)] if scope else []
        write_note(console.settings, signature(user), "resume", ", ".join(map(str, targets)) or "all pauses")
        pausing.resume(console.settings, targets, _OBEYED_S)
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "this form is damaged") from None
    except LIBRARY_ERRORS as error:
        return _show(console, request, str(error), "target")
    console.flow.produce_now(_WITHIN_S)
    return go_to("/topology#pauses")


def _targets(console: Console, text: str) -> list[PauseTarget]:
    kind, _, name = text.partition(":")
    topics = TopicMetadataCache(console.settings.kafka)
    sources, tiers = [name] if kind == "source" else [], [name] if kind == "tier" else []
    return pausing.targets_of(console.settings, sources, tiers, topics)
