"""The file with the tokens of users: lines of name, role and token.

A line is ``NAME ROLE TOKEN``, where the token is given as it is or as ``sha256:`` and the hex digits of its SHA-256.
Empty lines and lines that begin with ``#`` are left out.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import stat
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from kafka_redelivery.cli.console.users import Role, User
from kafka_redelivery.topology import exit_codes

_HASH: Final = "sha256:"
_SHORTEST: Final = 16
"""Characters of a token. One that can be guessed is worse than none, because people rely on it."""

_NAME: Final = re.compile(r"[\w.@+-]{1,100}")


class TokenFileError(Exception):
    """The file with the tokens cannot be used; the message says why, and what to do."""

    exit_code: ClassVar[int] = exit_codes.CONFIGURATION


class Token(NamedTuple):
    """The token of one user."""

    user: User
    digest: bytes


class Tokens:
    """Finds the user of a token. The time it takes says nothing about the tokens."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens

    @classmethod
    def read(cls, file: Path) -> Tokens:
        """Read a file.

        Raises:
            TokenFileError: it cannot be read, others may read it, or a line is wrong.
        """
        try:
            mode = file.stat().st_mode
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TokenFileError(f"{file} cannot be read: {error}; name a file with --tokens") from None
        if mode & stat.S_IROTH:
            raise TokenFileError(f"{file} can be read by every user of this machine; run: chmod o-r {file}")
        tokens = tuple(
            _token(f"{file}:{number}", line)
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        )
        if not tokens:
            raise TokenFileError(f"{file} has no token; {_FORMAT}")
        names = [each.user.name for each in tokens]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise TokenFileError(f"{file} names {twice} twice; give each user one line")
        return cls(tokens)

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


_FORMAT: Final = "a line is: NAME ROLE TOKEN, with the role viewer, operator or admin (redelivery console --new-token)"


def _token(place: str, line: str) -> Token:
    parts = line.split()
    if len(parts) != 3:  # noqa: PLR2004 - name, role and token
        raise TokenFileError(f"{place} has {len(parts)} words; {_FORMAT}")
    name, role, token = parts
    if not _NAME.fullmatch(name):
        raise TokenFileError(f"{place}: {name!r} is no name; use letters, digits and . @ + - _")
    try:
        user = User(name, Role.of(role))
    except ValueError as error:
        raise TokenFileError(f"{place}: {error}") from None
    if token.startswith(_HASH):
        digits = token.removeprefix(_HASH)
        if not re.fullmatch("[0-9a-f]{64}", digits):
            raise TokenFileError(f"{place}: {_HASH} is not followed by the 64 hex digits of a SHA-256")
        return Token(user, bytes.fromhex(digits))
    if len(token) < _SHORTEST:
        raise TokenFileError(
            f"{place}: the token has less than {_SHORTEST} characters and can be guessed; "
            f"make one with: redelivery console --new-token {name}:{user.role.label}"
        )
    return Token(user, _digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
