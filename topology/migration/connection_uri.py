"""The redelivery policy that a connection URI sets.

Source: ``ActiveMQConnectionFactory.setBrokerURL``, ``URISupport``, ``IntrospectionSupport``. What cannot be
converted there raises nothing: it stays in the URI, and the connection is refused later. If something else
could be set, the factory itself refuses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from topology.migration.acknowledgement import CARRIED, carry_acknowledgement
from topology.migration.java_text import java_boolean, java_double, java_integer
from topology.migration.result import Imported, MigrationError
from topology.migration.schema import words
from topology.percent import decoded, decoded_query

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
"""Those of the JMS client, in this case of letters."""

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
"""The policy has setters for them, but a connection's policy is for all destinations."""

_FACTORY_FLAGS = words(
    """
            copyMessageOnSend disableTimeStampsByDefault optimizedMessageDispatch useAsyncSend alwaysSyncSend
            useRetroactiveConsumer exclusiveConsumer sendAcksAsync messagePrioritySupported useCompression
            objectMessageSerializationDefered dispatchAsync alwaysSessionAsync optimizeAcknowledge
            nestedMapAndListEnabled statsEnabled useDedicatedTaskRunner checkForDuplicates
            transactedIndividualAck rmIdFromConnectionId consumerExpiryCheckEnabled
            trustAllPackages watchTopicAdvisories
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
}
_FACTORY_TEXTS = frozenset(("password", "userName", "clientID", "clientIDPrefix", "connectionIDPrefix", "brokerURL"))
_PREFETCH_NUMBERS = frozenset(
    (
        "queuePrefetch",
        "queueBrowserPrefetch",
        "topicPrefetch",
        "durableTopicPrefetch",
        "maximumPendingMessageLimit",
        "optimizeDurableTopicPrefetch",
    )
)
_SECRETS = frozenset(("password", "userName"))

_REASONS = {
    "brokerConfig": "give the broker's file itself to the import",
    "optimizedAckScheduledAckInterval": "acknowledgement.optimizeAcknowledgeTimeOut is kept on time without it",
    "checkForDuplicates": "Kafka's transactions see to that",
    "consumerExpiryCheckEnabled": "an expired record is always found when it is read",
    "transactedIndividualAck": "each record of a batch is acknowledged or redelivered by itself anyway",
}


def is_connection_uri(source: str) -> bool:
    """Whether a source looks like a URI and not like a path."""
    return not source or _SCHEME.match(source) is not None


def read_connection_uri(uri: str) -> Imported:
    """Read a connection URI.

    Raises:
        MigrationError: the connection factory itself refuses it.
    """
    name = "connection URI"  # and never the URI itself: it may hold a password
    if _ILLEGAL.search(uri):
        raise MigrationError(name, "is no URI: it holds a blank or another character that must be escaped")
    if _NO_ADDRESS.fullmatch(uri):
        raise MigrationError(name, "is no URI: nothing follows its scheme")
    imported = Imported(name, "activemq", {"redeliveryPolicy": {}})
    scheme = uri.partition(":")[0]
    if scheme not in _TRANSPORTS:
        what = f"{scheme}:" if scheme else "an empty text"
        imported.note(None, f"{what} is no transport of the JMS client; a real one cannot connect with this URI")
    options = _options(uri, imported)
    given = {key.removeprefix(_JMS): value for key, value in options.items() if key.startswith(_JMS)}
    rest = {key: value for key, value in options.items() if not key.startswith(_JMS)}
    taken = {key for key, value in given.items() if _take(key, value, imported)}
    carry_acknowledgement({_path(key): value for key, value in given.items() if key in taken}, imported)
    unknown = {key: value for key, value in given.items() if key not in taken}
    if taken and unknown:
        raise MigrationError(name, f"has jms options that cannot be set: {', '.join(sorted(unknown))}")
    if taken and None in rest.values():
        empty = next(key for key, value in rest.items() if value is None)
        raise MigrationError(name, f"has an option without a value ({empty!r}); the connection factory fails on it")
    for key, value in unknown.items():
        imported.note(None, f"{_JMS}{key}={value} cannot be set; a real client ignores it and then cannot connect")
    if _NON_BLOCKING not in imported.handler:
        imported.note(
            None,
            f"{_JMS}{_NON_BLOCKING} is not set, so a client waits for a failed record before it goes on; here later "
            f"records overtake it: set handler.{_NON_BLOCKING} to false for the client's way",
        )
    for key in rest:
        reason = _REASONS.get(key, "it is about the connection to the broker")
        imported.note(None, f"{key} is not carried over: {reason}")
    return imported


def _options(uri: str, imported: Imported) -> Mapping[str, str | None]:
    """The options that the factory looks at: those of the whole, not those inside ``failover:(...)``."""
    specific = uri.partition("#")[0].partition(":")[2]
    if specific.startswith("/") or not _SCHEME.match(uri):
        _, question, query = uri.partition("#")[0].partition("?")
        if question:
            # Java decodes the query, and then each name and value again.
            return decoded_query(_unescaped(query))
    inner, options = _composite(specific.removeprefix("//").strip())
    if _JMS in inner:
        imported.note(None, f"options starting with {_JMS} inside {inner[:60]!r} do not reach the client's policy")
    return options


def _unescaped(query: str) -> str:
    return decoded(query.replace("+", "%2B"))


def _composite(specific: str) -> tuple[str, Mapping[str, str | None]]:
    """What stands in brackets, and the options behind them."""
    if specific.count("(") != specific.count(")") or not specific.startswith("("):
        return specific, {}
    depth = 0
    for place, character in enumerate(specific):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            _, question, query = specific[place + 1 :].partition("?")
            return specific[: place + 1], decoded_query(query) if question else {}
    return specific, {}


def _take(key: str, value: str | None, imported: Imported) -> bool:
    """Set one option; whether a setter takes it."""
    if key.startswith(_POLICY):
        return _take_policy(_setter(key.removeprefix(_POLICY)), value, imported)
    if key.startswith("prefetchPolicy."):
        known = _setter(key.removeprefix("prefetchPolicy."))
        taken = known in _PREFETCH_NUMBERS | {"all"} and java_integer(value, _INT) is not None
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
            or known in _FACTORY_TEXTS
        )
    if taken and known not in CARRIED:
        shown = "..." if key in _SECRETS else value
        reason = _REASONS.get(key, "it is about the client, not about redelivery")
        imported.note(None, f"{_JMS}{key}={shown} is not carried over: {reason}")
    return taken


def _take_policy(name: str, value: str | None, imported: Imported) -> bool:
    policy: dict[str, Any] = imported.section["redeliveryPolicy"]
    if name in _TARGETS:
        imported.note(None, f"{_JMS}{_POLICY}{name} is not carried over: a connection's policy is for all destinations")
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
        imported.note(None, f"{_JMS}{name}={value} means false: only true is true")
    return java_boolean(value)


def _path(key: str) -> str:
    """The property that an option means, and those that lead to it."""
    return ".".join(map(_setter, key.split(".")))


def _setter(name: str) -> str:
    """The property that a name means: Java does not mind the case of its first letter."""
    return name[:1].lower() + name[1:]
