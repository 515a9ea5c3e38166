"""Reads the redelivery policy that a connection URI sets.

An option that the connection factory cannot set stays in the URI, and the client fails when it connects. If other
options of the URI could be set, the factory itself refuses the URI.

Source: ``ActiveMQConnectionFactory.setBrokerURL``, ``URISupport``, ``IntrospectionSupport``.

Imports the acknowledgement options of a connection URI.

The mode is not among them: a client chooses it with ``createSession``. But ``optimizeAcknowledge`` has an effect only
in mode ``auto``, so a URI that sets it implies that mode.

Source: ``ActiveMQMessageConsumer``, which takes the flag from the connection if its session is ``AUTO_ACKNOWLEDGE``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from kafka_redelivery.topology.java.numbers import (
    decoded_query,
    java_boolean,
    java_double,
    java_integer,
    percent_decoded,
)
from kafka_redelivery.topology.migration.result import Imported, MigrationError
from kafka_redelivery.topology.migration.schema import words
from kafka_redelivery.topology.migration.versions import BrokerVersion, in_words, names
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode

_OPTIMIZE, _TIME_OUT = "optimizeAcknowledge", "optimizeAcknowledgeTimeOut"
_QUEUE, _ALL = "queuePrefetch", "all"
_PREFETCH = "prefetchPolicy."
CARRIED = frozenset({_OPTIMIZE, _TIME_OUT, _QUEUE, _ALL})
"""Properties for which this module adds the notes."""

_LONG = 2**63
_ELSEWHERE = "is not carried over: it has an effect only with optimizeAcknowledge or in mode dups_ok"


def carry_acknowledgement(options: Mapping[str, str | None], imported: Imported, *, prefix: str = "jms.") -> None:
    """Add the acknowledgement options to an import.

    Args:
        options: the options that the connection factory accepts, without ``jms.``.
        imported: the import.
        prefix: what the options have before their names, for notes.
    """
    flag, time_out = options.get(_OPTIMIZE), options.get(_TIME_OUT)
    prefetch = next((name for name in (_PREFETCH + _QUEUE, _PREFETCH + _ALL) if name in options), None)
    if flag is None or not java_boolean(flag):
        if time_out is not None:
            imported.note(None, f"{prefix}{_TIME_OUT}={time_out} is not carried over: {_OPTIMIZE} is not true")
        if prefetch is not None:
            imported.note(None, f"{prefix}{prefetch}={options[prefetch]} {_ELSEWHERE}")
        return
    section: dict[str, Any] = {_OPTIMIZE: True}
    if time_out is not None:
        section[_TIME_OUT] = max(0, java_integer(time_out, _LONG) or 0)
    if prefetch is not None:
        section["prefetch"] = max(0, java_integer(options[prefetch], _LONG) or 0)
    imported.top_level |= {"mode": AcknowledgementMode.AUTO.value, "acknowledgement": section}
    imported.note(
        None,
        f"{prefix}{_OPTIMIZE}={flag} becomes mode: auto, the only mode in which it has an effect; if the client's "
        "sessions are transacted, set mode: transacted and remove it",
    )


_JMS = "jms."
_NON_BLOCKING = "nonBlockingRedelivery"
_POLICY = "redeliveryPolicy."
_ILLEGAL = re.compile(r"[\x00-\x20\x7f<>\"{}|\\^`]|%(?![0-9a-fA-F]{2})")
_NO_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//)?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_TRANSPORTS = words(
    """
    auto auto+nio auto+nio+ssl auto+ssl discovery failover fanout http https mock multicast nio nio+ssl peer ssl tcp udp
    vm ws wss
    """
)
"""Transports of the JMS client; their names are case-sensitive."""

_INT, _LONG, _SHORT = (2**31), (2**63), (2**15)
_SIZES = {
    "maximumRedeliveries": _INT,
    "initialRedeliveryDelay": _LONG,
    "redeliveryDelay": _LONG,
    "maximumRedeliveryDelay": _LONG,
    "collisionAvoidancePercent": _SHORT,
}
_FLAGS = ("useExponentialBackOff", "useCollisionAvoidance", "preDispatchCheck")
_TARGETS = ("queue", "topic", "tempQueue", "tempTopic", "destination")
"""Properties that the policy has, although a connection's policy is for all destinations."""

_FACTORY_FLAGS = words(
    """
            copyMessageOnSend disableTimeStampsByDefault optimizedMessageDispatch useAsyncSend alwaysSyncSend
            useRetroactiveConsumer exclusiveConsumer sendAcksAsync messagePrioritySupported useCompression
            objectMessageSerializationDefered dispatchAsync alwaysSessionAsync optimizeAcknowledge
            nestedMapAndListEnabled statsEnabled useDedicatedTaskRunner checkForDuplicates
            transactedIndividualAck rmIdFromConnectionId consumerExpiryCheckEnabled
            trustAllPackages watchTopicAdvisories strictCompliance useVirtualThreadTaskRunner
            """
)
_FACTORY_NUMBERS = {
    "sendTimeout": _INT,
    "closeTimeout": _INT,
    "auditDepth": _INT,
    "auditMaximumProducerNumber": _INT,
    "maxThreadPoolSize": _INT,
    "connectResponseTimeout": _INT,
    "optimizeAcknowledgeTimeOut": _LONG,
    "warnAboutUnstartedConnectionTimeout": _LONG,
    "consumerFailoverRedeliveryWaitPeriod": _LONG,
    "optimizedAckScheduledAckInterval": _LONG,
    "producerWindowSize": _INT,
    "requestTimeout": _INT,
}
_FACTORY_TEXTS = frozenset(("password", "userName", "clientID", "clientIDPrefix", "connectionIDPrefix", "brokerURL"))
_SECRETS = frozenset(("password", "userName"))

_REASONS = {
    "brokerConfig": "import the broker's file instead",
    "optimizedAckScheduledAckInterval": "acknowledgement.optimizeAcknowledgeTimeOut does not need it",
    "checkForDuplicates": "Kafka's transactions prevent duplicates",
    "consumerExpiryCheckEnabled": "expiration is always checked when a record is read",
    "transactedIndividualAck": "each record of a batch is always acknowledged or redelivered by itself",
}


_QPID = re.compile(
    r"(?:failover:(?://)?\(\s*)?amqp(?:s|ws|wss)?:(?!.*[?&]jms\.redeliveryPolicy\.(?!maxRedeliveries=|outcome=))",
    re.DOTALL,
)
"""A URI of Qpid JMS, without settings of a policy that only Classic's has."""

_PLACEHOLDER = re.compile(r"\$\{[^{}]{1,100}\}")

_OUTCOMES = ("ACCEPTED", "REJECTED", "RELEASED", "MODIFIED_FAILED", "MODIFIED_FAILED_UNDELIVERABLE")
"""Of Qpid JMS, in the order of their numbers, which begin at 1."""

_OUTCOME = 4
"""The default, ``MODIFIED_FAILED``."""

_WHAT_FOLLOWS = {
    "ACCEPTED": "the client acknowledges the message, which is lost; here it is dead-lettered",
    "REJECTED": "the broker dead-letters the message, as here",
    "RELEASED": "the broker delivers the message again and does not count it; here it is dead-lettered",
    "MODIFIED_FAILED": "the broker delivers the message again until its own limit; here it is dead-lettered",
    "MODIFIED_FAILED_UNDELIVERABLE": "the broker gives the message to other consumers only; here it is dead-lettered",
}


def _read_qpid(uri: str, imported: Imported) -> Imported:
    """Read the redelivery policy of a URI of Qpid JMS.

    Its client waits for nothing between two deliveries, and by default it has no limit.

    Source: ``JmsDefaultRedeliveryPolicy``.
    """
    policy: dict[str, Any] = {"maximumRedeliveries": -1, "initialRedeliveryDelay": 0, "redeliveryDelay": 0}
    outcome = _OUTCOMES[_OUTCOME - 1]
    options = _options(uri, imported)
    if not any(key.startswith(_JMS + _POLICY) for key in options):
        imported.note(None, "is of Qpid JMS, whose policy has no limit: the broker's settings decide; import its file")
        return imported
    for key, value in options.items():
        name = key.removeprefix(_JMS + _POLICY) if key.startswith(_JMS) else ""
        if name not in {"maxRedeliveries", "outcome"}:
            imported.note(None, f"{key} is not carried over: it does not concern redelivery")
            continue
        number = java_integer(value, _INT)
        if name == "outcome" and number is not None and 0 < number <= len(_OUTCOMES):
            outcome = _OUTCOMES[number - 1]
        elif name == "outcome" and value is not None and value.upper() in _OUTCOMES:
            outcome = value.upper()
        elif name == "maxRedeliveries" and number is not None:
            policy["maximumRedeliveries"] = max(-1, number)
        else:
            raise MigrationError(imported.name, f"{key}={value} cannot be set; the client refuses the URI")
    imported.section["redeliveryPolicy"] = policy
    limit = policy["maximumRedeliveries"]
    if limit < 0:
        imported.note(
            None, "maxRedeliveries sets no limit: the client has none, and the broker's file decides; import it"
        )
    else:
        imported.note(None, f"after {limit + 1} deliveries the outcome is {outcome}: {_WHAT_FOLLOWS[outcome]}")
    imported.note(None, "Qpid JMS does not wait between deliveries; for delays of the broker import its file")
    return imported


NAME = "connection URI"
"""The name of the source in an import."""


def is_connection_uri(source: str) -> bool:
    """Whether a source is a URI and not a path."""
    return source[:1] in {"", "("} or _SCHEME.match(source) is not None


def read_connection_uri(uri: str, version: BrokerVersion | None = None, *, alone: bool = True) -> Imported:
    """Read a connection URI of the JMS client of ActiveMQ Classic, or of Qpid JMS (``amqp://...``).

    Args:
        uri: the URI.
        version: the version of the client; ``None`` for the newest known one.
        alone: whether nothing beside the URI can set ``nonBlockingRedelivery``, so that a note says that it is not set.

    Raises:
        MigrationError: the connection factory itself refuses it.
    """
    name = NAME  # not the URI, which may contain a password
    placeholder = _PLACEHOLDER.search(uri)
    if placeholder is not None:
        raise MigrationError(name, f"has the placeholder {placeholder[0]}: write its value")
    if _ILLEGAL.search(uri):
        raise MigrationError(name, "is not a URI: it contains a space or another character that must be escaped")
    if _NO_ADDRESS.fullmatch(uri):
        raise MigrationError(name, "is not a URI: nothing follows its scheme")
    imported = Imported(name, "activemq", {"redeliveryPolicy": {}})
    if uri.startswith("("):
        imported.note(None, "is of Artemis's client, which has no redelivery policy: import the broker's file")
        return imported
    if _QPID.match(uri):
        return _read_qpid(uri, imported)
    _read_openwire(uri, imported, version or BrokerVersion.of("activemq"))
    if alone and _NON_BLOCKING not in imported.handler:
        note_blocking(_JMS + _NON_BLOCKING, None, imported)
    return imported


def _read_openwire(uri: str, imported: Imported, version: BrokerVersion) -> None:
    name = imported.name
    scheme = uri.partition(":")[0]
    if scheme not in _TRANSPORTS:
        what = f"{scheme}:" if scheme else "an empty scheme"
        imported.note(None, f"{what} is not a transport of the JMS client, which cannot connect with this URI")
    options = _options(uri, imported)
    given = {key.removeprefix(_JMS): value for key, value in options.items() if key.startswith(_JMS)}
    rest = {key: value for key, value in options.items() if not key.startswith(_JMS)}
    taken = {key for key, value in given.items() if _take(key, value, imported)}
    _note_versions(taken, version, imported)
    carry_acknowledgement({_path(key): value for key, value in given.items() if key in taken}, imported)
    unknown = {key: value for key, value in given.items() if key not in taken}
    if taken and unknown:
        raise MigrationError(name, f"has jms options that cannot be set: {', '.join(sorted(unknown))}")
    if taken and None in rest.values():
        empty = next(key for key, value in rest.items() if value is None)
        raise MigrationError(name, f"has an option without a value ({empty!r}); the connection factory refuses it")
    for key, value in unknown.items():
        imported.note(None, f"{_JMS}{key}={value} cannot be set; the JMS client ignores it and then fails to connect")
    for key in rest:
        reason = _REASONS.get(key, "it is an option of the connection to the broker")
        imported.note(None, f"{key} is not carried over: {reason}")


def note_blocking(option: str, line: int | None, imported: Imported) -> None:
    """Add the note about a client that does not set ``nonBlockingRedelivery``."""
    imported.note(
        line,
        f"{option} is not set, so the JMS client waits for a failed record; here later records "
        f"overtake it: set handler.{_NON_BLOCKING} to false to wait as the client does",
    )


def _note_versions(taken: Collection[str], client: BrokerVersion, imported: Imported) -> None:
    for key in sorted(taken):
        bean, _, name = _path(key).rpartition(".")
        versions = names("activemq", bean or "connectionFactory").get(name, "")
        if not client.has(versions):
            imported.note(None, f"{_JMS}{key} is an option of {in_words(versions)}; {client} cannot connect with it")


def _options(uri: str, imported: Imported) -> Mapping[str, str | None]:
    """Return the options that the factory reads, which excludes those inside of ``failover:(...)``."""
    specific = uri.partition("#")[0].partition(":")[2]
    if specific.startswith("/") or not _SCHEME.match(uri):
        _, question, query = uri.partition("#")[0].partition("?")
        if question:
            # Java decodes the query, then each name and value once more.
            return decoded_query(_unescaped(query))
    inner, options = _composite(specific.removeprefix("//").strip())
    if _JMS in inner:
        imported.note(None, f"options starting with {_JMS} inside {inner[:60]!r} have no effect on the client's policy")
    return options


def _unescaped(query: str) -> str:
    return percent_decoded(query.replace("+", "%2B"))


def _composite(specific: str) -> tuple[str, Mapping[str, str | None]]:
    """Return the part in parentheses and the options after it."""
    if specific.count("(") != specific.count(")") or not specific.startswith("("):
        return specific, {}
    depth = 0
    for position, character in enumerate(specific):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            _, question, query = specific[position + 1 :].partition("?")
            return specific[: position + 1], decoded_query(query) if question else {}
    return specific, {}


def _take(key: str, value: str | None, imported: Imported) -> bool:
    """Import one option. Return whether the connection factory has a setter that accepts it."""
    if key.startswith(_POLICY):
        return _take_policy(_setter(key.removeprefix(_POLICY)), value, imported)
    if key.startswith("prefetchPolicy."):
        known = _setter(key.removeprefix("prefetchPolicy."))
        taken = known != "id" and known in names("activemq", "prefetchPolicy") and java_integer(value, _INT) is not None
    elif key.startswith("blobTransferPolicy."):
        known = _setter(key.removeprefix("blobTransferPolicy."))
        taken = known in {"brokerUploadUrl", "defaultUploadUrl", "uploadUrl"}
    else:
        known = _setter(key)
        if known == _NON_BLOCKING and value is not None:
            imported.handler[known] = _flag(known, value, imported)
            return True
        taken = (
            (known in _FACTORY_FLAGS and value is not None)
            or (known in _FACTORY_NUMBERS and java_integer(value, _FACTORY_NUMBERS[known]) is not None)
            or (known == "maxInflatedDataSizeRatio" and value is not None and java_double(value) is not None)
            or known in _FACTORY_TEXTS
        )
    if taken and known not in CARRIED:
        shown = "..." if known in _SECRETS else value
        reason = _REASONS.get(key, "it is an option of the client that does not concern redelivery")
        imported.note(None, f"{_JMS}{key}={shown} is not carried over: {reason}")
    return taken


def _take_policy(name: str, value: str | None, imported: Imported) -> bool:
    policy: dict[str, Any] = imported.section["redeliveryPolicy"]
    if name in _TARGETS:
        imported.note(
            None, f"{_JMS}{_POLICY}{name} is not carried over: the policy of a connection is for all destinations"
        )
        return bool(value and value.strip()) or (value is not None and name.startswith("temp"))
    if value is None:
        return False
    if name in _FLAGS:
        policy[name] = _flag(_POLICY + name, value, imported)
        return True
    found: float | None = java_double(value) if name == "backOffMultiplier" else None
    if name in _SIZES:
        found = java_integer(value, _SIZES[name])
    if found is None:
        return False
    policy[name] = found
    return True


def _flag(name: str, value: str, imported: Imported) -> bool:
    if value.lower() not in {"true", "false"}:
        imported.note(None, f"{_JMS}{name}={value} means false: only the word true is true")
    return java_boolean(value)


def _path(key: str) -> str:
    """Return the dotted property that an option sets."""
    return ".".join(map(_setter, key.split(".")))


def _setter(name: str) -> str:
    """Return the property that a name sets; Java ignores the case of its first letter."""
    return name[:1].lower() + name[1:]
