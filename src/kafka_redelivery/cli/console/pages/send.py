"""Redrive and discard: what would be sent, and the form that does it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.commands.dlq_options import DEFAULT_MAX_REDRIVES
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.requests import action, go_to, refuse_without, text_of
from kafka_redelivery.cli.console.selection_form import Chosen, chosen
from kafka_redelivery.cli.console.users import Role, User
from kafka_redelivery.cli.views.dlq import preview_document
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.creation import Preview, preview
from kafka_redelivery.dead_letters.standing import UNKNOWN_OUTCOME
from kafka_redelivery.topology.redrive.job import MAX_RATE, MIN_RATE, JobOptions
from kafka_redelivery.topology.redrive.topic_ids import TopicIds

_SETTLED_S = 3.0
"""A small job is created in this time, so that its own page is shown at once."""


class Asked(NamedTuple):
    """What a form asks for."""

    wanted: Chosen
    options: JobOptions
    given: dict[str, str]
    """The fields as they were given."""

    faults: dict[str, str]
    preview: Preview | None = None
    """``None`` if the index cannot tell."""

    fault: str = ""
    """Why nothing can be sent."""

    topics: TopicIds = TopicIds()
    """The ids of the dead-letter topics before the preview."""


async def show_redrive(console: Console, request: Request) -> Response:
    """Show what a redrive would send."""
    return await console.in_thread(_show, console, request, discard=False)


async def show_discard(console: Console, request: Request) -> Response:
    """Show what a discard would set aside."""
    return await console.in_thread(_show, console, request, discard=True)


@action(Role.OPERATOR)
async def redrive(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Send letters again."""
    return await console.in_thread(_do, console, request, form, user, discard=False)


@action(Role.OPERATOR)
async def discard(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Set letters aside."""
    return await console.in_thread(_do, console, request, form, user, discard=True)


def _show(console: Console, request: Request, *, discard: bool) -> Response:
    refuse_without(console, request, Role.OPERATOR)
    return _page(console, request, _asked(console, request.query_params, discard=discard))


def _page(console: Console, request: Request, asked: Asked, status: int = HTTPStatus.OK, **more: Any) -> Response:  # noqa: ANN401
    letters = 0 if asked.preview is None else asked.preview.total
    counts = console.options.needs_number(letters, discard=asked.options.discard)
    context = {"asked": asked, "counts": counts, "notice": "", "number_fault": "", **more}
    return console.page(request, "send.html", status, **context)


def _do(console: Console, request: Request, form: FormData, user: User, *, discard: bool) -> Response:
    asked = _asked(console, form, discard=discard)
    if asked.faults or asked.wanted.faults or asked.fault:
        return _page(console, request, asked, HTTPStatus.BAD_REQUEST)
    problem = TopicIds.read(text_of(form, "topics")).difference(asked.topics, "the preview")
    if problem:
        undone = "set aside" if discard else "sent"
        notice = f"{problem}; nothing was {undone}. This is the preview of what is there now."
        return _page(console, request, asked, HTTPStatus.CONFLICT, notice=notice)
    chosen_now = asked.preview
    if chosen_now is not None:
        if not chosen_now.total:
            return _page(console, request, asked, HTTPStatus.BAD_REQUEST)
        expected = text_of(form, "expected")
        if expected != str(chosen_now.total):
            before = expected or "not counted"
            notice = f"The selection has changed: it was {before}, and is {chosen_now.total} letters now."
            return _page(console, request, asked, HTTPStatus.CONFLICT, notice=notice)
        asks = console.options.needs_number(chosen_now.total, discard=discard)
        if asks and text_of(form, "number").replace(",", "") != str(chosen_now.total):
            fault = f"enter the number of letters, {chosen_now.total}, to confirm"
            return _page(console, request, asked, HTTPStatus.BAD_REQUEST, number_fault=fault)
    state = console.index.value
    if state is None:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "Kafka does not answer, so that nothing can be sent now")
    shown = {} if chosen_now is None else preview_document(chosen_now)
    task = console.tasks.send(user, asked.wanted.selection, asked.options, shown, state.ends, asked.topics)
    task.settled.wait(_SETTLED_S)
    console.jobs.look()
    return go_to(f"/jobs/{task.job}" if task.job else f"/tasks/{task.id}")


def _asked(console: Console, given: QueryParams | FormData, *, discard: bool) -> Asked:
    wanted = chosen(given, hide_payloads=console.options.hide_payloads)
    texts = {name: str(given.get(name, "")).strip()[:300] for name in ("to", "rate", "max_redrives", "again", "keep")}
    faults: dict[str, str] = {}
    rate = _number(texts["rate"], "rate", faults, MIN_RATE, MAX_RATE)
    most = _number(texts["max_redrives"], "max_redrives", faults, 1, 2**31 - 1)
    group = console.settings.group
    if discard:
        again = not UNKNOWN_OUTCOME.isdisjoint(wanted.selection.states)
        options = JobOptions(group=group, discard=True, again=again)
    else:
        options = JobOptions(
            group=group,
            to=texts["to"] or None,
            rate=rate,
            again=bool(texts["again"]),
            keep_attempts=bool(texts["keep"]),
            max_redrives=DEFAULT_MAX_REDRIVES if most is None else int(most),
        )
    state = console.index.value  # before the index is asked: what it says is of these topics, or of later ones
    asked = Asked(wanted, options, texts, faults, topics=TopicIds() if state is None else state.ids)
    if faults or wanted.faults:
        return asked
    topics = {} if state is None else state.topics
    try:
        found = console.letters.ask(
            ("preview", wanted.key, options, wall_clock_ms() // 1000),
            lambda index: (
                preview(console.settings, index, wanted.selection, options, topics, wall_clock_ms())
                if index.can_select(wanted.selection)
                else None
            ),
        )
    except LIBRARY_ERRORS as error:
        return asked._replace(fault=str(error))
    return asked._replace(preview=found)


def _number(text: str, name: str, faults: dict[str, str], least: float, most: float) -> float | None:
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not least <= found <= most:
        faults[name] = f"{text!r} is no number of at least {least:g}"
        return None
    return found
