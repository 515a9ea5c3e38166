"""Edit a letter and send it again."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.access import Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS
from kafka_redelivery.cli.console.requests import action, go_to, note_of, refuse_without, text_of
from kafka_redelivery.cli.console.tasks import Task, signature
from kafka_redelivery.dead_letters.differences import line_diff
from kafka_redelivery.dead_letters.editing import LetterEditing
from kafka_redelivery.dead_letters.jobs import OpenJob
from kafka_redelivery.dead_letters.reading import refuse_created_again
from kafka_redelivery.topology.printable import printable_line
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.redrive.topic_ids import TopicIds

_SETTLED_S: Final = 5.0
_SHOWN: Final = 2000
"""Lines of a difference that are shown."""


def _refuse(console: Console) -> None:
    if console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here, so that letters are not edited")


def _editing(console: Console, request: Request, again: str) -> LetterEditing:
    options = JobOptions(group=console.settings.group, again=bool(again))
    return LetterEditing(console.settings, console.base, request.path_params["name"], options)


def show(console: Console, request: Request) -> Response:
    """Show the value as text that can be edited."""
    refuse_without(console, request, Role.OPERATOR)
    _refuse(console)
    again = request.query_params.get("again", "")
    try:
        editing = _editing(console, request, again)
    except LIBRARY_ERRORS as error:
        return _page(console, request, "", again, status=HTTPStatus.CONFLICT, fault=str(error))
    return _page(console, request, editing.form.text, again, editing)


def _page(
    console: Console,
    request: Request,
    text: str,
    again: str,
    editing: LetterEditing | None = None,
    status: int = HTTPStatus.OK,
    **more: Any,  # noqa: ANN401 - what the template names
) -> Response:
    context = {"fault": "", "invalid": "", "new_size": 0, "diff": None, "target": "", "size": 0, "topics": TopicIds()}
    context |= {"note": ""}
    if editing is not None:
        context |= {"target": editing.target, "size": len(editing.original), "topics": editing.topics}
    name = request.path_params["name"]
    return console.page(request, "edit.html", status, name=name, text=text, again=again, **(context | more))


@action(Role.OPERATOR)
def edit(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Check an edited value and show what differs, or send it."""
    _refuse(console)
    again, given = text_of(form, "again"), form.get("text")
    # A form has CR and LF, whatever the value has; a value with CR LF is shown with it again.
    text = (given if isinstance(given, str) else "").replace("\r\n", "\n")
    try:
        editing = _editing(console, request, again)
        # The text is that of the letter that was there when the page was opened.
        topics = TopicIds.read(text_of(form, "topics"))
        refuse_created_again(topics, editing.topics, since="the letter was read")
    except LIBRARY_ERRORS as error:
        return _page(console, request, text, again, status=HTTPStatus.CONFLICT, fault=str(error))
    before = editing.form.text
    if "\r\n" in before:
        text = text.replace("\n", "\r\n")
    shown = partial(_page, console, request, text, again, editing, note=note_of(form))
    try:
        value = editing.encode(text)
        after = editing.text_of(value)
    except LIBRARY_ERRORS as error:
        return shown(invalid=str(error), status=HTTPStatus.BAD_REQUEST)
    if value == editing.original:
        invalid = "nothing is changed; to send the letter as it is, redrive it"
        return shown(invalid=invalid, status=HTTPStatus.BAD_REQUEST)
    if text_of(form, "send") != "yes":
        lines = line_diff(before.splitlines(), after.splitlines(), ("before", "after"))
        diff = [printable_line(each) for each in islice(lines, 2, 2 + _SHOWN)]
        if next(lines, None) is not None:
            diff.append(f"@@ more than {_SHOWN} lines @@")
        return shown(new_size=len(value), diff=diff)

    def make(_: Task) -> OpenJob:
        return OpenJob(console.settings, editing.ledger, editing.create(value, signature(user), note_of(form)).id)

    task = console.tasks.begin(user, "edit", make)
    task.settled.wait(_SETTLED_S)
    console.jobs.look()
    return go_to(task.address)
