"""Tokens of ``kafka.oauth_cb``, a function of the user: one for all clients of a process, renewed before it ends.

A client asks for a token on a thread of its own: when it is opened, and after 80 % of what is left of the token's life.
The function runs on another thread, so that one that hangs delays neither the client nor its end.

Opening a client fails if it has no token after ten seconds. A running process must be able to open one while the token
server is away, so a client then gets :data:`NO_TOKEN`, which every broker refuses: the login is refused, which each
process waits out, and the client asks again a few seconds later.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from pathlib import PurePath
from typing import Any, Final

from kafka_redelivery.topology.config.rules.clients import OAUTH_CB, bare_name, takes_tokens
from kafka_redelivery.topology.printable import printable_line
from kafka_redelivery.topology.urls import HIDDEN, without_secrets
from kafka_redelivery.transport.errors import ClientSettingsError

_log = logging.getLogger(__name__)

NO_TOKEN: Final = "no-token"  # noqa: S105 - says that there is none
"""What a client gets in place of a token."""

_CONFIG: Final = "sasl.oauthbearer.config"
_RENEW_AFTER: Final = 0.75
"""The part of its life after which a token is renewed; clients ask after 0.8 of what is left when they get it."""

_WAIT_S: Final = 8.0
"""How long a client waits for the function; opening one fails after ten seconds."""

_AGAIN_S: Final = 10.0
"""After 0.8 of this time a client asks again that has got no token, or one that could not be renewed."""

_PAUSE_S: Final = 5.0
"""Between a call that has failed and the next one, whatever number of clients ask."""

_HUNG_S: Final = 60.0
"""After which a call is given up, and another one begins."""

_LOG_EVERY_S: Final = 60.0
_LONGEST_S: Final = 10 * 365 * 86_400
"""An end that is further away is probably in milliseconds."""

_TOKEN: Final = re.compile(r"[-_~+/.A-Za-z0-9]+=*")
"""Source: RFC 6750, section 2.1, which Kafka enforces."""

_EXTENSION: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
"""Source: RFC 7628, section 3.1. The client refuses others."""

_CAUSE_LENGTH: Final = 300
_NAMED: Final = re.compile(
    r"""(?i)([\w-]*(?:assertion|credential|key|passw|secret|signature|token)[\w-]*["']?\s*[=:]\s*)["']?[^\s"',;&)]+"""
)
_CODED: Final = re.compile(r"(?<![\w+=~%-])(?=[\w+=~%-]*\d)[\w+=~%-]{16,}")
"""A word that is as long as a secret and has a digit."""

_Answer = tuple[str, float, str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    ends_s: float
    principal: str
    extensions: Mapping[str, str]
    renew_s: float
    """When it is to be renewed."""


class _RubbishError(Exception):
    """What the function returned is not what a client takes. The message does not have it, but the fix."""


class TokenSource:
    """Calls the function, and keeps its last token. Thread-safe; it is what the client calls for a token."""

    def __init__(
        self,
        name: str,
        function: Callable[[str], object],
        config: str = "",
        clock_s: Callable[[], float] = time.time,  # noqa: TID251 - a token ends by the wall clock
    ) -> None:
        """Call nothing before a client asks.

        Args:
            name: ``package.module:function``, for messages.
            function: takes ``config``; returns a token and its end (epoch seconds), perhaps also a principal and
                SASL extensions, as the client documents it.
            config: ``sasl.oauthbearer.config``.
            clock_s: epoch seconds.
        """
        self._name = name
        self._function = function
        self._config = config
        self._clock_s = clock_s
        self._changed = threading.Condition()
        self._token: _Token | None = None
        self._failure = ""
        self._calls = self._taken = 0
        """How many calls have begun, and the number of the one that gave the token."""

        self._began_s: float | None = None
        """When the call began that runs (monotonic seconds)."""

        self._failed_s = self._log_at_s = -math.inf

    def __call__(self, _: str = "") -> _Answer:
        """Return what a client takes: the token, or :data:`NO_TOKEN`; waits for the function for a few seconds."""
        with self._changed:
            if self._due():
                self._begin()
                self._changed.wait_for(lambda: self._began_s is None, _WAIT_S)
                if self._began_s is not None:
                    self._note_failure(f"has not returned for {_WAIT_S:g} s; give its request a time-out")
            now_s, token, again_s = self._clock_s(), self._token, self._clock_s() + _AGAIN_S
            if token is None or token.ends_s <= now_s:
                return NO_TOKEN, again_s, "", {}
            ends_s = min(token.ends_s, again_s) if self._due() else token.ends_s
            return token.text, ends_s, token.principal, dict(token.extensions)

    @property
    def problem(self) -> str | None:
        """Why there is no token, with the fix; ``None`` if there is one, or if no client has asked yet."""
        with self._changed:
            missing = self._token is None or self._token.ends_s <= self._clock_s()
            return f"there is no token: {self._failure}" if missing and self._failure else None

    def _due(self) -> bool:
        return self._token is None or self._token.renew_s <= self._clock_s()

    def _begin(self) -> None:
        """Begin a call, unless one runs, or one has failed a moment ago."""
        now_s = time.monotonic()
        hung = self._began_s is not None and now_s - self._began_s >= _HUNG_S
        if (self._began_s is None or hung) and now_s - self._failed_s >= _PAUSE_S:
            self._calls, self._began_s = self._calls + 1, now_s
            threading.Thread(target=self._call, args=(self._calls,), name="token", daemon=True).start()

    def _call(self, number: int) -> None:
        token, failure = None, ""
        try:
            token = _checked(self._function(self._config), self._clock_s())
        except _RubbishError as error:
            failure = f"has returned {error}"
        except BaseException as error:  # noqa: BLE001 - whatever it raises
            failure = f"has raised {described(error)}{_place(error)}; correct the cause"
        with self._changed:
            if token is not None and number > self._taken:  # else it is late: one that hung, after a newer one
                if self._failure:
                    _log.info("kafka.%s %s gives tokens again", OAUTH_CB, self._name)
                self._token, self._taken, self._failure, self._log_at_s = token, number, "", -math.inf
            elif token is None and number == self._calls:
                self._failed_s = time.monotonic()
                self._note_failure(failure)
            if number == self._calls:
                self._began_s = None
                self._changed.notify_all()

    def _note_failure(self, failure: str) -> None:
        self._failure = f"kafka.{OAUTH_CB} {self._name} {failure}"
        now_s, token = time.monotonic(), self._token
        if token is not None and now_s >= self._log_at_s:
            self._log_at_s = now_s + _LOG_EVERY_S
            left_s = max(0.0, token.ends_s - self._clock_s())
            _log.warning("the token for Kafka is not renewed, and ends in %.0f s: %s", left_s, self._failure)


_sources: dict[tuple[str, str], TokenSource] = {}
"""Those of this process. A forked one begins anew: the threads of its parent are not there."""

os.register_at_fork(after_in_child=_sources.clear)


def token_source(settings: Mapping[str, Any]) -> TokenSource | None:
    """Return the source of a client's tokens, the same for all clients; ``None`` if the client has no use for one.

    Raises:
        ClientSettingsError: its function cannot be imported.
    """
    if OAUTH_CB not in settings or not takes_tokens(settings):
        return None
    name, config = str(settings[OAUTH_CB]), str(settings.get(_CONFIG, ""))
    found = _sources.get((name, config))
    return found or _sources.setdefault((name, config), TokenSource(name, token_function(name), config))


def find_functions_in(kafka: Mapping[str, Any], folders: Iterable[str]) -> None:
    """Search folders for the functions of a ``kafka`` section that has some, after all that is searched already."""
    if any(bare_name(name) == OAUTH_CB for name in kafka):
        sys.path += [each for each in dict.fromkeys(folders) if each not in sys.path]


def token_function(name: str) -> Callable[[str], object]:
    """Import the function of ``kafka.oauth_cb``.

    Raises:
        ClientSettingsError: there is none of this name.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = reduce(getattr, attribute.split("."), import_module(module))
    except Exception as error:  # noqa: BLE001 - a module of the user
        raise ClientSettingsError(
            f"kafka.{OAUTH_CB} names {name}, which cannot be imported: {described(error)}; put "
            f"{module.partition('.')[0]} beside the configuration file or install it, or correct the error there"
        ) from None
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise ClientSettingsError(
            f"kafka.{OAUTH_CB} names {name}, which is no plain function; name one that takes a text "
            f"({_CONFIG}) and returns a token and its end in seconds since 1970"
        )
    function: Callable[[str], object] = found
    return function


def described(error: BaseException) -> str:
    """Return class and text of an exception, without what may be a secret."""
    try:
        text = printable_line(str(error))
    except Exception:  # noqa: BLE001 - a class of the user
        text = "(without a text)"
    text = _CODED.sub(HIDDEN, _NAMED.sub(rf"\1{HIDDEN}", without_secrets(text)))
    return f"{type(error).__name__}: {text[:_CAUSE_LENGTH]}"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[1:2]  # the first one is ours
    return "".join(f" (at {PurePath(each.filename).name}:{each.lineno})" for each in frames)


def _checked(answer: object, now_s: float) -> _Token:
    """Check what the function has returned: the client itself waits for ever after some of it.

    Raises:
        _RubbishError: it is no token, or one that has ended.
    """
    wanted = "instead of (token, end in seconds since 1970), or these with principal and extensions"
    if not isinstance(answer, tuple) or not 2 <= len(answer) <= 4:  # noqa: PLR2004
        raise _RubbishError(f"{type(answer).__name__} {wanted}")
    text, ends_s, *more = answer
    principal: object = more[0] if more else ""
    extensions: object = more[1] if len(more) > 1 else {}
    if not (
        isinstance(text, str)
        and isinstance(ends_s, int | float)
        and isinstance(principal, str)
        and isinstance(extensions, dict)
    ):
        raise _RubbishError(f"({', '.join(type(each).__name__ for each in answer)}) {wanted}")
    if not _TOKEN.fullmatch(text):
        raise _RubbishError("a text that is no bearer token; return what the token server calls access_token")
    if not math.isfinite(ends_s) or ends_s - now_s > _LONGEST_S:
        raise _RubbishError("an end of the token that is years away; return it in seconds, not in milliseconds")
    if ends_s <= now_s:
        raise _RubbishError("a token that has ended; return a new one, with its end in seconds since 1970 (UTC)")
    for name, value in extensions.items():
        if not _is(_EXTENSION, name) or name == "auth" or not _is(_EXTENSION_VALUE, value):
            raise _RubbishError("extensions that are none of SASL; their names have letters only")
    return _Token(text, float(ends_s), principal, extensions, now_s + _RENEW_AFTER * (ends_s - now_s))


def _is(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
