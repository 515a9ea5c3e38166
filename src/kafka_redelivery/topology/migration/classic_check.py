"""Checks the structure of an ``activemq.xml`` against the broker's schema: ids, text, and numbers of children."""

from __future__ import annotations

from kafka_redelivery.topology.migration.classic_schema import (
    HOLDS_ELEMENTS,
    HOLDS_ONE,
    NAMESPACE,
    NEVER_A_REFERENCE,
    PLUGINS,
)
from kafka_redelivery.topology.migration.result import MigrationError
from kafka_redelivery.topology.migration.xml_tree import Element


def check_structure(root: Element, name: str) -> None:
    """Check what involves more than one element; :func:`check_shape` checks single elements.

    Args:
        root: the root element.
        name: the name of the file, for messages.

    Raises:
        MigrationError: the broker refuses the file.
    """
    ids: set[str] = set()
    for element in root.walk():
        identity = element.attributes.get("id")
        if identity is not None and identity in ids:
            _refuse(element, name, f"two beans have the id {identity!r}")
        if identity is not None:
            ids.add(identity)
        if element.namespace.startswith(NAMESPACE):
            _check_element(element, name)


def _check_element(element: Element, name: str) -> None:
    if element.name in HOLDS_ELEMENTS and element.text:
        _refuse(
            element, name, f"<{element.name}> contains the text {element.text[:40]!r}, but may only contain elements"
        )
    for attribute in NEVER_A_REFERENCE & element.attributes.keys():
        if element.attributes[attribute].startswith("#"):
            _refuse(element, name, f"{attribute}={element.attributes[attribute]!r} is a reference, but must be text")
    for child in element.children:
        if not child.namespace.startswith(NAMESPACE):
            continue
        if element.name == "plugins" and child.name not in PLUGINS:
            _refuse(child, name, f"<{child.name}> is not a plugin")
        if element.name == "destinationPolicy" and child.name != "policyMap":
            _refuse(child, name, f"<{child.name}> is not a <policyMap>")
        if element.name == "redeliveryPlugin" and child.name == "redeliveryPolicyMap":
            _check_map_property(child, name)
        if child.name in HOLDS_ONE and len(child.children) != 1:
            _refuse(child, name, f"<{child.name}> contains {len(child.children)} elements instead of one")


def _check_map_property(element: Element, name: str) -> None:
    """Check that the property contains the bean of the same name; often one of the two is missing."""
    names = [child.name for child in element.children if child.namespace.startswith(NAMESPACE)]
    if len(element.children) != 1 or any(child != "redeliveryPolicyMap" for child in names):
        _refuse(element, name, "<redeliveryPolicyMap> of the plugin must contain one <redeliveryPolicyMap>")


def _refuse(element: Element, name: str, problem: str) -> None:
    raise MigrationError(name, f"{problem}; the broker refuses the file", element.line)
