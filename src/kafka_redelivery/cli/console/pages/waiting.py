"""What waits for its time, and what operators do about it: deliver it now, delay it, dead-letter it, or cancel that."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.access import Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS, NotReadYetError
from kafka_redelivery.cli.console.requests import action, go_to, note_of, refuse_without, text_of
from kafka_redelivery.cli.console.tasks import Phase, Task, signature
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.operations import acting
from kafka_redelivery.consumers.operations.acting import Found, RequestState, WaitingSelection
from kafka_redelivery.consumers.operations.flow import Flow
from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.wire.waiting import WaitingAction

_BARS: Final = 60
_FEWEST: Final = 10
"""Without some room beside it, a single bar has no label."""

_WIDTHS_S: Final = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 43_200, 86_400, 604_800)

_LIMIT: Final = 200_000
"""How many waiting records are read at most."""

_SHOWN: Final = 100
_OBEYED_S: Final = 30.0
"""How long a task waits for the schedulers. They go on afterwards."""

_SETTLED_S: Final = 2.0
_WITHIN_S: Final = 5.0

_NAMES: Final = {"tier": "tiers", "source": "sources", "key": "keys", "id": "ids", "exception": "exceptions"}
"""Parameters of an address, and the fields of a selection."""

_DONE: Final = {
    WaitingAction.DELIVER_NOW: "delivered now",
    WaitingAction.DELAY: "delayed",
    WaitingAction.DEAD_LETTER: "dead-lettered",
}


def show(console: Console, request: Request) -> Response:
    """Show what waits, when it is due, and what operators want done with it."""
    flow = console.flow.value
    chart, width_s = (None, 0) if flow is None else _chart(flow)
    wanted: dict[str, list[RequestState]] = {}
    for each in () if flow is None else flow.status.requests:
        wanted.setdefault(each.request.key.id, []).append(each)
    return console.page(request, "waiting.html", flow=flow, chart=chart, width_s=width_s, wanted=wanted)


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


def show_records(console: Console, request: Request) -> Response:
    """Show the waiting records of a selection, those that are due first."""
    selection = _selection(console, request.query_params)
    found = _look(console, selection)
    return console.page(
        request,
        "waiting_records.html",
        found=found,
        shown=found.records[:_SHOWN],
        query=_query(selection),
        given=request.query_params,
    )


def ask(console: Console, request: Request, problem: str = "", field: str = "", **given: str) -> Response:
    """Ask what is to be done with waiting records; ``problem``: what is wrong with a form that was sent."""
    refuse_without(console, request, Role.OPERATOR)
    selection = _selection(console, request.query_params)
    _refuse_everything(selection)
    found = _look(console, selection, records=not selection.whole)
    return console.page(
        request,
        "act.html",
        HTTPStatus.BAD_REQUEST if problem else HTTPStatus.OK,
        found=found,
        query=_query(selection),
        given={"action": request.query_params.get("action", ""), "due": "", "note": ""} | given,
        form_problem=problem,
        wrong=field,
    )


@action(Role.OPERATOR)
def act(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Let the owners of the tiers do it."""
    given = {"action": text_of(form, "action"), "due": text_of(form, "due"), "note": note_of(form)}
    asked = text_of(form, "shown")
    shown = int(asked) if asked.isdecimal() else 0
    selection, by = _selection(console, request.query_params), signature(user)
    _refuse_everything(selection)
    try:
        wanted, due_ms = _wanted(given["action"], given["due"])
        acting.refuse_older(console.settings)
    except LIBRARY_ERRORS as error:
        return ask(console, request, str(error), error.option if isinstance(error, OptionError) else "action", **given)

    def make(task: Task) -> None:
        settings, tasks = console.settings, console.tasks
        found = acting.look(settings, selection, _LIMIT, tasks.progress(task), records=not selection.whole)
        if not selection.whole and len(found.records) > shown:
            number = len(found.records)
            raise ConsumersError(f"{number:,} records fit now, and {shown:,} when you were asked: look again")
        requests = acting.requests_for(found, wanted, due_ms, by, given["note"], wall_clock_ms())
        if not requests:
            raise ConsumersError("none of these records waits in a tier any more")
        write_note(settings, by, f"{wanted} waiting", str(found), note=given["note"])
        task.phase = Phase.RUNNING
        states = acting.act(settings, requests, _OBEYED_S, tasks.progress(task, "the schedulers go on with it"))
        number = sum(each.done.done for each in states)
        rest = [str(each) for each in states if not each.whole or each.gone]
        rest += [found.unread] if found.unread else []
        task.result = "\n".join([f"{number:,} {'record is' if number == 1 else 'records are'} {_DONE[wanted]}", *rest])

    task = console.tasks.begin(user, str(wanted), make)
    task.settled.wait(_SETTLED_S)
    return go_to(task.address)


def ask_cancel(console: Console, request: Request, problem: str = "") -> Response:
    """Ask before a request of an operator is cancelled, with what is done and what is not."""
    refuse_without(console, request, Role.OPERATOR)
    name = request.path_params["name"]
    _refuse_too_early(console)
    known = acting.look_at_requests(console.settings)
    states = [each for each in known if each.request.key.id == name and not each.done.ended]
    if not states and not problem:
        return go_to("/waiting")
    status = HTTPStatus.CONFLICT if problem else HTTPStatus.OK
    return console.page(request, "cancel_waiting.html", status, name=name, states=states, fault=problem)


@action(Role.OPERATOR)
def cancel(console: Console, request: Request, _form: FormData, user: User) -> Response:
    """Cancel a request."""
    name = request.path_params["name"]
    try:
        states = acting.open_requests(console.settings, [name])
        write_note(console.settings, signature(user), "cancel waiting", name)
        acting.withdraw(console.settings, states)
    except LIBRARY_ERRORS as error:
        return ask_cancel(console, request, str(error))
    console.flow.produce_now(_WITHIN_S)
    return go_to("/waiting")


def _selection(console: Console, given: QueryParams) -> WaitingSelection:
    found = WaitingSelection(
        **{field: tuple(filter(None, given.getlist(name))) for name, field in _NAMES.items()}  # type: ignore[arg-type]
    )
    if found.keys and console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here, so that nothing is selected by its key")
    return found


def _look(console: Console, selection: WaitingSelection, *, records: bool = True) -> Found:
    _refuse_too_early(console)
    return acting.look(console.settings, selection, _LIMIT, lambda *_: None, records=records)


def _refuse_too_early(console: Console) -> None:
    """Refuse what has to ask Kafka before Kafka has answered once, and while it does not."""
    console.refuse_without_kafka()
    if console.flow.value is None:
        raise NotReadYetError("the group is being looked at", "waiting")


def _query(selection: WaitingSelection) -> str:
    return urlencode([(name, text) for name, field in _NAMES.items() for text in getattr(selection, field)])


def _refuse_everything(selection: WaitingSelection) -> None:
    if selection.whole and not selection.tiers:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "name a tier, or select records")


def _wanted(name: str, due: str) -> tuple[WaitingAction, int | None]:
    """Return what a form asks for, with the due time of a delay (epoch ms).

    Raises:
        OptionError: that is not said, or is wrong.
    """
    if name not in set(WaitingAction):
        raise OptionError("action", "choose what is done with them")
    if name != WaitingAction.DELAY:
        return WaitingAction(name), None
    if not due:
        raise OptionError("due", "say when they are due")
    return WaitingAction(name), acting.due_time(due, wall_clock_ms())
