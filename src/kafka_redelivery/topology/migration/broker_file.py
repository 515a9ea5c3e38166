"""Reads a broker's configuration file: an ``activemq.xml`` or a ``broker.xml``."""

from __future__ import annotations

from kafka_redelivery.topology.migration import activemq_xml, broker_xml
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import Imported, MigrationError
from kafka_redelivery.topology.migration.xml_tree import read_xml


def read_broker_configuration(content: bytes, name: str, values: PlaceholderValues) -> Imported:
    """Read an ``activemq.xml`` or a ``broker.xml``; the root element tells which it is.

    Args:
        content: the content of the file.
        name: the name of the file, for messages.
        values: the values of placeholders.

    Raises:
        MigrationError: the file is neither of the two, cannot be parsed safely, or the broker itself refuses it.
    """
    root = read_xml(content, name)
    if root.name == broker_xml.ROOT:
        if b"$" in content:
            # Artemis replaces placeholders in the text, before it parses the XML.
            root = read_xml(broker_xml.replaced(content, name, values), name)
        return broker_xml.read_broker_xml(root, name, values)
    if root.name in activemq_xml.ROOTS:
        return activemq_xml.read_activemq_xml(root, name, values)
    problem = f"is neither an activemq.xml (<beans>) nor a broker.xml (<configuration>), but <{root.name}>"
    raise MigrationError(name, problem, root.line)
