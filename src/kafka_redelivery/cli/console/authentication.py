"""How the console finds out who asks: the user of this machine, a token and a session, or a proxy that says it."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from starlette.requests import HTTPConnection

from kafka_redelivery.cli.console.tokens import Tokens
from kafka_redelivery.cli.console.users import Role, User
from kafka_redelivery.consumers.clock import monotonic_s

COOKIE: Final = "redelivery_session"
_SESSION_S: Final = 12 * 3600.0
"""How long a session lasts."""

_MOST_SESSIONS: Final = 10_000

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Visitor(NamedTuple):
    """Who asks, and what their forms must contain."""

    user: User
    csrf: str
    """A text that another site cannot know."""


class Authentication(Protocol):
    """Finds out who asks."""

    logs_in: bool
    """Whether there is a page on which to log in."""

    def visitor(self, connection: HTTPConnection) -> Visitor | None:
        """Return who asks; ``None`` if it is not known."""
        ...


class LocalUser:
    """Each request is one of the user that runs the console, whatever local account sends it. For loopback only."""

    logs_in = False

    def __init__(self, user: User) -> None:
        self._visitor = Visitor(user, secrets.token_urlsafe(32))

    def visitor(self, _connection: HTTPConnection) -> Visitor | None:
        """Return the user that runs the console."""
        return self._visitor


class TokenLogin:
    """Users log in with a token and get a session, which a cookie names."""

    logs_in = True

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._sessions: dict[bytes, tuple[Visitor, float]] = {}

    def log_in(self, token: str) -> str | None:
        """Return the name of a new session; ``None`` if no user has the token."""
        user = self._tokens.user_of(token)
        if user is None:
            return None
        now_s = monotonic_s()
        for name, (_, until_s) in list(self._sessions.items()):
            if until_s <= now_s:
                del self._sessions[name]
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        visitor = Visitor(user, secrets.token_urlsafe(32))
        self._sessions[_stored(session)] = visitor, now_s + _SESSION_S
        return session

    def log_out(self, connection: HTTPConnection) -> None:
        """End the session of a connection."""
        self._sessions.pop(_stored(connection.cookies.get(COOKIE, "")), None)

    def visitor(self, connection: HTTPConnection) -> Visitor | None:
        """Return the user of the session that the cookie names."""
        found = self._sessions.get(_stored(connection.cookies.get(COOKIE, "")))
        return None if found is None or found[1] <= monotonic_s() else found[0]


class TrustedProxy:
    """A proxy in front of the console has authenticated the user, and says who it is in a header.

    The headers of any other peer are never looked at.
    """

    logs_in = False

    def __init__(self, proxies: Sequence[Network], user_header: str, role_header: str | None) -> None:
        """Take the addresses of proxies and the names of their headers; without a role header all are viewers."""
        self._proxies, self._user_header, self._role_header = proxies, user_header, role_header
        self._secret = secrets.token_bytes(32)

    def visitor(self, connection: HTTPConnection) -> Visitor | None:
        """Return the user that the proxy names."""
        if connection.client is None:
            return None
        try:
            address = ipaddress.ip_address(connection.client.host)
        except ValueError:
            return None
        if not any(address in each for each in self._proxies):
            return None
        names = connection.headers.getlist(self._user_header)
        if len(names) != 1 or not names[0].strip():  # two headers: one of them may be the user's own
            return None
        role = Role.VIEWER
        if self._role_header is not None:
            roles = connection.headers.getlist(self._role_header)
            try:
                role = Role.of(roles[0]) if len(roles) == 1 else Role.VIEWER
            except ValueError:
                role = Role.VIEWER
        name = names[0].strip()[:100]
        return Visitor(User(name, role), hmac.new(self._secret, name.encode(), hashlib.sha256).hexdigest())


def networks_of(texts: Sequence[str]) -> list[Network]:
    """Return the addresses and networks that texts name.

    Raises:
        ValueError: one is no address.
    """
    return [ipaddress.ip_network(each, strict=False) for each in texts]


def _stored(session: str) -> bytes:
    """Return what is kept of a session, so that a dump of the memory's dictionary names no session."""
    return hashlib.sha256(session.encode()).digest()
