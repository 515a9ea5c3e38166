"""One source of any kind -> our configuration."""

from __future__ import annotations

from topology.migration import activemq_xml, broker_xml
from topology.migration.result import Imported, MigrationError, place
from topology.migration.values import Values
from topology.migration.xml_tree import read_xml


def read_broker_configuration(content: bytes, name: str, values: Values) -> Imported:
    """Read an ``activemq.xml`` or a ``broker.xml``, whichever it is.

    Args:
        content: of the file.
        name: what to call it in messages.
        values: for ``${...}``.

    Raises:
        MigrationError: it is neither, cannot be parsed safely, or the broker itself refuses it.
    """
    root = read_xml(content, name)
    if root.name == broker_xml.ROOT:
        if b"$" in content:
            # Artemis replaces placeholders before it parses, wherever they stand.
            root = read_xml(broker_xml.replaced(content, name, values), name)
        return broker_xml.read_broker_xml(root, name, values)
    if root.name in activemq_xml.ROOTS:
        return activemq_xml.read_activemq_xml(root, name, values)
    raise MigrationError(
        place(name, root.line),
        f"is neither an activemq.xml (<beans>) nor a broker.xml (<configuration>): <{root.name}>",
    )
