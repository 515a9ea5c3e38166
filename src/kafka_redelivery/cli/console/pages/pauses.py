"""Pauses: what would stand still, the form that pauses it, and its end."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.access import Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS
from kafka_redelivery.cli.console.pages.group import show_topology
from kafka_redelivery.cli.console.requests import action, go_to, note_of, refuse_without, text_of
from kafka_redelivery.cli.console.tasks import signature
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.operations import pausing
from kafka_redelivery.consumers.operations.flow import Flow
from kafka_redelivery.dead_letters.audit import note_pause
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.wire.pauses import PauseScope, PauseTarget
from kafka_redelivery.transport.admin.topics import TopicMetadataCache

_WITHIN_S: Final = 5.0
_OBEYED_S: Final = 3.0

_DURATIONS: Final = {"10m": "10 minutes", "30m": "30 minutes", "1h": "1 hour", "4h": "4 hours", "12h": "12 hours"}
FOREVER: Final = "resumed"
"""What the form says instead of a duration."""


class Stop(NamedTuple):
    """What a pause can stop, and what then waits."""

    target: str
    name: str
    waits: int | None
    """Records that are not handled, or not released, yet; ``None`` = not known."""

    rate: float
    """Records in a second that would stand still."""

    exact: bool
    paused: bool


def stops(settings: Settings, flow: Flow | None) -> list[Stop]:
    """Return what can be paused: each source, each tier, and the group."""
    known = {} if flow is None else {each.topic: each for each in flow.status.backlogs}
    movements, paused = ({}, frozenset[str]()) if flow is None else (flow.movements, flow.paused)

    def stop(target: str, name: str, topics: Iterable[str], *, already: bool) -> Stop:
        there = [each for each in topics if each in known]
        waits = sum(known[each].records for each in there) if there else None
        exact = all(known[each].exact for each in there)
        return Stop(target, name, waits, sum(movements[each].handled for each in there), exact, already)

    sources, ready = [each.topic for each in settings.sources], settings.naming().ready_topic
    tiers = [] if flow is None else [each.topic for each in flow.of("tier")]
    return [
        *(stop(f"source:{each}", f"source {each}", [each, ready(each)], already=each in paused) for each in sources),
        *(stop(f"tier:{each}", f"tier {each}", [each], already=each in paused) for each in tiers),
        stop("group", "the whole group", known, already=flow is not None and flow.all_paused),
    ]


def show(console: Console, request: Request, problem: str = "", field: str = "", **given: str) -> Response:
    """Show what a pause would stop; ``problem``: what is wrong with a form that was sent."""
    refuse_without(console, request, Role.OPERATOR)
    flow = console.flow.value
    return console.page(
        request,
        "pause.html",
        HTTPStatus.BAD_REQUEST if problem else HTTPStatus.OK,
        flow=flow,
        stops=stops(console.settings, flow),
        durations=_DURATIONS,
        forever=FOREVER,
        given={"target": request.query_params.get("target", ""), "for": "30m", "until": "", "note": ""} | given,
        form_problem=problem,
        wrong=field,
    )


@action(Role.OPERATOR)
def pause(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Pause a source, a tier or the group, for a while or until it is resumed."""
    given = {name: text_of(form, name) for name in ("target", "for", "until")} | {"note": note_of(form)}
    try:
        until_ms = _until_ms(given["until"] or given["for"])
        targets = _targets(console, given["target"])
        by, note = signature(user), given["note"]
        note_pause(console.settings, by, targets, until_ms, note, pauses=True)
        pausing.pause(console.settings, targets, until_ms, _OBEYED_S, by=by, note=note)
    except LIBRARY_ERRORS as error:
        field = error.option if isinstance(error, OptionError) else "target"
        return show(console, request, str(error), field, **given)
    console.flow.produce_now(_WITHIN_S)
    return go_to("/topology#pauses")


@action(Role.OPERATOR)
def resume(console: Console, request: Request, form: FormData, user: User) -> Response:
    """End a pause."""
    scope, topic = text_of(form, "scope"), text_of(form, "topic")
    try:
        target = PauseTarget(PauseScope(scope), topic)
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "this form is damaged") from None
    try:
        note_pause(console.settings, signature(user), [target], None, "", pauses=False)
        pausing.resume(console.settings, [target], _OBEYED_S)
    except LIBRARY_ERRORS as error:
        return show_topology(console, request, str(error), "resume")
    console.flow.produce_now(_WITHIN_S)
    return go_to("/topology#pauses")


def _until_ms(text: str) -> int | None:
    """Return when a pause ends (epoch ms).

    Raises:
        OptionError: that is not said, or is wrong.
    """
    if not text:
        raise OptionError("until", "choose how long, or a time")
    return None if text == FOREVER else pausing.end_of_pause(text, wall_clock_ms())


def _targets(console: Console, text: str) -> list[PauseTarget]:
    kind, _, name = text.partition(":")
    if not (text == "group" or (kind in {"source", "tier"} and name)):
        raise OptionError("target", "choose what is paused")
    topics = TopicMetadataCache(console.settings.kafka)
    sources, tiers = [name] if kind == "source" else [], [name] if kind == "tier" else []
    return pausing.targets_of(console.settings, sources, tiers, topics)
