"""The end of a session is also that of the events of its pages."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from kafka_redelivery.cli.console import access
from kafka_redelivery.cli.console.access import COOKIE, TokenLogin, Tokens
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.pages import session
from kafka_redelivery.consumers.clock import monotonic_s
from tests.unit.cli.console.consoles import console_of

_TOKEN = "a-token-that-is-long-enough"  # noqa: S105 - of a test


def _login(tmp_path: Path) -> TokenLogin:
    file = tmp_path / "tokens"
    file.write_text(f"ann operator {_TOKEN}\n", encoding="utf-8")
    file.chmod(0o600)
    return TokenLogin(Tokens.read(file))


def _events_after(console: Console, name: str, end: Callable[[Request], None]) -> str:
    """Return what a page still gets after the end of its session."""

    async def look() -> str:
        console.broadcast.attach()
        cookie = f"{COOKIE}={name}".encode()
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/events",
            "query_string": b"",
            "headers": [(b"cookie", cookie)],
        }
        request = Request(scope)
        response = await session.stream(console, request)
        assert isinstance(response, StreamingResponse)
        body = aiter(response.body_iterator)
        found = [await anext(body), await anext(body)]
        assert "event: banner" in str(found[1])
        end(request)
        console.broadcast.publish("flow", "numbers")
        with anyio.fail_after(10):
            return "".join([str(each) async for each in body])

    return anyio.run(look)


def test_a_page_gets_no_events_after_the_logout(tmp_path: Path) -> None:
    """Whoever has kept the connection open."""
    login = _login(tmp_path)
    session = login.log_in(_TOKEN)
    assert session is not None
    assert _events_after(console_of(tmp_path, login), session, login.log_out) == ""


def test_a_page_gets_no_events_after_the_last_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session lasts twelve hours, also that of a page that is never closed."""
    login = _login(tmp_path)
    session = login.log_in(_TOKEN)
    assert session is not None
    later = monotonic_s() + 12 * 3600 + 1
    end = lambda _: monkeypatch.setattr(access, "monotonic_s", lambda: later)  # noqa: E731
    assert _events_after(console_of(tmp_path, login), session, end) == ""
