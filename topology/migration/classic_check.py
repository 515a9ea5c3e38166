"""What the broker's schema says of the structure of an ``activemq.xml``: how many, and no text between."""

from __future__ import annotations

from topology.migration.classic_schema import HOLDS_ELEMENTS, HOLDS_ONE, NAMESPACE, NEVER_A_REFERENCE, PLUGINS
from topology.migration.result import MigrationError, place
from topology.migration.xml_tree import Element


def check_structure(root: Element, name: str) -> None:
    """Check what :func:`topology.migration.schema.check_shape` cannot see: it looks at one element alone.

    Args:
        root: the document.
        name: of the file.

    Raises:
        MigrationError: the broker refuses the file.
    """
    ids: set[str] = set()
    for element in root.walk():
        identity = element.attributes.get("id")
        if identity is not None and identity in ids:
            _refuse(element, name, f"there are two beans with the id {identity!r}")
        if identity is not None:
            ids.add(identity)
        if element.namespace.startswith(NAMESPACE):
            _check_element(element, name)


def _check_element(element: Element, name: str) -> None:
    if element.name in HOLDS_ELEMENTS and element.text:
        _refuse(element, name, f"<{element.name}> holds the text {element.text[:40]!r} where only elements may be")
    for attribute in NEVER_A_REFERENCE & element.attributes.keys():
        if element.attributes[attribute].startswith("#"):
            _refuse(element, name, f"{attribute}={element.attributes[attribute]!r} is a reference where a text must be")
    for child in element.children:
        if not child.namespace.startswith(NAMESPACE):
            continue
        if element.name == "plugins" and child.name not in PLUGINS:
            _refuse(child, name, f"<{child.name}> is no plugin")
        if element.name == "destinationPolicy" and child.name != "policyMap":
            _refuse(child, name, f"<{child.name}> is no <policyMap>")
        if element.name == "redeliveryPlugin" and child.name == "redeliveryPolicyMap":
            _check_map_property(child, name)
        if child.name in HOLDS_ONE and len(child.children) != 1:
            _refuse(child, name, f"<{child.name}> holds {len(child.children)} elements and not one")


def _check_map_property(element: Element, name: str) -> None:
    """The property holds the bean of the same name; people forget one of the two."""
    names = [child.name for child in element.children if child.namespace.startswith(NAMESPACE)]
    if len(element.children) != 1 or any(child != "redeliveryPolicyMap" for child in names):
        _refuse(element, name, "<redeliveryPolicyMap> of the plugin must hold one <redeliveryPolicyMap>")


def _refuse(element: Element, name: str, problem: str) -> None:
    raise MigrationError(place(name, element.line), f"{problem}; the broker refuses the file")
