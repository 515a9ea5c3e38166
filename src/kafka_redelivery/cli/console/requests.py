"""What pages have in common: errors of the library become messages, and what changes something is protected."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from functools import wraps
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Message

from kafka_redelivery.cli.console.access import Role, User, Visitor
from kafka_redelivery.cli.console.console import Console

Page: TypeAlias = Callable[[Console, Request], Response | Awaitable[Response]]
"""Answers a request. A function that is not asynchronous is called in a thread."""

Action: TypeAlias = Callable[[Console, Request, FormData, User], Response]
"""Does what a form asks for, in a thread."""

_FIELD_BYTES: Final = 12 * 2**20
"""The largest field of a form: an edited value has at most 8 MiB."""

_BODY_BYTES: Final = 13 * 2**20
_NOTE: Final = 500
"""Characters of a note."""

_LAST_PAGE: Final = 100_000_000
"""More pages than any list has."""


def action(role: Role) -> Callable[[Action], Page]:
    """Make a page of a function that changes something, for users with a role.

    It is called only for a form that a page of this console has made for this user. The form of a user who may not is
    not read.
    """

    def protected(act: Action) -> Page:
        @wraps(act)
        async def page(console: Console, request: Request) -> Response:
            user = refuse_without(console, request, role)
            form = await form_of(request, most_bytes=_BODY_BYTES, most_fields=2000)
            refuse_forged(visitor_of(request), form, request)
            return await console.in_thread(act, console, request, form, user)

        return page

    return protected


async def form_of(request: Request, *, most_bytes: int, most_fields: int) -> FormData:
    """Return the form of a request.

    Args:
        request: its body is read.
        most_bytes: how many bytes the body has at most. Nothing is read of a body that says it is larger, and no more
            than these of one that does not say it.
        most_fields: how many fields it has at most.

    Raises:
        HTTPException: there are more of either.
    """
    length = request.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) > most_bytes:
        raise _too_large(most_bytes)
    left = most_bytes

    async def receive() -> Message:
        nonlocal left
        message = await request.receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise _too_large(most_bytes)
        return message

    bounded = Request(request.scope, receive)
    return await bounded.form(max_files=0, max_fields=most_fields, max_part_size=_FIELD_BYTES)


def _too_large(most_bytes: int) -> HTTPException:
    problem = f"this form may have {most_bytes // 2**10:,} KiB and has more, so that nothing is changed"
    return HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)


def refuse_without(console: Console, request: Request, role: Role) -> User:
    """Return who asks for a page on which something can be changed.

    Raises:
        HTTPException: the user may not, or the console is read-only.
    """
    user = visitor_of(request).user
    if console.options.read_only:
        raise HTTPException(HTTPStatus.FORBIDDEN, "this console is read-only, so that nothing is changed")
    if not user.may(role):
        raise HTTPException(
            HTTPStatus.FORBIDDEN, f"this needs the role {role.label}; {user.name} has the role {user.role.label}"
        )
    return user


def refuse_forged(visitor: Visitor, form: FormData, request: Request) -> None:
    """Refuse a form that no page of this console has made for this user.

    Raises:
        HTTPException: it is one.
    """
    given = str(form.get("csrf") or request.headers.get("X-CSRF-Token") or "")
    if not hmac.compare_digest(given.encode(), visitor.csrf.encode()):
        problem = "this form is out of date; go back, load the page again, and repeat it"
        raise HTTPException(HTTPStatus.FORBIDDEN, problem)


def visitor_of(request: Request) -> Visitor:
    """Return who asks; the guard refuses those who are not known."""
    visitor: Visitor | None = request.scope.get("visitor")
    if visitor is None:
        raise HTTPException(HTTPStatus.UNAUTHORIZED, "you are not logged in")
    return visitor


def text_of(form: FormData | QueryParams, name: str) -> str:
    """Return a field of a form, empty if it is not there."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def note_of(form: FormData | QueryParams) -> str:
    """Return why a user does something, as they wrote it."""
    return text_of(form, "note")[:_NOTE]


def go_to(address: str) -> RedirectResponse:
    """Lead to a page after a form."""
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


def page_number(request: Request) -> int:
    """Return which page of a list is asked for; the first one if that is not said."""
    text = request.query_params.get("page", "")
    return min(_LAST_PAGE, max(1, int(text))) if text.isascii() and text.isdigit() and len(text) < 10 else 1  # noqa: PLR2004
