"""Reads a broker's configuration file, an ``activemq.xml`` or a ``broker.xml``, and writes it as our YAML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from kafka_redelivery.topology.classic.destination import COMPOSITE, with_kind, without_kind
from kafka_redelivery.topology.config.document import MAX_VALUES
from kafka_redelivery.topology.config.loading import load_policies
from kafka_redelivery.topology.faults import ConfigurationError
from kafka_redelivery.topology.migration import activemq_xml, broker_xml
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues, read_properties
from kafka_redelivery.topology.migration.result import Imported, MigrationError
from kafka_redelivery.topology.migration.versions import BrokerVersion
from kafka_redelivery.topology.migration.xml_tree import read_xml
from kafka_redelivery.topology.topics.naming import kafka_topic


def read_broker_configuration(
    content: bytes,
    name: str,
    values: PlaceholderValues,
    version: str | None = None,
    read: Callable[[str], bytes | None] = lambda _: None,
    folder: str = "/",
) -> Imported:
    """Read an ``activemq.xml`` or a ``broker.xml``; the root element tells which it is.

    Args:
        content: the content of the file.
        name: the name of the file, for messages.
        values: the values of placeholders.
        version: the version of the broker, such as ``2.40``; ``None`` for the newest known one.
        read: returns the content of another file of the broker's folder by its path in it, or ``None`` if it is not
            there: of ``broker.properties`` beside a ``broker.xml``, and of what the file includes or imports.
        folder: the absolute path of this folder.

    Raises:
        MigrationError: the file is neither of the two, cannot be parsed safely, the broker itself refuses it, or there
            is no such version.
    """
    _refuse_others(content, name)
    root = read_xml(content, name)
    for (other, namespace), problem in _OTHERS.items():
        if root.name == other and root.namespace.startswith(namespace):
            raise MigrationError(name, problem, root.line)
    missing: dict[str, None] = {}
    if root.name == broker_xml.ROOT:
        if b"$" in content:
            # Artemis replaces placeholders in the text, before it parses the XML.
            root = read_xml(broker_xml.replaced(content, name, values, missing), name)
        try:
            notes = broker_xml.include(root, name, read, folder)
            beside = read(broker_xml.PROPERTIES) if name == "broker.xml" else None
            overriding = read_properties((beside or b"").decode("latin-1"))
            imported = broker_xml.read_broker_xml(root, name, values, broker_version("artemis", version), overriding)
        except MigrationError as error:
            raise error.adding(f"; {_empty(missing)}" if missing else "") from None
        imported.notes[:0] = notes
        if missing:
            imported.note(None, _empty(missing))
        return imported
    if root.name in activemq_xml.ROOTS:
        activemq_xml.include(root, name, read)
        return activemq_xml.read_activemq_xml(root, name, values, broker_version("activemq", version))
    problem = (
        f"is neither an activemq.xml (<beans>) nor a broker.xml (<configuration>), but <{root.name}>; of a client, "
        "give the connection URI in quotes"
    )
    raise MigrationError(name, problem, root.line)


_OTHERS = {
    ("server", "urn:jboss:domain"): "is a WildFly configuration, which has Artemis's settings in another form; start "
    "WildFly, list the address settings with jboss-cli (/subsystem=messaging-activemq/server=default/address-setting=*:"
    "read-resource), and write them into a broker.xml",
    (
        "configuration",
        "urn:hornetq",
    ): "is a HornetQ configuration, which no Artemis reads: write its <address-settings> "
    "into <core xmlns='urn:activemq:core'> of a broker.xml, and import that",
    ("subsystem", "urn:jboss:domain"): "is a part of a WildFly configuration; see its server's standalone.xml",
    ("domain", "urn:jboss:domain"): "is a WildFly configuration; see its servers' standalone.xml",
}
_YAML_RESOURCE = re.compile(rb"^\s*kind:\s*[\"']?(ActiveMQArtemis\w*|Broker)\b", re.MULTILINE)


_OF_CLIENT = re.compile(
    rb"^\s*([\w.-]*(?:broker-?url|provider\.url|artemis\.(?:url|host)))\s*[=:]", re.MULTILINE | re.IGNORECASE
)
"""Of Spring Boot and JNDI."""

_INSIDE = re.compile(rb"<(broker|beans|configuration)[\s/>]")


def _refuse_others(content: bytes, name: str) -> None:
    """Refuse what is configuration of a broker, but no XML.

    Raises:
        MigrationError: it says what the file is, and how to get one that can be imported.
    """
    start = content[:100_000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start or start[:1] == b"<" or b"\0" in start[:4] or start[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return
    kind = _YAML_RESOURCE.search(start)
    if kind is not None:
        raise MigrationError(
            name,
            f"is a Kubernetes resource of the kind {kind[1].decode()}: copy the broker.xml that its operator has made "
            "out of the pod (etc/broker.xml and etc/broker.properties in the broker's folder), and import that folder",
        )
    client, inside = _OF_CLIENT.search(start), _INSIDE.search(start)
    if client is not None:
        what = f"is a file of a client: give the connection URI that {client[1].decode()} has, in quotes"
    elif inside is not None:
        what = (
            f"is not XML, but contains <{inside[1].decode()}>: write that into a file of its own, and import this file"
        )
    elif start[:1] == b"{":
        what = f"is JSON: {_NOT_READ}"
    elif name.endswith((".yaml", ".yml")):
        what = f"is YAML: {_NOT_READ}"
    elif name.endswith(".properties"):
        what = "is a file of properties, which override those of a broker.xml: import the folder with both"
    else:
        return
    raise MigrationError(name, what)


_NOT_READ = (
    f"a broker that is started with --properties reads it; write its settings into {broker_xml.PROPERTIES}, such as "
    'addressSettings."orders.#".redeliveryDelay=5000, and import the folder with broker.xml'
)


def note_unread(imported: Imported, names: Iterable[str]) -> None:
    """Add a note about each file beside a ``broker.xml`` that has settings in another form."""
    for name in names:
        imported.note(None, f"{name}, which is beside the file, is not read: {_NOT_READ}")


def _empty(missing: Iterable[str]) -> str:
    options = " ".join(f"--property {name}=VALUE" for name in missing)
    return f"placeholders without a value are empty: {', '.join(missing)}; set them with {options}"


def broker_version(broker: str, text: str | None) -> BrokerVersion:
    """Return the version of a broker, ``activemq`` or ``artemis``; ``None`` is the newest known one.

    Raises:
        MigrationError: there is no such version.
    """
    try:
        return BrokerVersion.of(broker, text)
    except ValueError as error:
        raise MigrationError("--broker-version", str(error)) from None


_HEAD = """\
# Imported from {source}.
# Set {blanks}, and list the topics you consume under sources; then run
#   redelivery config check, redelivery explain DESTINATION..., redelivery topology plan
"""
_CALLABLE = "handlers:handle"
"""A stand-in for the user's function."""

_WILD = frozenset("*>#?")


def to_yaml(imported: Imported) -> str:
    """Return the configuration as YAML, after loading it as a check.

    The sources are left empty, with a note, if the configuration has faults because of them.

    Raises:
        MigrationError: our configuration refuses settings that the broker accepts.
    """
    size = _size(imported.section)
    if size > MAX_VALUES:
        raise MigrationError(imported.name, f"has {size} settings, more than the {MAX_VALUES} that our file may have")
    sources = _sources(imported)
    if size + _size(sources) > MAX_VALUES:
        imported.note(None, f"the sources are left empty: {len(sources)} are too many for one file")
        sources = []
    faults = _faults(_text(imported, sources))
    while faults and sources:
        kept = [each for number, each in enumerate(sources) if not _leave_out(number, each["topic"], faults, imported)]
        if len(kept) == len(sources):
            break
        sources = kept
        faults = _faults(_text(imported, sources))
    if faults:
        raise MigrationError(imported.name, "; ".join(faults))
    return _text(imported, sources)


_SAME_NAME = re.compile(r"\(([^()]*)\), which is ambiguous: the source (\S+) has the same name")


def _leave_out(number: int, topic: str, faults: list[str], imported: Imported) -> bool:
    """Whether a source causes one of the faults, with a note. Of two with one name it is the dead-letter topic."""
    for fault in faults:
        same = _SAME_NAME.search(fault)
        if same is not None and same[2] == topic:
            imported.note(None, f"{topic} is not among the sources: it has the name of {same[1]}")
            return True
        if same is None and f" sources.{number}." in fault:
            imported.note(None, f"{topic} is not among the sources: {fault.partition(': ')[2]}")
            return True
    return False


def _size(value: Any) -> int:  # noqa: ANN401 - plain data
    """Return the number of values in plain data."""
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1


def _sources(imported: Imported) -> list[dict[str, str]]:
    """Return the destinations that the source lists, without patterns, as sources."""
    found: dict[str, dict[str, str]] = {}
    for destination in imported.destinations:
        name = without_kind(destination)
        if _WILD & set(name) or COMPOSITE in name:
            imported.note(None, f"{destination} is not among the sources: it is more than one destination")
            continue
        topic = kafka_topic(name)
        plain = topic == name and with_kind(topic) == with_kind(destination)
        given = {"topic": topic} if plain else {"topic": topic, "destination": destination}
        if topic in found:
            imported.note(None, f"{destination} is not among the sources: {topic} is a source already")
        found.setdefault(topic, given)
    return list(found.values())


def _text(imported: Imported, sources: list[dict[str, str]]) -> str:
    document: dict[str, Any] = {
        "group": "migrated",
        "kafka": {"bootstrap.servers": "localhost:9092"},
        "sources": sources,
        **imported.top_level,
    }
    if imported.handler:
        document["handler"] = {"callable": _CALLABLE, **imported.handler}
    document[imported.dialect] = imported.section
    body = yaml.safe_dump(_escaped(document), sort_keys=False, allow_unicode=True, width=110)
    blanks = "group, kafka and handler.callable" if imported.handler else "group and kafka"
    return _HEAD.format(source=" ".join(imported.name.split())[:200], blanks=blanks) + body


def _escaped(value: Any) -> Any:  # noqa: ANN401 - a YAML document
    """Escape ``${``, which starts a placeholder in our file."""
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def _faults(text: str) -> list[str]:
    try:
        load_policies(text)
    except ConfigurationError as error:
        return [f"{fault.location}: {fault.problem}" for fault in error.faults]
    return []
