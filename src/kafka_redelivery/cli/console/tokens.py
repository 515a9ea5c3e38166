"""The file with the tokens of users: lines of name, role and token.

A line is ``NAME ROLE TOKEN``, where the token is given as it is or as ``sha256:`` and the hex digits of its SHA-256.
Empty lines and lines that begin with ``#`` are left out.
"""

from __future__ import annotations

import hashlib
import hmac
import os
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
            TokenFileError: it cannot be read, others may read or write it, or a line is wrong. The message shows no
                word of a line: in a line with another order each of them may be the token.
        """
        try:
            with file.open(encoding="utf-8") as opened:
                mode, text = os.fstat(opened.fileno()).st_mode, opened.read()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenFileError(f"{file} cannot be read: {error}; name a file with --tokens") from None
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            problem = "can be read or written by every user of this machine"
            raise TokenFileError(f"{file} {problem}; run: chmod o-rw {file}")
        tokens: list[Token] = []
        first: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            token = _token(f"{file}:{number}", line)
            before = first.setdefault(token.user.name, number)
            if before != number:
                problem = f"has the user of line {before} twice, again in line {number}"
                raise TokenFileError(f"{file} {problem}; give each user one line")
            tokens.append(token)
        if not tokens:
            raise TokenFileError(f"{file} has no token; {_FORMAT}")
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


_FORMAT: Final = "a line is: NAME ROLE TOKEN, with the role viewer, operator or admin (redelivery console --new-token)"


def _token(place: str, line: str) -> Token:
    parts = line.split()
    if len(parts) != 3:  # noqa: PLR2004 - name, role and token
        raise TokenFileError(f"{place} has {len(parts)} words; {_FORMAT}")
    name, role, token = parts
    if not _NAME.fullmatch(name):
        raise TokenFileError(f"{place}: the first word is no name; use letters, digits and . @ + - _; {_FORMAT}")
    try:
        user = User(name, Role.of(role))
    except ValueError:
        known = ", ".join(each.label for each in Role)
        raise TokenFileError(f"{place}: the second word is none of the roles {known}; {_FORMAT}") from None
    if token.startswith(_HASH):
        digits = token.removeprefix(_HASH)
        if not re.fullmatch("[0-9a-f]{64}", digits):
            raise TokenFileError(f"{place}: {_HASH} is not followed by the 64 hex digits of a SHA-256")
        return Token(user, bytes.fromhex(digits))
    if len(token) < _SHORTEST:
        raise TokenFileError(
            f"{place}: the token has less than {_SHORTEST} characters and can be guessed; "
            f"make one with: redelivery console --new-token NAME:{user.role.label}"
        )
    return Token(user, _digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
