"""Reads policies, dead-letter strategies and plugins of an ActiveMQ Classic ``activemq.xml``."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any

from kafka_redelivery.topology.classic.destination import ANY_CHILD, ANY_DESCENDANT, SEPARATOR, DestinationKind, named
from kafka_redelivery.topology.classic.plugins import SHORTEST_BROKER_DELAY_MS
from kafka_redelivery.topology.errors import DestinationError
from kafka_redelivery.topology.java.regex import MAX_PATTERN_CHARACTERS, java_pattern
from kafka_redelivery.topology.migration.classic_beans import (
    ACTIVE_PROFILES,
    EXPRESSION,
    IMPORT,
    NAMESPACE,
    NESTED,
    PROPERTIES,
    READ,
    TYPES,
    Beans,
    Value,
    described,
    locations,
    of_activemq,
    read_of_factory,
    take_profiles,
    top_level,
)
from kafka_redelivery.topology.migration.connection_uri import (
    CARRIED,
    carry_acknowledgement,
    note_blocking,
    read_connection_uri,
)
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import Imported, MigrationError
from kafka_redelivery.topology.migration.versions import BrokerVersion, in_words, names
from kafka_redelivery.topology.migration.xml_tree import Element, read_xml

_DELAYS = ("initialRedeliveryDelay", "redeliveryDelay")


def note_start_errors(section: dict[str, Any], scheduler: str, line: int, imported: Imported) -> None:
    """Add a note for each setting of a redelivery plugin that the broker does not start with.

    Source: ``RedeliveryPlugin.installPlugin``.
    """
    for plugin in section.get("plugins", ()):
        redelivery = plugin.get("redeliveryPlugin")
        if redelivery is None:
            continue
        if scheduler.strip().lower() != "true":
            imported.note(line, "a broker with a redeliveryPlugin starts only with schedulerSupport=true")
        policies = redelivery.get("redeliveryPolicyMap", {})
        entries = [*policies.get("redeliveryPolicyEntries", ()), *filter(None, [policies.get("defaultEntry")])]
        for policy in entries:
            for name in _DELAYS:
                if policy.get(name, SHORTEST_BROKER_DELAY_MS) < SHORTEST_BROKER_DELAY_MS:
                    imported.note(
                        line,
                        f"{name}={policy[name]} is below {SHORTEST_BROKER_DELAY_MS}: it is carried over, but the "
                        "broker does not start with it",
                    )


def drop_only_that_compiles(plugin: dict[str, Any], line: int, imported: Imported) -> dict[str, Any]:
    """Return a discarding plugin without the patterns that are not regular expressions.

    Raises:
        MigrationError: the patterns are too long.
    """
    if len(str(plugin.get("dropOnly") or "")) > MAX_PATTERN_CHARACTERS:
        raise MigrationError(imported.name, "dropOnly is too long", line)
    texts = [text for text in str(plugin.get("dropOnly") or "").split(" ") if text.strip()]
    kept = []
    for text in texts:
        try:
            java_pattern(text)
        except re.error as error:
            imported.note(
                line,
                f"dropOnly {text!r} is left out: it is not a regular expression ({error}), and the broker does not "
                "start with it, unless it is one of the few that only Java accepts",
            )
        else:
            kept.append(text)
    found = dict(plugin)
    if len(kept) < len(texts):
        found["dropOnly"] = " ".join(kept) or None
        if found["dropOnly"] is None:
            del found["dropOnly"]
    if kept and plugin.get("dropAll", True):
        imported.note(
            line, "dropOnly has no effect together with dropAll, which is on by default: all dead letters are dropped"
        )
    return found


ROOTS = ("beans", "broker", "blueprint")
_TARGETS = ("queue", "tempQueue", "tempTopic", "topic")
"""In the order in which Spring sets them: the last one has an effect."""

_KINDS = ("queue", "topic", "tempQueue", "tempTopic")
_WILDCARDS = {ANY_CHILD, ANY_DESCENDANT}
_PLACE = frozenset((*_TARGETS, "id", "destination"))
"""Attributes of an entry that say where it applies."""

_FACTORIES = frozenset(("connectionFactory", "xaConnectionFactory"))
_READ_FROM_ROOT = frozenset(("broker", *TYPES, *PROPERTIES, *_FACTORIES, "pooledConnectionFactory", "queue", "topic"))
_OLD_NAMESPACE = "http://activemq.org/config/1.0"
_OF_OLD_NAMESPACE = "5.0-5.2"
_JMS, _POLICY = "jms.", "redeliveryPolicy."
_NON_BLOCKING = "nonBlockingRedelivery"
_SPEAKS_STOMP = re.compile(r"((?:stomp|auto)[+\w]*)://[^/?]*?(?::(\d+))?(?:[/?]|$)")
_READ_BY_BROKER = {"destinationPolicy", "plugins", "destinations"}
_TUNING = "it tunes the broker's memory, dispatch or advisories, which Kafka does in its own way"
_CLIENT_OF_ARTEMIS = "org.apache.activemq.artemis.jms.client.ActiveMQ"
_REPEATED = "the element is repeated below, and the last one has an effect"
_BROKER = "it is a setting of the broker itself"
_REASONS = {
    "expireMessagesPeriod": "records expire when they are read, without a scan",
    "maxExpirePageSize": "records expire when they are read, without a scan",
    "sendDuplicateFromStoreToDLQ": "Kafka's log has no such duplicates",
    "destinationInterceptors": "Kafka copies no messages to other topics; instead of a virtual topic's queues, several "
    "groups read one topic",
    "destinationPathSeparatorPlugin": "the broker makes dots of the separators in names: write names here with dots",
    "timeStampingBrokerPlugin": "set JMSExpiration in the producer",
}


def read_activemq_xml(root: Element, name: str, values: PlaceholderValues, version: BrokerVersion) -> Imported:
    """Read a parsed ``activemq.xml``.

    Args:
        root: the root element.
        name: the name of the file, for messages.
        values: the values of placeholders; the file may define more.
        version: the version of the broker.

    Raises:
        MigrationError: the broker itself refuses the file.
    """
    imported = Imported(name, "activemq")
    hint = _take_old_namespace(root, version)
    for each in take_profiles(root, values):
        profile = each.attributes.get("profile", "")
        text = f"<beans profile={profile!r}> is not read: choose it with --property {ACTIVE_PROFILES}={profile}"
        imported.note(each.line, text)
        hint += f"; {text}"
    for each in top_level(root):
        resource = each.attributes.get("resource", "")
        if each.name == IMPORT and resource:
            imported.note(each.line, f"<import resource={resource!r}> is not read: its settings are not carried over")
            hint += f"; {resource}, which it imports, is not read: put it beside the file, or its content into it"
    beans = Beans(root, imported, values, version, hint)
    elements = map(beans.as_element, [root] if root.name == "broker" else top_level(root, IMPORT))
    brokers = [each for each in elements if each is not None and _is_core(each) and each.name == "broker"]
    file = _ActiveMqXml(root, beans, imported, version)
    if not file.read_clients() and not brokers:
        problem = f"contains no <broker xmlns={NAMESPACE!r}>, and no connection factory or policy of a client"
        raise MigrationError(name, f"{problem}; the broker refuses the file{hint}{_hint(root)}", root.line)
    for child in top_level(root) if root not in brokers else ():
        if _is_core(child) and child.name not in _READ_FROM_ROOT:
            imported.note(child.line, f"<{child.name}> is not carried over: it is not part of the broker")
    for other in brokers[1:]:
        imported.note(
            other.line, "a second <broker> is not carried over: our configuration has the settings of one broker"
        )
    if brokers:
        file.read_broker(brokers[0])
    return imported


_RESOURCE = re.compile(r"((?:file:|classpath\*?:)?(?:/*\$\{activemq\.conf\}/)?)(.*)", re.DOTALL)
_MAX_IMPORTS = 100


def include(root: Element, name: str, read: Callable[[str], bytes | None]) -> None:
    """Put what imported files contain into the elements that name them: ``<import>``, or locations of properties.

    Args:
        root: the root element.
        name: the name of the file, for messages.
        read: returns the content of a file by its path in the folder; ``None`` if it is not there. Its import stays.

    Raises:
        MigrationError: a file is not XML, or the files import each other too often.

    Source: ``DefaultBeanDefinitionDocumentReader.importBeanDefinitionResource``.
    """
    waiting, count = [(root, "")], 0
    while waiting:
        element, base = waiting.pop()
        for child in element.children:
            if child.name == NESTED:
                waiting.append((child, base))
            if child.name != IMPORT or not child.attributes.get("resource"):
                continue
            path = _in_folder(child.attributes["resource"], base)
            content = read(path)
            count += 1
            if count > _MAX_IMPORTS:
                raise MigrationError(name, f"imports more than {_MAX_IMPORTS} files", child.line)
            if content is None:
                continue
            del child.attributes["resource"]  # it has been read
            imported = read_xml(content, path)
            if imported.name != NESTED or not any(map(of_activemq, imported.walk())):
                continue
            for each in imported.walk():
                each.line = child.line  # messages name a line of the file itself
            child.children = [imported] if "profile" in imported.attributes else imported.children
            waiting.append((child, posixpath.dirname(path)))
    _read_properties(root, name, read)


def _read_properties(root: Element, name: str, read: Callable[[str], bytes | None]) -> None:
    """Put the properties of files in the place of their locations, where all of them are there."""
    count = 0
    for setting in locations(root):
        texts = [setting.attributes.get(key, "") for key in ("value", "location")]
        texts += (each.text for each in setting.walk() if each.name == "value")
        paths = [_in_folder(each) for text in texts for each in text.split(",") if each.strip()]
        count += len(paths)
        if count > _MAX_IMPORTS:
            raise MigrationError(name, f"has properties in more than {_MAX_IMPORTS} files", setting.line)
        contents = [read(path) for path in paths]
        if contents and None not in contents:
            lines = "\n".join(content.decode("latin-1") for content in contents if content is not None)
            setting.attributes |= {"name": READ, "value": lines}
            setting.children = []


def _hint(root: Element) -> str:
    """Return where the broker is that a file does not contain."""
    beside = {id(each) for each in root.children}
    if any(_is_core(each) and each.name == "broker" and id(each) not in beside for each in top_level(root)):
        return "; a broker does not read <beans> inside of <beans>: import the inner ones in a file of their own"
    for bean in root.walk():
        if bean.attributes.get("class", "").endswith("BrokerFactoryBean"):
            files = [each.attributes for each in bean.all("property") if each.attributes.get("name") == "config"]
            return "".join(f"; the broker's file is {each.get('value')}: import that" for each in files)
    return ""


def _in_folder(resource: str, base: str = "") -> str:
    """Return the path of a resource in the folder of the broker, which is also on its class path."""
    found = _RESOURCE.fullmatch(resource.strip())
    prefix, path = (found[1], found[2]) if found else ("", resource)
    return posixpath.normpath(posixpath.join("" if prefix else base, path))


def _take_old_namespace(root: Element, version: BrokerVersion) -> str:
    """Let a version that knows the first namespace read it. Return what to do where another version has the file."""
    found = [each for each in root.walk() if each.namespace == _OLD_NAMESPACE]
    if not version.has(_OF_OLD_NAMESPACE):
        return f"; {_OLD_NAMESPACE} is of {in_words(_OF_OLD_NAMESPACE)}: add --broker-version 5.2" if found else ""
    for each in found:
        each.namespace = NAMESPACE
    return ""


def _is_core(element: Element) -> bool:
    return element.namespace.startswith(NAMESPACE)


class _ActiveMqXml:
    def __init__(self, root: Element, beans: Beans, imported: Imported, version: BrokerVersion) -> None:
        self._root = root
        self._beans = beans
        self._imported = imported
        self._version = version

    def read_clients(self) -> bool:
        """Read the policies of connection factories. Without a factory, read those that nothing refers to.

        Returns:
            Whether there is a factory or a policy.
        """
        elements = [each for each in map(self._beans.as_element, self._root.walk()) if each is not None]
        for each in self._root.walk():
            if each.attributes.get("class", "").startswith(_CLIENT_OF_ARTEMIS):
                self._imported.note(each.line, "Artemis's client has no redelivery policy: import the broker's file")
        factories = [each for each in elements if each.name in _FACTORIES]
        found = [(each, self._client(each)) for each in factories]
        for policy in self._beans.unused("redeliveryPolicyMap", "redeliveryPolicy"):
            if factories:
                self._not_carried_over(policy, f"<{policy.name}>", "nothing refers to it")
            else:
                found.append((policy, self._unused(policy)))
        ours = self._imported
        for element, client in found:
            pairs = [(ours.section, client.section), (ours.handler, client.handler), (ours.top_level, client.top_level)]
            if any(known.get(key, value) != value for known, given in pairs for key, value in given.items()):
                self._not_carried_over(
                    element,
                    f"the policy of <{element.name}>",
                    "our configuration has the policy of one client, the first",
                )
                continue
            for known, given in pairs:
                known.update(given)
        return bool(factories or found)

    def _client(self, factory: Element) -> Imported:
        """Return the policies of a connection factory. The bean of a policy replaces the one that its URI sets."""
        attributes, found = self._beans.attributes(read_of_factory(factory)), Imported(self._imported.name, "activemq")
        uri = str(attributes.get("brokerURL", ""))
        if EXPRESSION in uri or uri.startswith("#") or any(factory.all("brokerURL")):
            self._not_carried_over(
                factory, f"brokerURL {uri}".strip(), "only Spring computes it; import its value, too"
            )
        elif _JMS in uri:
            self._read_uri(factory, uri, found)
        options = {key: str(text) for key, text in attributes.items() if key.rpartition(".")[2] in CARRIED}
        for policy in self._beans.property(factory, attributes, "prefetchPolicy"):
            given = self._beans.attributes(policy)
            options |= {f"prefetchPolicy.{key}": str(given[key]) for key in CARRIED & given.keys()}
        carry_acknowledgement(options, found, prefix="")
        for note in found.notes:
            self._imported.note(factory.line, note.text)
        flag = attributes.get(_NON_BLOCKING)
        if flag is not None:
            found.handler[_NON_BLOCKING] = str(flag).strip().lower() == "true"
        policies = list(self._beans.property(factory, attributes, "redeliveryPolicy"))
        for policy in policies[-1:]:
            found.section["redeliveryPolicy"] = self._client_policy(policy)
        own = {key.removeprefix(_POLICY): text for key, text in attributes.items() if key.startswith(_POLICY)}
        if own:
            found.section["redeliveryPolicy"] = found.section.get("redeliveryPolicy", {}) | own
        for policy_map in self._beans.property(factory, attributes, "redeliveryPolicyMap"):
            found.section["redeliveryPolicyMap"] = self._redelivery_map(policy_map)
        if found.section and _NON_BLOCKING not in found.handler:
            note_blocking(_NON_BLOCKING, factory.line, self._imported)
        return found

    def _read_uri(self, factory: Element, uri: str, found: Imported) -> None:
        try:
            read = read_connection_uri(uri, self._version, alone=False)
        except MigrationError as error:
            self._not_carried_over(factory, "brokerURL", f"the URI {error.problem}")
            return
        found.handler |= read.handler
        found.top_level |= read.top_level
        if read.section["redeliveryPolicy"]:
            found.section |= read.section
        for note in read.notes:
            self._imported.note(factory.line, f"brokerURL: {note.text}")

    def _unused(self, element: Element) -> Imported:
        if element.name == "redeliveryPolicyMap":
            policies = {"redeliveryPolicyMap": self._redelivery_map(element)}
        else:
            policies = {"redeliveryPolicy": self._client_policy(element)}
        return Imported(self._imported.name, "activemq", policies)

    def _client_policy(self, policy: Element) -> dict[str, Any]:
        return {key: text for key, text in self._beans.attributes(policy).items() if key not in _PLACE}

    def read_broker(self, broker: Element) -> None:
        """Read the broker's policies, plugins and destinations."""
        section = self._imported.section
        attributes = self._beans.attributes(broker)
        for attribute, text in attributes.items():
            if attribute not in {"brokerName", "id", "schedulerSupport", "destinationPolicy"}:
                self._not_carried_over(broker, f"{attribute}={_shown(text)}", _BROKER)
        for child in broker.children:
            if child.name not in _READ_BY_BROKER:
                self._not_carried_over(child, f"<{child.name}>", _REASONS.get(child.name, _BROKER))
        reference = attributes.get("destinationPolicy")
        maps = list(self._beans.referred(broker, "destinationPolicy", reference, ("policyMap",)))
        for policy in list(broker.all("destinationPolicy"))[-1:]:
            maps = list(self._beans.inside(policy, "policyMap"))
        for policy_map in maps:
            section |= self._map(policy_map, "policyEntry", "policyEntries", self._policy_entry)
        plugins = [found for container in self._last(broker, "plugins") for found in self._plugins(container)]
        if plugins:
            section["plugins"] = plugins
        note_start_errors(section, str(attributes.get("schedulerSupport", "false")), broker.line, self._imported)
        self._connectors(broker)
        for container in self._last(broker, "destinations"):
            for destination in self._beans.inside(container, *_KINDS):
                kind, text = self._destination(destination)
                name = text.partition("?")[0].strip()  # options follow the question mark
                self._imported.add_destinations([f"{kind}:{name}"] if name else [])

    def _last(self, broker: Element, name: str) -> list[Element]:
        """Return the last of the children with a name, which alone has an effect, with a note about the others."""
        found = list(broker.all(name))
        for each in found[:-1]:
            self._not_carried_over(each, f"<{name}>", _REPEATED)
        return found[-1:]

    def _connectors(self, broker: Element) -> None:
        for connector in broker.walk():
            if connector.name != "transportConnector":
                continue
            found = _SPEAKS_STOMP.match(self._beans.text(connector, "uri"))
            if found is not None:
                self._imported.add_stomp(found[2], tls="ssl" in found[1])

    def _map(self, of: Element, name: str, plural: str, read: Callable[[Element], dict[str, Any]]) -> dict[str, Any]:
        """Return the default entry and the entries of a map; ``read`` returns one of them."""
        found: dict[str, Any] = {}
        entries: list[dict[str, Any]] = []
        for container, element in self._entries(of, name, plural):
            entry = read(element)
            if container == "defaultEntry":
                found["defaultEntry"] = {key: text for key, text in entry.items() if key not in _TARGETS}
            elif not self._matches_nothing(entry, element):
                entries.append(self._with_target(entry, element))
        return {**found, plural: entries} if entries else found

    def _entries(self, of: Element, name: str, plural: str) -> Iterator[tuple[str, Element]]:
        """Yield the entries of a map, each with the name of the element around it. Refuse other elements."""
        default = self._beans.attributes(of).get("defaultEntry")
        for entry in self._beans.referred(of, "defaultEntry", default, (name,)):
            yield "defaultEntry", entry
        last = {container.name: container for container in of.children}
        for container in of.children:
            if container.name not in {"defaultEntry", plural}:
                self._beans.refuse(container, f"<{container.name}> cannot be set in <{of.name}>")
            if container is not last[container.name]:
                self._not_carried_over(container, f"<{container.name}>", _REPEATED)
                continue
            for entry in self._beans.inside(container, name):
                yield container.name, entry
            for other in container.children:
                if _is_core(other) and other.name != name:
                    self._beans.refuse(other, f"<{other.name}> is not a <{name}>")

    def _policy_entry(self, entry: Element) -> dict[str, Any]:
        found = self._entry(entry)
        attributes = self._beans.attributes(entry)
        strategy = attributes.pop("deadLetterStrategy", None)
        if attributes.pop("persistJMSRedelivered", False):
            self._persist_counts(entry)
        for attribute, text in attributes.items():
            if attribute not in _PLACE:
                self._not_carried_over(entry, f"{attribute}={_shown(text)}", _REASONS.get(attribute, _TUNING))
        candidates = []
        for child in entry.children:
            if child.name == "deadLetterStrategy":
                candidates += self._strategy_elements(child)
            elif child.name != "destination":
                self._not_carried_over(child, f"<{child.name}>", _REASONS.get(child.name, _TUNING))
        for candidate in candidates[-1:] or self._beans.referred(entry, "deadLetterStrategy", strategy):
            found["deadLetterStrategy"] = {candidate.name: self._strategy(candidate)}
        return found

    def _persist_counts(self, entry: Element) -> None:
        self._imported.handler["persistDeliveryCountBeforeDelivery"] = True
        self._imported.note(
            entry.line,
            "persistJMSRedelivered=true becomes handler.persistDeliveryCountBeforeDelivery, which applies to "
            "all sources of the worker",
        )

    def _strategy_elements(self, element: Element) -> list[Element]:
        if len(element.children) != 1:
            self._beans.refuse(element, f"<{element.name}> contains {len(element.children)} strategies instead of one")
        return list(self._beans.inside(element, *PROPERTIES["deadLetterStrategy"]))

    def _strategy(self, strategy: Element) -> dict[str, Any]:
        found: dict[str, Any] = dict(self._beans.attributes(strategy))
        found.pop("id", None)
        text = found.pop("deadLetterQueue", None)
        targets = [given for target in strategy.all("deadLetterQueue") for given in self._beans.inside(target, *_KINDS)]
        for child in targets[-1:] or self._beans.referred(strategy, "deadLetterQueue", text, _KINDS):
            kind, name = self._destination(child)
            if "physicalName" not in child.attributes:
                self._not_carried_over(
                    child, f"<{child.name}>", "it has no physicalName, so dead letters would be lost"
                )
                continue
            if not name.strip():
                self._beans.refuse(child, f"<{child.name}> has an empty physicalName")
            if kind in {DestinationKind.TEMP_QUEUE, DestinationKind.TEMP_TOPIC}:
                self._imported.note(
                    child.line,
                    f"the dead letters of {kind} {name} go to a queue, because Kafka has no temporary topics",
                )
                kind = str(DestinationKind.QUEUE)
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
            if _is_core(plugin) and plugin.name not in names("activemq", "elements"):
                self._beans.refuse(plugin, f"<{plugin.name}> is not known")
            self._not_carried_over(plugin, described(plugin), _REASONS.get(plugin.name, _BROKER))

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
        return self._map(policy_map, "redeliveryPolicy", "redeliveryPolicyEntries", self._redelivery_policy)

    def _redelivery_policy(self, entry: Element) -> dict[str, Any]:
        return self._entry(entry) | self._client_policy(entry)

    def _discarding_plugin(self, plugin: Element) -> dict[str, Any]:
        found = dict(self._beans.attributes(plugin))
        found.pop("id", None)
        return drop_only_that_compiles(found, plugin.line, self._imported)

    def _entry(self, entry: Element) -> dict[str, Any]:
        """Return the target of an entry: the attribute that the broker sets last, or a child element."""
        attributes = self._beans.attributes(entry)
        found: dict[str, Any] = {}
        for name in _TARGETS:
            if name not in attributes:
                continue
            if found:
                self._imported.note(entry.line, f"<{entry.name}> has more than one target; the broker uses {name}")
            # The setters of tempQueue and tempTopic ignore their argument.
            found = {name: True if name.startswith("temp") else attributes[name]}
        if found and "destination" in attributes:
            return found  # Spring sets properties in the order of the attributes, and this one is the first
        given = [inner for child in entry.all("destination") for inner in self._beans.inside(child, *_KINDS)]
        text = attributes.get("destination")
        for destination in given[-1:] or self._beans.referred(entry, "destination", text, _KINDS):
            found = _target(*self._destination(destination))
        return found

    def _with_target(self, found: dict[str, Any], entry: Element) -> dict[str, Any]:
        """Return the entry. Refuse it if it has no target."""
        texts = [found[name] for name in _TARGETS if name in found]
        if not texts or not str(texts[-1]).strip():
            self._beans.refuse(entry, f"<{entry.name}> has no destination")
        words = re.split(r"[.,]|//", str(texts[-1]))
        word = next((each for each in words if len(each) > 1 and not _WILDCARDS.isdisjoint(each)), None)
        if word is not None:
            self._imported.note(
                entry.line, f"{word!r} is taken as it is, as in the broker: * and > are wildcards only as whole words"
            )
        return found

    def _matches_nothing(self, found: dict[str, Any], entry: Element) -> bool:
        """Whether the entry names a temporary destination. The broker generates such names, so that none matches."""
        if not any(found.get(name) is False for name in ("tempQueue", "tempTopic")):
            return False
        self._not_carried_over(
            entry, f"<{entry.name}>", "it names a temporary destination, but the broker generates those names"
        )
        return True

    def _destination(self, element: Element) -> tuple[str, str]:
        attributes = self._beans.attributes(element)
        name = str(attributes.get("physicalName", ""))  # the attribute "name" is not the name of the destination
        return {"tempQueue": "temp-queue", "tempTopic": "temp-topic"}.get(element.name, element.name), name

    def _not_carried_over(self, element: Element, what: str, reason: str) -> None:
        self._imported.note(element.line, f"{what} is not carried over: {reason}")


def _shown(given: Value) -> str:
    return str(given).lower() if isinstance(given, bool) else str(given)


def _target(kind: str, name: str) -> dict[str, Any]:
    temporary = {DestinationKind.TEMP_QUEUE: "tempQueue", DestinationKind.TEMP_TOPIC: "tempTopic"}.get(
        DestinationKind(kind)
    )
    if temporary is not None:
        return {temporary: set(name.split(SEPARATOR)) <= _WILDCARDS} if name.strip() else {}
    try:
        return {kind: named(DestinationKind(kind), name).name}
    except (DestinationError, ValueError):
        return {"queue": name}
