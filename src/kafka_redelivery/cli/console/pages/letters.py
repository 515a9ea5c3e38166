"""The letters: by what their failures have in common, page by page, and as a file."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from http import HTTPStatus
from typing import Final

from anyio import CancelScope
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from kafka_redelivery.cli.console.access import Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS, answered, exportable_of, listed, summary, undecoded
from kafka_redelivery.cli.console.requests import action, go_to, page_number, refuse_without
from kafka_redelivery.cli.console.selection_form import UNDECIDED, Chosen, chosen
from kafka_redelivery.cli.console.tasks import signature
from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.dead_letters.exporting import exported
from kafka_redelivery.dead_letters.index.sql import quoted
from kafka_redelivery.dead_letters.letter import LetterState
from kafka_redelivery.dead_letters.reading import no_progress

_KINDS: Final = 100
"""Groups of letters that are shown."""

_NAMED: Final = 5
"""Groups of letters that a preview names."""

_TEXTS: Final = 20
"""Distinct texts of a group that are shown."""

PAGE: Final = 50
"""Letters on a page."""

_CHUNK: Final = 2**18


def show_failures(console: Console, request: Request) -> Response:
    """Show groups of letters."""
    wanted = chosen(request.query_params, hide_payloads=console.options.hide_payloads, state=UNDECIDED)
    found, fault, remark = answered(console.letters, wanted, lambda: summary(console.letters, wanted))
    since_ms = wanted.selection.since_ms
    if found and since_ms is not None:  # those that are new come first
        found = found._replace(rows=sorted(found.rows, key=lambda row: row.born_ms < since_ms))
    return console.page(
        request,
        "failures.html",
        400 if wanted.faults else 200,
        wanted=wanted,
        summary=found,
        shown=_KINDS,
        fault=fault,
        remark=remark,
        states=list(LetterState),
    )


def show_texts(console: Console, request: Request) -> Response:
    """Show the distinct texts of a group, which is asked for when a person opens it: it reads every message."""
    wanted = chosen(request.query_params, hide_payloads=console.options.hide_payloads)
    found, fault, remark = answered(console.letters, wanted, lambda: summary(console.letters, wanted, texts=_TEXTS))
    status = 400 if wanted.faults else 200
    return console.page(request, "parts/texts.html", status, summary=found, fault=fault, remark=remark)


def show_names(console: Console, request: Request) -> Response:
    """Name the failures of a selection for a preview, which is there before: to group the letters takes longer."""
    wanted = chosen(request.query_params, hide_payloads=console.options.hide_payloads)
    found, fault, remark = answered(console.letters, wanted, lambda: summary(console.letters, wanted))
    status = 400 if wanted.faults else 200
    return console.page(request, "parts/names.html", status, summary=found, shown=_NAMED, fault=fault, remark=remark)


def show(console: Console, request: Request) -> Response:
    """Show a page of letters."""
    wanted = chosen(request.query_params, hide_payloads=console.options.hide_payloads)
    number, oldest = page_number(request), request.query_params.get("order") == "oldest"
    found, fault, remark = answered(
        console.letters, wanted, lambda: listed(console.letters, wanted, (number - 1) * PAGE, PAGE, oldest=oldest)
    )
    return console.page(
        request,
        "letters.html",
        400 if wanted.faults else 200,
        wanted=wanted,
        listed=found,
        number=number,
        pages=1 if found is None else max(1, -(-found.total // PAGE)),
        size=PAGE,
        oldest=oldest,
        fault=fault,
        remark=remark,
        states=list(LetterState),
    )


def show_picked(console: Console, request: Request) -> Response:
    """Lead to what is done with the failures that were picked from the list."""
    refuse_without(console, request, Role.OPERATOR)
    what = request.path_params["what"]
    if what not in {"redrive", "discard", "export"}:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"failures cannot be picked for {what}")
    wanted = chosen(request.query_params, hide_payloads=console.options.hide_payloads)
    kinds, before = _of_kinds(request.query_params.getlist("kind")), wanted.one("where")
    return go_to(f"/{what}?{wanted.query_with(where=f'({before}) and ({kinds})' if before else kinds)}")


def _of_kinds(picked: Iterable[str]) -> str:
    """Return the condition for letters of some failures, each given as JSON: source, reason and fingerprint.

    Raises:
        HTTPException: one is damaged, or none is given.
    """
    kinds: dict[tuple[str | None, str | None], list[str | None]] = {}
    try:
        for origin, reason, fingerprint in map(json.loads, picked):
            kinds.setdefault((origin, reason), []).append(fingerprint)
        found = [
            " and ".join((_is("origin", origin), _is("reason", reason), _among(fingerprints)))
            for (origin, reason), fingerprints in kinds.items()
        ]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the selection is damaged; load the page again") from None
    if not found:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "no failure is picked")
    return found[0] if len(found) == 1 else " or ".join(f"({each})" for each in found)


def _is(column: str, text: str | None) -> str:
    return f"{column} is null" if text is None else f"{column} = {quoted(text)}"


def _among(fingerprints: Sequence[str | None]) -> str:
    named = [quoted(each) for each in fingerprints if each is not None]
    parts = [f"fingerprint in ({', '.join(named)})"] if named else []
    parts += ["fingerprint is null"] if None in fingerprints else []
    return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"


def show_export(console: Console, request: Request) -> Response:
    """Show what an export would have."""
    refuse_without(console, request, Role.OPERATOR)
    _refuse_hidden(console)
    wanted, found, fault = chosen(request.query_params, hide_payloads=False), None, ""
    if not wanted.faults:
        try:
            found, fault = exportable_of(console.letters, wanted), undecoded(console.letters, wanted)
        except LIBRARY_ERRORS as error:
            fault = str(error)
    return console.page(request, "export.html", wanted=wanted, found=found, fault=fault)


@action(Role.OPERATOR)
def export(console: Console, _request: Request, form: FormData, user: User) -> Response:
    """Return letters as a file."""
    _refuse_hidden(console)
    wanted = chosen(form, hide_payloads=False)
    if wanted.faults:
        raise HTTPException(HTTPStatus.BAD_REQUEST, next(iter(wanted.faults.values())))
    return _Export(console, wanted, user)


class _Export(StreamingResponse):
    """Letters as a file. Only some are sent at the same time, and no faster than they are read."""

    def __init__(self, console: Console, wanted: Chosen, user: User) -> None:
        name = f"{console.settings.group}-letters.jsonl".replace('"', "")
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        super().__init__(self._chunks(), media_type="application/jsonl", headers=headers)
        self._console, self._wanted, self._user = console, wanted, user
        self._lines, self._first = _lines(console, wanted), b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and release what it reads with, whatever happens."""
        call = self._console.in_thread_of_its_own
        async with self._console.turn(self._console.export_turns):
            try:
                await call(self._note)
                self._first = await call(next, self._lines)  # before the head: an error is still shown as a page
                await super().__call__(scope, receive, send)
            finally:
                with CancelScope(shield=True):
                    await call(self._lines.close)

    def _note(self) -> None:
        document = json.dumps(self._wanted.selection.document(), ensure_ascii=False)
        about = document if document != "{}" else "all letters"
        write_note(self._console.settings, signature(self._user), "export", about)

    async def _chunks(self) -> AsyncIterator[bytes]:
        chunk: bytes | None = self._first
        while chunk is not None:
            yield chunk
            chunk = await self._console.in_thread_of_its_own(next, self._lines, None)


def _refuse_hidden(console: Console) -> None:
    if console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here, so that letters are not exported")


def _lines(console: Console, wanted: Chosen) -> Generator[bytes]:
    """Yield the lines, many at a time."""
    held = bytearray()
    with console.tasks.index(wanted.selection) as index:
        for each in exported(console.settings, index, wanted.selection, no_progress):
            held += json.dumps(each.exported()).encode() + b"\n"
            if len(held) >= _CHUNK:
                yield bytes(held)
                held.clear()
    yield bytes(held)
