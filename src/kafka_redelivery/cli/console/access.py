"""Who asks, and what they may do: the user of this machine, one with a token and a session, or one that a proxy names.

The file with the tokens has lines ``NAME ROLE TOKEN``, where the token is given as it is or as ``sha256:`` and the hex
digits of its SHA-256. Empty lines and lines that begin with ``#`` are left out.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import os
import re
import secrets
import stat
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from starlette.requests import HTTPConnection

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import CannotStartError

_log = logging.getLogger(__name__)

COOKIE: Final = "redelivery_session"
_SESSION_S: Final = 12 * 3600.0
"""How long a session lasts."""

_MOST_SESSIONS: Final = 10_000
_TRIES: Final = 10
_TRIES_S: Final = 60.0
"""A peer may give so many wrong tokens in this time. They are all logged."""

_MOST_PEERS: Final = 10_000
_HASH: Final = "sha256:"
_SHORTEST: Final = 16
"""Characters of a token. One that can be guessed is worse than none, because people rely on it."""

_NAME: Final = re.compile(r"[\w.@+-]{1,100}")
_FORMAT: Final = "a line is: NAME ROLE TOKEN, with the role viewer, operator or admin (redelivery console --new-token)"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Role(IntEnum):
    """What a user may do. Each role may do all that a lower one may."""

    VIEWER = 1
    """Read."""

    OPERATOR = 2
    """Redrive, discard, edit, export, cancel and resume jobs, pause and resume the group."""

    ADMIN = 3
    """Also purge, which deletes letters for good."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Return a role by its name.

        Raises:
            ValueError: there is none with this name.
        """
        try:
            return cls[text.strip().upper()]
        except KeyError:
            names = ", ".join(each.label for each in cls)
            raise ValueError(f"{text!r} is none of the roles {names}") from None

    @property
    def label(self) -> str:
        """The name of the role, as people write it."""
        return self.name.lower()


class User(NamedTuple):
    """A person, as the console knows them."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether the user has a role, or a higher one."""
        return self.role >= role


class Token(NamedTuple):
    """The token of one user."""

    user: User
    digest: bytes


def peer_of(host: str) -> str:
    """Return what counts as one peer: an IPv4 address, or the /64 of an IPv6 one, all of which one machine may use."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(address) >> 64 << 64)}/64"


class Tokens:
    """Finds the user of a token. The time it takes says nothing about the tokens."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens

    @classmethod
    def read(cls, file: Path) -> Tokens:
        """Read a file.

        Raises:
            CannotStartError: it cannot be read, others may read or write it, or a line is wrong. The message shows no
                word of a line: in a line with another order each of them may be the token.
        """
        try:
            with file.open(encoding="utf-8") as opened:
                mode, text = os.fstat(opened.fileno()).st_mode, opened.read()
        except (OSError, UnicodeDecodeError) as error:
            raise CannotStartError(f"{file} cannot be read: {error}; name a file with --tokens") from None
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            problem = "can be read or written by every user of this machine"
            raise CannotStartError(f"{file} {problem}; run: chmod o-rw {file}")
        tokens: list[Token] = []
        first: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            token = _token(f"{file}:{number}", line)
            before = first.setdefault(token.user.name, number)
            if before != number:
                problem = f"has the user of line {before} twice, again in line {number}"
                raise CannotStartError(f"{file} {problem}; give each user one line")
            tokens.append(token)
        if not tokens:
            raise CannotStartError(f"{file} has no token; {_FORMAT}")
        return cls(tuple(tokens))

    def user_of(self, token: str) -> User | None:
        """Return the user of a token; ``None`` if no user has it."""
        digest = _digest(token)
        found = None
        for each in self._tokens:  # all of them, so that the time is always the same
            if hmac.compare_digest(each.digest, digest):
                found = each.user
        return found


def new_token(name: str, role: Role) -> tuple[str, str]:
    """Return a new token, and the line of the file for it."""
    token = secrets.token_urlsafe(24)
    return token, f"{name} {role.label} {_HASH}{_digest(token).hex()}"


def _token(place: str, line: str) -> Token:
    parts = line.split()
    if len(parts) != 3:  # noqa: PLR2004 - name, role and token
        raise CannotStartError(f"{place} has {len(parts)} words; {_FORMAT}")
    name, role, token = parts
    if not _NAME.fullmatch(name):
        raise CannotStartError(f"{place}: the first word is no name; use letters, digits and . @ + - _; {_FORMAT}")
    try:
        user = User(name, Role.of(role))
    except ValueError:
        known = ", ".join(each.label for each in Role)
        raise CannotStartError(f"{place}: the second word is none of the roles {known}; {_FORMAT}") from None
    if token.startswith(_HASH):
        digits = token.removeprefix(_HASH)
        if not re.fullmatch("[0-9a-f]{64}", digits):
            raise CannotStartError(f"{place}: {_HASH} is not followed by the 64 hex digits of a SHA-256")
        return Token(user, bytes.fromhex(digits))
    if len(token) < _SHORTEST:
        raise CannotStartError(
            f"{place}: the token has less than {_SHORTEST} characters and can be guessed; "
            f"make one with: redelivery console --new-token NAME:{user.role.label}"
        )
    return Token(user, _digest(token))


def _digest(token: str) -> bytes:
    """Return what is kept of a token or a session, so that a dump of the memory names none."""
    return hashlib.sha256(token.encode()).digest()


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


class WrongTokens:
    """Counts the wrong tokens of each peer, in whatever number of requests at the same time they come."""

    def __init__(self) -> None:
        self._times_s: dict[str, deque[float]] = {}
        """When the last ones of each peer came, the peer with the newest last."""

    def wait_s(self, peer: str) -> float:
        """Return how long a peer has to wait until its next attempt; 0 if it may try now."""
        times_s = self._times_s.get(peer) or deque()
        return max(0.0, times_s[0] + _TRIES_S - monotonic_s()) if len(times_s) == _TRIES else 0.0

    def add(self, peer: str) -> None:
        """Note a wrong token."""
        now_s = monotonic_s()
        times_s = self._times_s.pop(peer, None) or deque(maxlen=_TRIES)
        times_s.append(now_s)
        self._times_s[peer] = times_s
        while next(iter(self._times_s.values()))[-1] + _TRIES_S < now_s or len(self._times_s) > _MOST_PEERS:
            del self._times_s[next(iter(self._times_s))]
        wait_s = self.wait_s(peer)
        then = f"; no more of its tokens are looked at for {wait_s:.0f} s" if wait_s else ""
        _log.warning("a wrong token came from %s%s", peer, then)


class TokenLogin:
    """Users log in with a token and get a session, which a cookie names."""

    logs_in = True

    def __init__(self, tokens: Tokens) -> None:
        self.wrong_tokens = WrongTokens()
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
        self._sessions[_digest(session)] = visitor, now_s + _SESSION_S
        return session

    def log_out(self, connection: HTTPConnection) -> None:
        """End the session of a connection."""
        self._sessions.pop(_digest(connection.cookies.get(COOKIE, "")), None)

    def visitor(self, connection: HTTPConnection) -> Visitor | None:
        """Return the user of the session that the cookie names."""
        found = self._sessions.get(_digest(connection.cookies.get(COOKIE, "")))
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
