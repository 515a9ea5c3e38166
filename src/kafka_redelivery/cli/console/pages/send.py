"""Redrive, discard and purge: what would be done, the form that does it, and the task until there is a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.access import Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS, preview_of, removable_of, undecoded
from kafka_redelivery.cli.console.requests import action, go_to, note_of, refuse_without, text_of
from kafka_redelivery.cli.console.selection_form import Chosen, chosen
from kafka_redelivery.cli.console.tasks import Phase, Task, signature
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.creation import Agreed, Preview, discarding
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.purge import Purge, Removable, removable_letters, topics_of
from kafka_redelivery.topology.redrive.job import MAX_RATE, MAX_REDRIVES, MIN_RATE, JobOptions
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.protocols import Partition

_SETTLED_S: Final = 3.0
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

    lacks: str = ""
    """How many values cannot be decoded, and why."""

    note: str = ""
    """Why the user does it."""

    topics: TopicIds = TopicIds()
    """The ids of the dead-letter topics before the preview."""

    ends: Mapping[Partition, int] | None = None
    """The ends of the dead-letter topics before the preview: letters below these are meant."""

    @property
    def skips_refused(self) -> bool:
        """Whether letters are left out that there is no topic for."""
        return bool(self.given.get("skip"))

    @property
    def ends_text(self) -> str:
        """The ends for a field of the form, which :func:`_ends` reads."""
        return json.dumps([[*each, end] for each, end in sorted((self.ends or {}).items())])


def show(console: Console, request: Request, *, discard: bool) -> Response:
    """Show what a redrive or a discard would do."""
    refuse_without(console, request, Role.OPERATOR)
    return _page(console, request, _asked(console, request.query_params, discard=discard))


show_redrive, show_discard = partial(show, discard=False), partial(show, discard=True)


def _page(console: Console, request: Request, asked: Asked, status: int = HTTPStatus.OK, **more: Any) -> Response:  # noqa: ANN401
    preview = asked.preview
    letters = 0 if preview is None else preview.total
    counts = console.options.needs_number(letters, discard=asked.options.discard)
    context = {"asked": asked, "counts": counts, "notice": "", "number_fault": "", **more}
    return console.page(request, "send.html", status, **context)


@action(Role.OPERATOR)
def redrive(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Send letters again."""
    return _do(console, request, form, user, discard=False)


@action(Role.OPERATOR)
def discard(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Set letters aside."""
    return _do(console, request, form, user, discard=True)


def _do(console: Console, request: Request, form: FormData, user: User, *, discard: bool) -> Response:
    asked = _asked(console, form, discard=discard, ends=_ends(text_of(form, "ends")))
    if asked.faults or asked.wanted.faults or asked.fault:
        return _page(console, request, asked, HTTPStatus.BAD_REQUEST)
    problem = TopicIds.read(text_of(form, "topics")).difference(asked.topics, "the preview")
    if problem:
        undone = "set aside" if discard else "sent"
        notice = f"{problem}; nothing was {undone}. This is the preview of what is there now."
        return _page(console, request, asked, HTTPStatus.CONFLICT, notice=notice)
    preview = asked.preview
    if preview is not None:
        if not preview.total:
            return _page(console, request, asked, HTTPStatus.BAD_REQUEST)
        expected = text_of(form, "expected")
        if expected != str(preview.total):
            before = expected or "not counted"
            notice = f"The selection has changed: it was {before}, and is {preview.total} letters now."
            return _page(console, request, asked, HTTPStatus.CONFLICT, notice=notice)
        asks = console.options.needs_number(preview.total, discard=discard)
        if asks and text_of(form, "number").replace(",", "") != str(preview.total):
            fault = f"enter the number of letters, {preview.total}, to confirm"
            return _page(console, request, asked, HTTPStatus.BAD_REQUEST, number_fault=fault)
    if asked.ends is None:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "Kafka does not answer, so that nothing can be sent now")
    shown = {} if preview is None else preview.document()
    agreed = Agreed(shown, asked.ends, asked.topics)
    task = console.tasks.send(
        user, asked.wanted.selection, asked.options, agreed, asked.note, skip_refused=asked.skips_refused
    )
    task.settled.wait(_SETTLED_S)
    console.jobs.look()
    return go_to(task.address)


def _ends(text: str) -> dict[Partition, int] | None:
    """Return the ends of a form; ``None`` if it has none."""
    try:
        return {Partition(str(topic), int(number)): int(end) for topic, number, end in json.loads(text)} or None
    except (ValueError, TypeError, RecursionError):
        return None


def _asked(
    console: Console, given: QueryParams | FormData, *, discard: bool, ends: Mapping[Partition, int] | None = None
) -> Asked:
    wanted = chosen(given, hide_payloads=console.options.hide_payloads)
    texts = {
        name: str(given.get(name, "")).strip()[:300] for name in ("to", "rate", "max_redrives", "again", "keep", "skip")
    }
    faults: dict[str, str] = {}
    rate = _number(texts["rate"], "rate", faults, MIN_RATE, MAX_RATE)
    most = _number(texts["max_redrives"], "max_redrives", faults, 1, 2**31 - 1)
    group = console.settings.group
    if discard:
        options = discarding(group, wanted.selection)
    else:
        options = JobOptions(
            group=group,
            to=texts["to"] or None,
            rate=rate,
            again=bool(texts["again"]),
            keep_attempts=bool(texts["keep"]),
            max_redrives=MAX_REDRIVES if most is None else int(most),
        )
    state = console.index.value  # before the index is asked: what it says is of these topics, or of later ones
    asked = Asked(wanted, options, texts, faults, note=note_of(given))
    if state is not None:
        asked = asked._replace(topics=state.ids, ends=ends or state.ends)
    if faults or wanted.faults:
        return asked
    topics = {} if state is None else state.topics
    try:
        preview = preview_of(console.letters, wanted, options, topics, asked.ends, skip_refused=asked.skips_refused)
        return asked._replace(preview=preview, lacks=undecoded(console.letters, wanted))
    except LIBRARY_ERRORS as error:
        return asked._replace(fault=str(error))


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


def show_purge(console: Console, request: Request, fault: str = "", status: int = HTTPStatus.OK) -> Response:
    """Show what would be removed."""
    refuse_without(console, request, Role.ADMIN)
    found: dict[Partition, Removable] = {}
    try:
        found = removable_of(console.letters, console.index.value)
    except LIBRARY_ERRORS as error:
        fault, status = str(error), HTTPStatus.SERVICE_UNAVAILABLE
    total, topics = removable_letters(found), topics_of(found)
    return console.page(request, "purge.html", status, found=found, total=total, topics=topics, purge_fault=fault)


@action(Role.ADMIN)
def purge(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Remove letters."""
    shown = removable_of(console.letters, console.index.value)
    problem = TopicIds.read(text_of(form, "topics")).difference(topics_of(shown), "the preview")
    if problem:
        return show_purge(console, request, f"{problem}; nothing was removed", HTTPStatus.CONFLICT)
    total = removable_letters(shown)
    if not total:
        raise HTTPException(HTTPStatus.CONFLICT, "there is nothing to remove any more")
    if text_of(form, "number").replace(",", "") != str(total):
        return show_purge(console, request, f"enter the number of letters, {total}, to confirm", HTTPStatus.BAD_REQUEST)

    def make(task: Task) -> None:
        with console.tasks.index(Selection(), console.tasks.progress(task)) as index:
            found = Purge.of(console.settings, index, shown)
        failed = found.remove(signature(user), note_of(form))
        task.result = f"{removable_letters(found.chosen, failed)} dead letters are removed"
        if failed:
            why = "; ".join(f"{each.topic}-{each.number} stays: {reason}" for each, reason in failed.items())
            raise RedriveError(f"{task.result}; {why}")

    task = console.tasks.begin(user, "purge", make)
    task.settled.wait(_SETTLED_S)
    return go_to(task.address)


def show_task(console: Console, request: Request) -> Response:
    """Show how far a task is; it leads to its job as soon as there is one."""
    task = _task(console, request)
    if task.job:
        if request.headers.get("HX-Request"):
            return Response(headers={"HX-Redirect": task.address})
        return go_to(task.address)
    return _task_page(console, request, task)


@action(Role.OPERATOR)
def answer(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Go on, or leave it."""
    task = _task(console, request)
    if task.user.name != user.name:
        raise HTTPException(HTTPStatus.FORBIDDEN, f"{task.user.name} has begun this, and is asked")
    now = task.chosen
    if task.phase is Phase.ASKING and now is not None:
        total, agreed = now.total, text_of(form, "answer") == "yes"
        asks = agreed and _needs_number(console, task)
        if asks and text_of(form, "number").replace(",", "") != str(total):
            fault = f"enter the number of letters, {total}, to confirm"
            return _task_page(console, request, task, HTTPStatus.BAD_REQUEST, fault)
        task.agreed = agreed
        task.settled.clear()
        task.answered.set()
        task.settled.wait(_SETTLED_S)
    return go_to(task.address)


def _task_page(
    console: Console, request: Request, task: Task, status: int = HTTPStatus.OK, number_fault: str = ""
) -> Response:
    counts = _needs_number(console, task)
    return console.page(request, "task.html", status, task=task, counts=counts, number_fault=number_fault)


def _needs_number(console: Console, task: Task) -> bool:
    letters = 0 if task.chosen is None else task.chosen.total
    return console.options.needs_number(letters, discard=task.what == "discard")


def _task(console: Console, request: Request) -> Task:
    try:
        return console.tasks[request.path_params["task"]]
    except KeyError:
        raise HTTPException(
            HTTPStatus.NOT_FOUND, "this console does not know the task; if it has created a job, that is among the jobs"
        ) from None
