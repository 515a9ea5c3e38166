"""Reads policies, dead-letter strategies and plugins of an ActiveMQ Classic ``activemq.xml``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from topology.classic.destination import ANY_CHILD, ANY_DESCENDANT, SEPARATOR, Kind, named
from topology.errors import DestinationError
from topology.migration.classic_beans import Beans
from topology.migration.classic_schema import ELEMENTS, NAMESPACE, SHAPES
from topology.migration.result import Imported, MigrationError, place
from topology.migration.start_check import drop_only_that_compiles, note_start_errors
from topology.migration.values import Values
from topology.migration.xml_tree import Element

ROOTS = ("beans", "broker")
_TARGETS = ("queue", "tempQueue", "tempTopic", "topic")
"""In the order in which Spring sets them: the last one counts."""

_KINDS = ("queue", "topic", "tempQueue", "tempTopic")
_WILDCARDS = {ANY_CHILD, ANY_DESCENDANT}
_STRATEGIES = {
    "sharedDeadLetterStrategy": "sharedDeadLetterStrategy",
    "individualDeadLetterStrategy": "individualDeadLetterStrategy",
    "discarding": "discarding",
}
_READ_FROM_ROOT = frozenset(("broker", *SHAPES, "queue", "topic"))
_READ_BY_BROKER = {"destinationPolicy", "plugins", "destinations"}
_TUNING = "it tunes the broker's own memory, dispatch or advisories; Kafka has its own ways"
_REASONS = {
    "expireMessagesPeriod": "an expired record is found when it is read, there is no scan",
    "maxExpirePageSize": "an expired record is found when it is read, there is no scan",
    "sendDuplicateFromStoreToDLQ": "Kafka's store has no such duplicates",
    "timeStampingBrokerPlugin": "set JMSExpiration in the producer",
}


def read_activemq_xml(root: Element, name: str, values: Values) -> Imported:
    """Read a parsed ``activemq.xml``.

    Args:
        root: the document.
        name: of the file.
        values: for ``${...}``, beside those that the file itself holds.

    Raises:
        MigrationError: the broker itself refuses the file.
    """
    imported = Imported(name, "activemq")
    beans = Beans(root, imported, values)
    brokers = [each for each in ([root] if root.name == "broker" else root.all("broker")) if _is_core(each)]
    if not brokers:
        raise MigrationError(
            place(name, root.line), f"has no <broker xmlns={NAMESPACE!r}> in it; the broker refuses the file"
        )
    for child in root.children if root is not brokers[0] else ():
        if child.name == "import":
            resource = child.attributes.get("resource", "")
            imported.note(
                child.line, f"<import resource={resource!r}> is not followed: what it sets is not carried over"
            )
        elif _is_core(child) and child.name not in _READ_FROM_ROOT:
            imported.note(child.line, f"<{child.name}> is not carried over: it is no part of the broker")
    for other in brokers[1:]:
        imported.note(other.line, "a second <broker> is not carried over: a configuration here is one broker's")
    _ActiveMqXml(brokers[0], beans, imported).read()
    return imported


def _is_core(element: Element) -> bool:
    return element.namespace.startswith(NAMESPACE)


class _ActiveMqXml:
    def __init__(self, broker: Element, beans: Beans, imported: Imported) -> None:
        self._broker = broker
        self._beans = beans
        self._imported = imported

    def read(self) -> None:
        broker, section = self._broker, self._imported.section
        attributes = self._beans.attributes(broker)
        for attribute, text in attributes.items():
            if attribute not in {"brokerName", "id", "schedulerSupport", "destinationPolicy"}:
                self._left(broker, f"{attribute}={text}", "it is about the broker itself")
        for child in broker.children:
            if child.name not in _READ_BY_BROKER:
                self._left(child, f"<{child.name}>", "it is about the broker itself")
        reference = attributes.get("destinationPolicy")
        maps = list(self._beans.referred(broker, "destinationPolicy", reference, ("policyMap",)))
        for policy in list(broker.all("destinationPolicy"))[-1:]:
            maps = list(self._beans.inside(policy, "policyMap"))
        for policy_map in maps:
            self._policy_map(policy_map, section)
        plugins = [found for container in broker.all("plugins") for found in self._plugins(container)]
        if plugins:
            section["plugins"] = plugins
        note_start_errors(section, str(attributes.get("schedulerSupport", "false")), broker.line, self._imported)
        for container in broker.all("destinations"):
            for destination in container.children:
                self._imported.names([f"{kind}:{text}" for kind, text in [self._destination(destination)] if text])

    def _policy_map(self, policy_map: Element, section: dict[str, Any]) -> None:
        entries: list[dict[str, Any]] = []
        for container, entry in self._entries(policy_map, "policyEntry", "policyEntries"):
            found = self._policy_entry(entry)
            if container == "defaultEntry":
                section["defaultEntry"] = {key: text for key, text in found.items() if key not in _TARGETS}
            elif not self._about_nobody(found, entry):
                entries.append(self._about_something(found, entry))
        if entries:
            section["policyEntries"] = entries

    def _entries(self, of: Element, name: str, plural: str) -> Iterator[tuple[str, Element]]:
        """The entries of a map with what they stand in; anything else in it is refused, as by the broker."""
        default = self._beans.attributes(of).get("defaultEntry")
        for entry in self._beans.referred(of, "defaultEntry", default, (name,)):
            yield "defaultEntry", entry
        last = {container.name: container for container in of.children}
        for container in of.children:
            if container.name not in {"defaultEntry", plural}:
                self._beans.refuse(container, f"<{container.name}> cannot be set in <{of.name}>")
            if container is not last[container.name]:
                self._left(container, f"<{container.name}>", "it is here again further down, and the last one counts")
                continue
            for entry in self._beans.inside(container, name):
                yield container.name, entry
            for other in container.children:
                if _is_core(other) and other.name != name:
                    self._beans.refuse(other, f"<{other.name}> is no <{name}>")

    def _policy_entry(self, entry: Element) -> dict[str, Any]:
        found = self._entry(entry)
        attributes = self._beans.attributes(entry)
        strategy = attributes.pop("deadLetterStrategy", None)
        if attributes.pop("persistJMSRedelivered", False):
            self._persist_counts(entry)
        for attribute, text in attributes.items():
            if attribute not in {*_TARGETS, "id", "destination"}:
                self._left(entry, f"{attribute}={text}", _REASONS.get(attribute, _TUNING))
        candidates = []
        for child in entry.children:
            if child.name == "deadLetterStrategy":
                candidates += self._one_strategy(child)
            elif child.name != "destination":
                self._left(child, f"<{child.name}>", _REASONS.get(child.name, _TUNING))
        for candidate in candidates[-1:] or self._beans.referred(entry, "deadLetterStrategy", strategy):
            found["deadLetterStrategy"] = {candidate.name: self._strategy(candidate)}
        return found

    def _persist_counts(self, entry: Element) -> None:
        self._imported.handler["persistDeliveryCountBeforeDelivery"] = True
        self._imported.note(
            entry.line,
            "persistJMSRedelivered=true becomes handler.persistDeliveryCountBeforeDelivery, which is about all sources "
            "of the worker",
        )

    def _one_strategy(self, element: Element) -> list[Element]:
        if len(element.children) != 1:
            self._beans.refuse(element, f"<{element.name}> holds {len(element.children)} strategies and not one")
        return list(self._beans.inside(element, *_STRATEGIES))

    def _strategy(self, strategy: Element) -> dict[str, Any]:
        found: dict[str, Any] = dict(self._beans.attributes(strategy))
        found.pop("id", None)
        text = found.pop("deadLetterQueue", None)
        targets = [given for target in strategy.all("deadLetterQueue") for given in self._beans.inside(target, *_KINDS)]
        for child in targets[-1:] or self._beans.referred(strategy, "deadLetterQueue", text, _KINDS):
            kind, name = self._destination(child)
            if "physicalName" not in child.attributes:
                self._left(child, f"<{child.name}>", "it has no physicalName, so dead letters would be lost")
                continue
            if not name.strip():
                self._beans.refuse(child, f"<{child.name}> has an empty physicalName")
            if kind in {Kind.TEMP_QUEUE, Kind.TEMP_TOPIC}:
                self._imported.note(child.line, f"the dead letters of {kind} {name} go to a queue: a topic is for good")
                kind = str(Kind.QUEUE)
            found["deadLetterQueue"] = _target(kind, name)
        return found

    def _plugins(self, container: Element) -> Iterator[dict[str, Any]]:
        readers: dict[str, Callable[[Element], dict[str, Any]]] = {
            "redeliveryPlugin": self._redelivery_plugin,
            "discardingDLQBrokerPlugin": self._discarding_plugin,
        }
        for child in container.children:
            plugin = self._beans.resolved(container, child)
            reader = readers.get(plugin.name) if _is_core(plugin) else None
            if reader is not None:
                yield {plugin.name: reader(plugin)}
                continue
            if _is_core(plugin) and plugin.name not in ELEMENTS:
                self._beans.refuse(plugin, f"<{plugin.name}> is not known")
            self._left(plugin, f"<{plugin.name}>", _REASONS.get(plugin.name, "it is about the broker itself"))

    def _redelivery_plugin(self, plugin: Element) -> dict[str, Any]:
        attributes = self._beans.attributes(plugin)
        found: dict[str, Any] = {
            key: attributes[key]
            for key in ("fallbackToDeadLetter", "sendToDlqIfMaxRetriesExceeded")
            if key in attributes
        }
        maps = list(self._beans.referred(plugin, "redeliveryPolicyMap", attributes.get("redeliveryPolicyMap")))
        for child in plugin.all("redeliveryPolicyMap"):
            maps += self._beans.inside(child, "redeliveryPolicyMap")
        for policy_map in maps:
            found["redeliveryPolicyMap"] = self._redelivery_map(policy_map)
        return found

    def _redelivery_map(self, policy_map: Element) -> dict[str, Any]:
        entries: list[dict[str, Any]] = []
        found: dict[str, Any] = {}
        for container, entry in self._entries(policy_map, "redeliveryPolicy", "redeliveryPolicyEntries"):
            attributes = self._beans.attributes(entry)
            policy = self._entry(entry) | {
                key: text for key, text in attributes.items() if key not in {*_TARGETS, "id", "destination"}
            }
            if container == "defaultEntry":
                found["defaultEntry"] = {key: text for key, text in policy.items() if key not in _TARGETS}
            elif not self._about_nobody(policy, entry):
                entries.append(self._about_something(policy, entry))
        if entries:
            found["redeliveryPolicyEntries"] = entries
        return found

    def _discarding_plugin(self, plugin: Element) -> dict[str, Any]:
        found = dict(self._beans.attributes(plugin))
        found.pop("id", None)
        return drop_only_that_compiles(found, plugin.line, self._imported)

    def _entry(self, entry: Element) -> dict[str, Any]:
        """What an entry is about: its attributes, of which the broker counts the one set last, or a child."""
        attributes = self._beans.attributes(entry)
        found: dict[str, Any] = {}
        for name in _TARGETS:
            if name not in attributes:
                continue
            if found:
                self._imported.note(entry.line, f"<{entry.name}> says more than once what it is about; {name} counts")
            # The setters of the temporary ones do not look at their value.
            found = {name: True if name.startswith("temp") else attributes[name]}
        if found and "destination" in attributes:
            return found  # Spring sets a property where its attribute stands, and this one stands first
        given = [inner for child in entry.all("destination") for inner in self._beans.inside(child, *_KINDS)]
        text = attributes.get("destination")
        for destination in given[-1:] or self._beans.referred(entry, "destination", text, _KINDS):
            found = _target(*self._destination(destination))
        return found

    def _about_something(self, found: dict[str, Any], entry: Element) -> dict[str, Any]:
        """The entry, which must say what it is about."""
        texts = [found[name] for name in _TARGETS if name in found]
        if not texts or not str(texts[-1]).strip():
            self._beans.refuse(entry, f"<{entry.name}> is about no destination")
        return found

    def _about_nobody(self, found: dict[str, Any], entry: Element) -> bool:
        """Whether the entry is about a temporary destination by its name, which the broker alone chooses."""
        if not any(found.get(name) is False for name in ("tempQueue", "tempTopic")):
            return False
        self._left(entry, f"<{entry.name}>", "it names a temporary destination, but the broker makes up their names")
        return True

    def _destination(self, element: Element) -> tuple[str, str]:
        attributes = self._beans.attributes(element)
        name = str(attributes.get("physicalName", ""))  # there is a name, too, which is not the destination's
        return {"tempQueue": "temp-queue", "tempTopic": "temp-topic"}.get(element.name, element.name), name

    def _left(self, element: Element, what: str, reason: str) -> None:
        self._imported.note(element.line, f"{what} is not carried over: {reason}")


def _target(kind: str, name: str) -> dict[str, Any]:
    temporary = {Kind.TEMP_QUEUE: "tempQueue", Kind.TEMP_TOPIC: "tempTopic"}.get(Kind(kind))
    if temporary is not None:
        return {temporary: set(name.split(SEPARATOR)) <= _WILDCARDS} if name.strip() else {}
    try:
        return {kind: named(Kind(kind), name).name}
    except (DestinationError, ValueError):
        return {"queue": name}
