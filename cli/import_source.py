"""What `redelivery import` is given: a file, standard input or a connection URI."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from topology.migration.connection_uri import is_connection_uri, read_connection_uri
from topology.migration.reading import read_broker_configuration
from topology.migration.result import Imported, MigrationError
from topology.migration.values import Values
from topology.migration.xml_tree import MOST_BYTES


def read_source(source: str, values: Values) -> Imported:
    """Read it.

    Raises:
        MigrationError: it cannot be read, or the broker itself refuses it.
    """
    if source == "-":
        return read_broker_configuration(sys.stdin.buffer.read(MOST_BYTES + 1), "standard input", values)
    path = Path(source)
    if is_connection_uri(source) and not (source and os.path.exists(source)):  # noqa: PTH110 - false for long texts
        return read_connection_uri(source)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise MigrationError(source, "there is no such file, and it is no connection URI") from None
    except (OSError, ValueError) as error:
        raise MigrationError(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return read_broker_configuration(content, path.name, values)
