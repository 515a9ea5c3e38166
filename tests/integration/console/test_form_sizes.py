"""No form fills the memory of the console: who may not act is refused before the form is read, and size has a limit."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import anyio
import pytest

from kafka_redelivery.cli.console.access import LocalUser, Role, User
from kafka_redelivery.cli.console.guard import Guard
from kafka_redelivery.cli.console.options import ConsoleOptions
from tests.integration.console.test_protection import _csrf, _login
from tests.unit.cli.console.consoles import answered, console_of, guarded, routes

_MIB = 2**20
_FIELDS = "application/x-www-form-urlencoded"
_PARTS = "multipart/form-data; boundary=x"


def _posted(app: Guard, path: str, body: Iterable[bytes], kind: str = _FIELDS, length: int | None = None) -> int:
    """Post a body piece by piece, as a server gets it, and return the status of the response."""
    headers = {"content-type": kind}
    headers |= {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}

    async def post() -> int:
        status, _ = await answered(app, path, "POST", headers, body)
        return status

    return anyio.run(post)


def _unread() -> Iterator[bytes]:
    pytest.fail("the body is read")
    yield b""


@pytest.mark.parametrize(
    ("role", "options", "refused"),
    [
        (Role.VIEWER, ConsoleOptions(), None),
        (Role.OPERATOR, ConsoleOptions(), "/purge"),
        (Role.ADMIN, ConsoleOptions(read_only=True), None),
    ],
)
def test_who_may_not_act_is_refused_before_the_form_is_read(
    tmp_path: Path, role: Role, options: ConsoleOptions, refused: str | None
) -> None:
    """At each address that takes a form."""
    app = guarded(console_of(tmp_path, LocalUser(User("ann", role)), options))
    addresses = [each for each in routes(app, "POST") if each not in {"/login", "/logout"} and refused in {None, each}]
    assert addresses
    for address in addresses:
        assert _posted(app, address, _unread()) == 403, address


@pytest.mark.parametrize(("kind", "begin"), [(_FIELDS, b"a="), (_PARTS, b"--x\r\nX-Long: ")])
@pytest.mark.parametrize(("path", "most"), [("/redrive", 13 * _MIB), ("/login", 64 * 2**10)])
def test_a_large_form_is_refused_while_it_is_read(
    tmp_path: Path, path: str, most: int, kind: str, begin: bytes
) -> None:
    """Fields that are small enough each, and the header of a part, go on and on; reading them does not."""
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        yield begin
        while read < 4 * most + _MIB:
            read += 2**16
            yield b"&a=" if kind == _FIELDS and read % _MIB == 0 else b"a" * 2**16

    login = _login(tmp_path) if path == "/login" else None
    status = _posted(guarded(console_of(tmp_path, login)), path, endless(), kind)
    assert status == 413 or (kind == _PARTS and status == 400)  # the parser may refuse a long header before
    assert read <= most + _MIB


def test_a_form_whose_length_is_too_large_is_not_read(tmp_path: Path) -> None:
    """The length that the browser names is enough."""
    app = guarded(console_of(tmp_path))
    assert _posted(app, "/redrive", _unread(), length=13 * _MIB + 1) == 413


def test_an_edited_value_of_8_mib_fits(tmp_path: Path) -> None:
    """It is the largest form that a page makes."""
    user = LocalUser(User("ann", Role.ADMIN))
    app = guarded(console_of(tmp_path, user))
    body = f"csrf={_csrf(user)}&value=".encode() + b"a" * (8 * _MIB)
    pieces = (body[at : at + 2**16] for at in range(0, len(body), 2**16))
    status = _posted(app, "/letters/DLQ.orders-0@1/edit", pieces, length=len(body))
    assert status not in {400, 403, 413}
