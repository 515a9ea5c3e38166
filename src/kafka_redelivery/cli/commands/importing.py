"""`redelivery import`: converts the configuration of an ActiveMQ broker: a file, standard input or a connection URI."""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from kafka_redelivery.cli.options import named_values
from kafka_redelivery.cli.output import print_text, stderr
from kafka_redelivery.topology.migration.connection_uri import is_connection_uri, read_connection_uri
from kafka_redelivery.topology.migration.conversion import (
    broker_version,
    note_unread,
    read_broker_configuration,
    to_yaml,
)
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import Imported, MigrationError
from kafka_redelivery.topology.migration.xml_tree import MAX_BYTES
from kafka_redelivery.topology.urls import without_secrets

_READ_TIMEOUT_S = 10.0
"""How long to wait for a pipe or a device."""

_XML_AND = "&amp;"
_CHUNK_BYTES = 2**20
_LOCAL = frozenset(("", "localhost"))
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_WEB = re.compile(r"(?:https?|ftp)://[^?#]*\.xml(?:[?#].*)?", re.IGNORECASE | re.DOTALL)


Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="The value of the placeholder ${NAME}; repeatable."),
]
Environment = Annotated[
    bool, typer.Option("--environment", help="Replace placeholders from the environment variables, too.")
]
BrokerVersion = Annotated[
    str | None,
    typer.Option(
        "--broker-version",
        metavar="VERSION",
        help="The broker's version, such as 2.40 or 5.18.6; by default the newest known one.",
    ),
]


def import_configuration(
    source: Annotated[
        str,
        typer.Argument(
            help="activemq.xml, broker.xml, the folder with one, or a connection URI in quotes; - for standard input."
        ),
    ],
    properties: Properties = None,
    environment: Environment = False,
    version: BrokerVersion = None,
) -> None:
    """Print the YAML equivalent of a broker's configuration; notes on standard error name what it leaves out."""
    values = PlaceholderValues(named_values(properties, "--property"), os.environ if environment else {})
    imported = read_source(source, values, version)
    text = to_yaml(imported)
    console = stderr()
    for note in imported.notes:
        console.print(f"note: {note}")
    print_text(text, newline=False)


def read_source(source: str, values: PlaceholderValues, version: str | None = None) -> Imported:
    """Read a broker's configuration. The newest known version of the broker is assumed if none is given.

    Raises:
        MigrationError: it cannot be read, or the broker would refuse it.
    """
    if source == "-":
        if sys.stdin is None:
            raise MigrationError("standard input", "is closed")
        return read_broker_configuration(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input", values, version)
    given = bool(source) and os.path.exists(source)  # noqa: PTH110 - False for a text that is not a path
    path = source if given else _path(source)
    if path is None:
        # An address that was copied from an XML file. The client itself would take amp; for a part of the names.
        imported = read_connection_uri(source.replace(_XML_AND, "&"), broker_version("activemq", version))
        if _XML_AND in source:
            imported.note(None, f"{_XML_AND}, which stands for & in an XML file, is read as &")
        return imported
    try:
        path = _in_folder(Path(path)) if Path(path).is_dir() else path
        content = _content(path)
        folder = Path(path).parent.resolve()
        instance = {"artemis.instance": str(folder.parent), "artemis.instance.etc": str(folder)}
        values = replace(values, environment={**instance, **values.environment})
    except FileNotFoundError:
        hint = "" if path != source else ", and it is no connection URI"
        raise MigrationError(source, f"there is no such file{hint}") from None
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from None
    bootstrap = _BOOTSTRAP.search(content) if Path(path).name == _BOOTSTRAP_FILE else None
    if bootstrap is not None:
        named = Path(path).with_name(Path(unquote(bootstrap[1].decode(errors="replace"))).name)
        if named.name != _BOOTSTRAP_FILE:
            return read_source(str(named), values, version)
    imported = read_broker_configuration(content, Path(path).name, values, version, _beside(folder), str(folder))
    if imported.dialect == "artemis":
        note_unread(imported, sorted(each.name for each in folder.glob("broker*.*") if each.suffix in _OTHER_FORMS))
    return imported


_OTHER_FORMS = frozenset((".json", ".yaml", ".yml"))
_BOOTSTRAP_FILE = "bootstrap.xml"
_BOOTSTRAP = re.compile(rb"""<server\s[^>]*?configuration=["']([^"']+)""")
_IN_FOLDER = ("broker.xml", "etc/broker.xml", "activemq.xml", "conf/activemq.xml")


def _in_folder(folder: Path) -> str:
    """Return the file that a broker reads in its folder.

    Raises:
        MigrationError: there is none.
    """
    for name in _IN_FOLDER:
        if (folder / name).is_file():
            return str(folder / name)
    raise MigrationError(str(folder), f"cannot be read: it is a folder without {', '.join(_IN_FOLDER)}")


def _beside(folder: Path) -> Callable[[str], bytes | None]:
    """Return what reads another file of the broker's folder, but none outside of it."""

    def read(name: str) -> bytes | None:
        try:
            file = (folder / name).resolve()
            return _content(str(file)) if file.is_relative_to(folder) and file.is_file() else None
        except (OSError, ValueError) as error:
            raise _unreadable(name, error) from None

    return read


def _unreadable(name: str, error: OSError | ValueError) -> MigrationError:
    return MigrationError(name, f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _path(source: str) -> str | None:
    """Return the path that a source names, also as a ``file:`` or ``xbean:`` URI; ``None`` if it is not a file.

    Raises:
        MigrationError: it is a file on another machine, or its URI is not valid.
    """
    scheme, _, rest = source.partition(":")
    match scheme.lower():
        case "xbean":
            rest = rest.partition("?")[0]
            return _path(rest) or rest
        case "file":
            try:
                uri = urlsplit(source)
            except ValueError as error:
                raise MigrationError(without_secrets(source), f"is not a valid URI: {error}") from None
            if uri.netloc.lower() not in _LOCAL:
                host = uri.netloc.rpartition("@")[2]
                raise MigrationError(without_secrets(source), f"is a file on {host}; copy it here and give its path")
            return unquote(uri.path)
    if _WEB.fullmatch(source):
        raise MigrationError(without_secrets(source), "is a file on the web; download it and give its path")
    return None if is_connection_uri(source) and not _DRIVE.match(source) else source


def _content(path: str) -> bytes:
    """Return the content of a file or a pipe, cut off above the maximum size.

    Raises:
        OSError: it cannot be opened or read, or sends nothing in time.
    """
    with open(path, "rb", buffering=0, opener=_open_nonblocking) as file:
        ready = select.poll()
        ready.register(file, select.POLLIN)
        content = bytearray()
        while len(content) <= MAX_BYTES:
            if not ready.poll(_READ_TIMEOUT_S * 1000):
                raise TimeoutError(0, f"no data for {_READ_TIMEOUT_S:g} s")
            chunk = file.read(_CHUNK_BYTES)
            if chunk == b"":
                break
            content += chunk or b""
        return bytes(content[: MAX_BYTES + 1])


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a pipe without waiting for a process that writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)
