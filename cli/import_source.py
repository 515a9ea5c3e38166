"""What `redelivery import` is given: a file, standard input or a connection URI."""

from __future__ import annotations

import os
import re
import select
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from topology.migration.connection_uri import is_connection_uri, read_connection_uri
from topology.migration.reading import read_broker_configuration
from topology.migration.result import Imported, MigrationError
from topology.migration.values import Values
from topology.migration.xml_tree import MOST_BYTES

_SILENT_S = 10.0
"""A pipe or a device that says nothing for so long is given up."""

_PIECE = 2**20
_LOCAL = frozenset(("", "localhost"))
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_WEB = re.compile(r"(?:https?|ftp)://[^?#]*\.xml(?:[?#].*)?", re.IGNORECASE | re.DOTALL)


def read_source(source: str, values: Values) -> Imported:
    """Read it.

    Raises:
        MigrationError: it cannot be read, or the broker itself refuses it.
    """
    if source == "-":
        if sys.stdin is None:
            raise MigrationError("standard input", "is closed")
        return read_broker_configuration(sys.stdin.buffer.read(MOST_BYTES + 1), "standard input", values)
    given = bool(source) and os.path.exists(source)  # noqa: PTH110 - false for texts that are no path at all
    path = source if given else _path(source)
    if path is None:
        return read_connection_uri(source)
    try:
        content = _content(path)
    except FileNotFoundError:
        hint = "" if path != source else ", and it is no connection URI"
        raise MigrationError(source, f"there is no such file{hint}") from None
    except (OSError, ValueError) as error:
        raise MigrationError(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return read_broker_configuration(content, Path(path).name, values)


def _path(source: str) -> str | None:
    """The path that a source means, also as a URI of a file or of a broker's configuration; ``None``: it is no file.

    Raises:
        MigrationError: it is a file on another machine.
    """
    scheme, _, rest = source.partition(":")
    match scheme.lower():
        case "xbean":
            rest = rest.partition("?")[0]
            return _path(rest) or rest
        case "file":
            place = urlsplit(source)
            if place.netloc.lower() not in _LOCAL:
                raise MigrationError(source, f"is a file on {place.netloc}; copy it here and give its path")
            return unquote(place.path)
    if _WEB.fullmatch(source):
        raise MigrationError(source, "is a file on the web; download it and give its path")
    return None if is_connection_uri(source) and not _DRIVE.match(source) else source


def _content(path: str) -> bytes:
    """What is in a file, or comes from a pipe; of too much the beginning.

    Raises:
        OSError: it cannot be opened or read, or nothing comes.
    """
    with open(path, "rb", buffering=0, opener=_without_waiting) as file:
        ready = select.poll()
        ready.register(file, select.POLLIN)
        content = bytearray()
        while len(content) <= MOST_BYTES:
            if not ready.poll(_SILENT_S * 1000):
                raise TimeoutError(0, f"nothing came from it for {_SILENT_S:g} s")
            piece = file.read(_PIECE)
            if piece == b"":
                break
            content += piece or b""
        return bytes(content[: MOST_BYTES + 1])


def _without_waiting(path: str, flags: int) -> int:
    """To open a pipe that nobody writes to takes for ever otherwise."""
    return os.open(path, flags | os.O_NONBLOCK)
