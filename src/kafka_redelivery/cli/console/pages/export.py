"""Letters as lines of JSON, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.requests import action, refuse_without
from kafka_redelivery.cli.console.selection_form import Chosen, chosen
from kafka_redelivery.cli.console.tasks import signature
from kafka_redelivery.cli.console.users import Role, User
from kafka_redelivery.cli.views.dlq import exported_document
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.dead_letters.exporting import exportable, exported
from kafka_redelivery.dead_letters.reading import no_progress

_CHUNK = 2**18


async def show(console: Console, request: Request) -> Response:
    """Show what an export would have."""
    return await console.in_thread(_show, console, request)


@action(Role.OPERATOR)
async def export(console: Console, _request: Request, form: FormData, user: User) -> Response:
    """Return letters as a file."""
    wanted = _wanted(console, form)
    if wanted.faults:
        raise HTTPException(HTTPStatus.BAD_REQUEST, next(iter(wanted.faults.values())))
    await console.in_thread(_note, console, user, wanted)
    name = f"{console.settings.group}-letters.jsonl".replace('"', "")
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_lines(console, wanted), media_type="application/jsonl", headers=headers)


def _wanted(console: Console, given: FormData) -> Chosen:
    if console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here, so that letters are not exported")
    return chosen(given, hide_payloads=False)


def _show(console: Console, request: Request) -> Response:
    refuse_without(console, request, Role.OPERATOR)
    if console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here, so that letters are not exported")
    wanted, found, fault = chosen(request.query_params, hide_payloads=False), None, ""
    if not wanted.faults:
        try:
            found = console.letters.ask(
                ("export", wanted.key, wall_clock_ms() // 60_000),
                lambda index: (
                    exportable(index, wanted.selection, wall_clock_ms()) if index.can_select(wanted.selection) else None
                ),
            )
        except LIBRARY_ERRORS as error:
            fault = str(error)
    return console.page(request, "export.html", wanted=wanted, found=found, fault=fault)


def _note(console: Console, user: User, wanted: Chosen) -> None:
    document = json.dumps(wanted.selection.document(), ensure_ascii=False)
    write_note(console.settings, signature(user), "export", document if document != "{}" else "all letters")


def _lines(console: Console, wanted: Chosen) -> Iterator[bytes]:
    """Yield the lines, many at a time."""
    held = bytearray()
    with closing(console.tasks.index(console.settings.group, wanted.selection)) as index:
        index.refresh()
        for each in exported(console.settings, index, wanted.selection, no_progress):
            held += json.dumps(exported_document(each)).encode() + b"\n"
            if len(held) >= _CHUNK:
                yield bytes(held)
                held.clear()
    yield bytes(held)
