"""Reads address settings and wildcards of an Artemis ``broker.xml``."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafka_redelivery.topology.artemis.address_settings import SETTING_NAMES
from kafka_redelivery.topology.artemis.repository import SettingsRepository, Wildcards, hash_order
from kafka_redelivery.topology.config.document import MAX_VALUES
from kafka_redelivery.topology.errors import MatchError
from kafka_redelivery.topology.java.numbers import percent_decoded
from kafka_redelivery.topology.java.regex import MAX_PATTERN_CHARACTERS
from kafka_redelivery.topology.migration.placeholders import (
    PlaceholderError,
    PlaceholderValues,
    artemis_text,
)
from kafka_redelivery.topology.migration.result import Imported, MigrationError, Note, shortened
from kafka_redelivery.topology.migration.schema import types, valid, value
from kafka_redelivery.topology.migration.versions import BrokerVersion, in_words, known_versions, names
from kafka_redelivery.topology.migration.xml_tree import Element, decoded, read_xml, refused

ADDRESS_SETTING = types(
    boolean="""
        auto-create-dead-letter-resources auto-create-expiry-resources no-expiry last-value-queue
        default-last-value-queue default-non-destructive default-exclusive-queue default-group-rebalance
        default-group-rebalance-pause-dispatch send-to-dla-on-no-route auto-create-jms-queues auto-delete-jms-queues
        auto-create-jms-topics auto-delete-jms-topics auto-create-queues auto-delete-queues
        auto-delete-created-queues auto-delete-queues-skip-usage-check auto-create-addresses auto-delete-addresses
        auto-delete-addresses-skip-usage-check default-purge-on-no-consumers enable-metrics enable-ingress-timestamp
    """,
    int="""
        max-delivery-attempts page-max-cache-size max-read-page-messages prefetch-page-messages
        message-counter-history-day-limit default-group-buckets default-consumers-before-dispatch
        management-browse-page-size management-message-attribute-size-limit default-max-consumers
        default-consumer-window-size id-cache-size initial-queue-buffer-size max-size-messages
    """,
    long="""
        expiry-delay min-expiry-delay max-expiry-delay redelivery-delay max-redelivery-delay page-limit-messages
        default-delay-before-dispatch redistribution-delay slow-consumer-threshold slow-consumer-check-period
        auto-delete-queues-delay auto-delete-queues-message-count auto-delete-addresses-delay default-ring-size
        retroactive-message-count
    """,
    bytes="""
        max-size-bytes page-limit-bytes page-size-bytes max-read-page-bytes prefetch-page-bytes
        max-size-bytes-reject-threshold
    """,
    double="redelivery-delay-multiplier redelivery-collision-avoidance-factor",
)
"""The types of the children of ``<address-setting>``, from the XML schemas; those that are not listed are text."""

NO_DEFAULT = frozenset(("send-to-dla-on-no-route", "enabled", "routing-enabled"))
"""Booleans that must not be empty."""

CHOICES = {
    "address-full-policy": frozenset(("DROP", "FAIL", "PAGE", "BLOCK")),
    "page-full-policy": frozenset(("DROP", "FAIL")),
    "slow-consumer-policy": frozenset(("KILL", "NOTIFY")),
    "config-delete-queues": frozenset(("OFF", "FORCE")),
    "config-delete-addresses": frozenset(("OFF", "FORCE")),
    "config-delete-diverts": frozenset(("OFF", "FORCE")),
    "slow-consumer-threshold-measurement-unit": frozenset(
        ("MESSAGES_PER_SECOND", "MESSAGES_PER_MINUTE", "MESSAGES_PER_HOUR", "MESSAGES_PER_DAY")
    ),
    "journal-type": frozenset(("ASYNCIO", "NIO", "MAPPED")),
    "disk-full-policy": frozenset(("DROP", "FAIL", "BLOCK")),
    "critical-analyzer-policy": frozenset(("LOG", "HALT", "SHUTDOWN")),
    "default-queue-routing-type": frozenset(("ANYCAST", "MULTICAST")),
    "default-address-routing-type": frozenset(("ANYCAST", "MULTICAST")),
}
"""Elements whose text is one of a few values."""

_INT_MAX = 2**31 - 1

LIMITS: dict[str, Callable[[float], bool]] = {
    "auto-delete-addresses-delay": lambda found: found >= 0,
    "auto-delete-queues-delay": lambda found: found >= 0,
    "auto-delete-queues-message-count": lambda found: found >= -1,
    "id-cache-size": lambda found: found >= 0,
    "initial-queue-buffer-size": lambda found: found > 0 and int(found).bit_count() == 1,
    "max-read-page-bytes": lambda found: found == -1 or 0 < found <= _INT_MAX,
    "max-read-page-messages": lambda found: found == -1 or 0 < found <= _INT_MAX,
    "page-limit-bytes": lambda found: found == -1 or found > 0,
    "page-limit-messages": lambda found: found == -1 or found > 0,
    "page-size-bytes": lambda found: 0 < found <= _INT_MAX,
    "prefetch-page-bytes": lambda found: found == -1 or 0 < found <= _INT_MAX,
    "prefetch-page-messages": lambda found: found == -1 or 0 < found <= _INT_MAX,
    "redelivery-collision-avoidance-factor": lambda found: 0 <= found <= 1,
    "retroactive-message-count": lambda found: found >= 0,
    "slow-consumer-check-period": lambda found: found > 0,
    "slow-consumer-threshold": lambda found: found == -1 or found > 0,
}
"""Numbers for which the broker accepts only some values.

Source: ``FileConfigurationParser.parseAddressSettings``.
"""

CORE = types(
    boolean="""
        amqp-use-core-subscription-naming resolve-protocols journal-datasync large-message-sync persistence-enabled
        graceful-shutdown-enabled security-enabled wild-card-routing-enabled mask-password jmx-management-enabled
        jmx-use-broker-name message-counter-enabled async-connection-execution-enabled persist-id-cache
        persist-delivery-count-before-delivery populate-validated-user reject-empty-validated-user
        create-bindings-dir read-whole-page create-journal-dir journal-sync-transactional
        journal-sync-non-transactional log-journal-write-rate critical-analyzer mirror-ack-manager-warn-unacked
        mirror-page-transaction suppress-session-notifications management-message-rbac
        purge-page-folders jmx-notification-enabled mqtt-subscription-persistence-enabled
    """,
    int="""
        scheduled-thread-pool-max-size thread-pool-max-size message-counter-max-day-history
        message-expiry-thread-priority id-cache-size page-max-concurrent-io journal-min-files journal-pool-files
        journal-compact-percentage journal-compact-min-files journal-max-io journal-file-open-timeout max-disk-usage
        memory-warning-threshold page-sync-timeout mirror-ack-manager-queue-attempts mirror-ack-manager-page-attempts
        mirror-ack-manager-retry-delay journal-lock-monitor-max-retries
    """,
    long="""
        graceful-shutdown-timeout security-invalidation-interval authentication-cache-size authorization-cache-size
        journal-lock-acquisition-timeout message-counter-sample-period connection-ttl-override
        connection-ttl-check-interval configuration-file-refresh-period transaction-timeout
        transaction-timeout-scan-period message-expiry-scan-period address-queue-scan-period max-redelivery-records
        mqtt-session-scan-interval mqtt-session-state-persistence-timeout journal-buffer-timeout
        journal-device-block-size server-dump-interval global-max-messages disk-scan-period memory-measure-interval
        critical-analyzer-timeout critical-analyzer-check-period network-check-period network-check-timeout
        journal-lock-monitor-timeout
    """,
)
"""The types of the simple children of ``<core>``; those that are not listed are text."""

WILDCARDS = {
    "enabled": "boolean",
    "routing-enabled": "boolean",
    "delimiter": "string",
    "any-words": "string",
    "single-word": "string",
}

ROOT = "configuration"
PROPERTIES = "broker.properties"
_NAMESPACE = "urn:activemq:core"
_INCLUDE = "http://www.w3.org/2001/XInclude"
_DOLLAR = "2.50-"
"""The versions in which ``$`` is a wildcard like any other character."""

_ABSOLUTE = re.compile(r"(?:file:)?/")
_ACCEPTOR = re.compile(r"(?:tcp|netty)://[^/?]*:(\d*)(.*)", re.DOTALL)
_PROTOCOLS = re.compile(r"[?;&]protocols=([^;&]*)")
_LITERAL = "2.41-"
"""The versions in which a single-word wildcard behind a backslash stands for itself, if it is the only one."""

_MAX_INCLUDES = 100
_REASONS = {
    "max-redelivery-records": "each redelivery is a new record; records are not updated",
    "temporary-queue-namespace": "Kafka has no temporary queues",
    "message-expiry-scan-period": "records expire when they are read, without a scan",
}
_PERSIST = "persist-delivery-count-before-delivery"
_PREFIXES = ("jms.queue.", "jms.topic.")
_READ = frozenset(("address-settings", "addresses", "queues", "literal-match-markers", "wildcard-addresses", _PERSIST))
_MARKERS = 2
_MAX_CHARACTERS, _MAX_WORDS = 500_000, 20_000
"""Limits for all matches together: each becomes a regular expression, and large ones take minutes to compile."""

_TUNING = "it is about the broker's memory, paging, consumers or resources, which Kafka handles in its own way"


def read_broker_xml(
    root: Element,
    name: str,
    values: PlaceholderValues,
    version: BrokerVersion,
    overriding: Mapping[str, str] | None = None,
) -> Imported:
    """Read a parsed ``broker.xml``.

    Args:
        root: the root element.
        name: the name of the file, for messages.
        values: the values of placeholders.
        version: the version of the broker.
        overriding: the properties of ``broker.properties``.

    Raises:
        MigrationError: the broker itself refuses the file.
    """
    return _BrokerXml(root, name, values.for_artemis(), version, overriding or {}).read()


def _included_path(href: str, base: str, folder: str) -> str | None:
    """Return the path, in the folder of the broker, of the file that ``href`` names; ``None`` if it is elsewhere.

    Args:
        href: a relative URI, or one with ``file:``.
        base: the path, in the folder, of the file that includes it: relative paths begin beside that.
        folder: the absolute path of the folder.
    """
    path = percent_decoded(re.sub(r"^file:(?://(?=/))?", "", href).replace("+", "%2B"))
    path = posixpath.normpath(posixpath.join(folder, posixpath.dirname(base), path))
    return None if posixpath.relpath(path, folder).startswith("..") else posixpath.relpath(path, folder)


def include(root: Element, name: str, read: Callable[[str], bytes | None], folder: str) -> list[Note]:
    """Put the root elements of included files in the place of the ``<include>`` elements that name them.

    Args:
        root: the root element.
        name: the name of the file, for messages.
        read: returns the content of a file by its path in the folder; ``None`` if it is not there. Its include stays.
        folder: the absolute path of the folder.

    Returns:
        notes about relative paths, which the broker does not take from the folder.

    Raises:
        MigrationError: a file is not XML, or the files include each other too often.

    Source: ``XMLUtil.readerToElement``. Its parser takes a relative path from the file that includes it; of
    ``broker.xml`` it does not know the place.
    """
    count, notes = 0, list[Note]()
    waiting = [(root, name)]
    while waiting:
        element, base = waiting.pop()
        index = 0
        while index < len(element.children):
            child = element.children[index]
            inside, path, content = base, None, None
            href = child.attributes.get("href", "")
            if child.namespace == _INCLUDE and child.attributes.get("parse", "xml") == "xml":
                path = _included_path(href, base, folder)
            if path is not None:
                count += 1
                if count > _MAX_INCLUDES:
                    raise MigrationError(name, f"includes more than {_MAX_INCLUDES} files", child.line)
                content = read(path)
            fallback = None if path is None else child.find("fallback")
            if content is None and fallback is not None:
                element.children[index : index + 1] = fallback.children
                continue
            if path is not None and content is not None:
                if base == name and not _ABSOLUTE.match(href):
                    text = f"{href} is read from the folder of the file; the broker takes it from where it is started"
                    notes.append(Note(f"{name}:{child.line}", shortened(text)))
                element.children[index] = included = read_xml(content, path)
                for each in included.walk():
                    each.line = child.line  # messages name a line of the file itself
                inside = path
            waiting.append((element.children[index], inside))
            index += 1
    return notes


def replaced(content: bytes, name: str, values: PlaceholderValues, missing: dict[str, None]) -> str:
    """Return the text of a ``broker.xml`` with its placeholders replaced. Add the names of those without a value.

    Raises:
        MigrationError: a placeholder has no name, nests without end or is too long, or the encoding is unknown.
    """
    try:
        return artemis_text(decoded(content, name), values.for_artemis(), missing)
    except PlaceholderError as error:
        raise MigrationError(name, str(error)) from None


def _replaced(text: str, properties: Mapping[str, str], name: str, line: int | None = None) -> str:
    try:
        return artemis_text(text, properties)
    except PlaceholderError as error:
        raise MigrationError(name, str(error), line) from None


_OF_ALL_MATCHES = ("wildcardconfiguration", "literalmatchmarkers")
"""Java properties in lower case. The wildcards of the file are known before its matches are read."""

_JAVA_PERSIST = "persistDeliveryCountBeforeDelivery"
_SURROUND, _REMOVE = "key.surround", "-"
_JAVA_SETTINGS, _JAVA_ADDRESSES = frozenset(("addressSettings", "addressesSettings")), "addressConfigurations"


def _java_name(name: str) -> str:
    return re.sub("-(.)", lambda found: found[1].upper(), name)


_JAVA_TUNING = set(map(_java_name, names("artemis", "address-setting"))) - set(map(_java_name, SETTING_NAMES))
_JAVA_TUNING |= {"addressFullMessagePolicy", "diskFullMessagePolicy", "pageCacheMaxSize", "pageFullMessagePolicy"}
_BY_JAVA_NAME = {_java_name(name): name for name in SETTING_NAMES}
_BY_JAVA_NAME["redeliveryMultiplier"] = _BY_JAVA_NAME.pop("redeliveryDelayMultiplier")
_BY_JAVA_NAME["sendToDLAOnNoRoute"] = _BY_JAVA_NAME.pop("sendToDlaOnNoRoute")
"""Settings by the names of their Java properties."""


def _java_entry(key: str, surround: str) -> tuple[str, str, str]:
    """Return the parts of a key such as ``addressSettings."orders.#".maxDeliveryAttempts``.

    They are a map, the name of its entry, which ``surround`` may be around, and a property of the entry.

    Source: ``ConfigurationImpl.SurroundResolver``.
    """
    property_of, _, rest = key.partition(".")
    if surround and rest.startswith(surround):
        entry, _, rest = rest[len(surround) :].partition(surround)
    else:
        entry, dot, rest = rest.partition(".")
        rest = dot + rest
    return property_of, entry, rest.removeprefix(".")


def _problem(match: str, repository: SettingsRepository) -> str:
    """Return why the broker does not start with a match; empty if it does."""
    try:
        repository.checked(match)
    except MatchError as error:
        return error.problem
    return ""


def _inside(parent: Element, container: str, name: str) -> Iterator[Element]:
    found = parent.find(container)
    return iter(()) if found is None else found.all(name)


class _BrokerXml:
    def __init__(
        self,
        root: Element,
        name: str,
        properties: Mapping[str, str],
        version: BrokerVersion,
        overriding: Mapping[str, str],
    ) -> None:
        self._overriding = overriding
        self._of_broker: list[str] = []
        self._addresses_of_properties: list[str] = []
        self._root = root
        self._name = name
        self._properties = properties
        self._version = version
        self._imported = Imported(name, "artemis")

    def read(self) -> Imported:
        core = self._root.find("core")
        for element in self._root.walk():
            if element.namespace == _INCLUDE:
                href = element.attributes.get("href", "")
                self._imported.note(
                    element.line,
                    f"<include> is not read: {href!r} is not in the folder; import a file that contains its settings",
                )
        if core is None:
            self._imported.note(self._root.line, "the file has no <core>, so it has no address settings")
            return self._imported
        if core.namespace != _NAMESPACE:
            raise MigrationError(
                self._name, f"<core> is not in the namespace {_NAMESPACE}; the broker refuses it", core.line
            )
        self._holds_elements(core)
        section = self._imported.section
        wildcards = self._wildcards(core)
        for child in core.children:
            self._core_child(child)
        if self._of_broker:
            names_of = ", ".join(self._of_broker)
            self._imported.note(core.line, f"not carried over, because they concern the broker itself: {names_of}")
        markers = core.find("literal-match-markers")
        if markers is not None:
            section["literal-match-markers"] = text = self._text(markers)
            if len(text) != _MARKERS:
                self._refuse(markers, f"<{markers.name}> is {text!r}, but must have {_MARKERS} characters")
        repository = SettingsRepository(wildcards, section.get("literal-match-markers"))
        section["address-settings"] = list(self._settings(core, repository))
        self._override(section["address-settings"], repository)
        self._addresses(core, section["address-settings"])
        if any(each["match"].startswith(_PREFIXES) for each in section["address-settings"]):
            self._imported.note(
                core.line,
                f"matches that begin with {' or '.join(_PREFIXES)} are for addresses of clients of Artemis 1.x; those "
                "of other clients have no such prefix, so that these settings do not apply to them",
            )
        self._acceptors(core)
        return self._imported

    def _acceptors(self, core: Element) -> None:
        """Note which acceptors speak STOMP: one that names no protocols speaks all."""
        for acceptor in core.walk():
            uri = _ACCEPTOR.match(self._text(acceptor)) if acceptor.name == "acceptor" else None
            protocols = uri and _PROTOCOLS.search(uri[2])
            if uri and (not protocols or "STOMP" in protocols[1].upper()):
                self._imported.add_stomp(uri[1], tls="sslenabled=true" in uri[2].lower())

    def _core_child(self, child: Element) -> None:
        if child.namespace == _INCLUDE:
            return
        if not self._knows(child, "core"):
            self._imported.note(
                child.line,
                f"<{child.name}> is left out: {known_versions('artemis')} do not know it and do not load the file; all "
                "settings of redelivery are in <address-settings>",
            )
            return
        found = self._checked(child, CORE[child.name]) if child.name in CORE else None
        if child.name == _PERSIST and found is True:
            self._imported.handler["persistDeliveryCountBeforeDelivery"] = True
        if child.name in CHOICES:
            self._chosen(child)
        if child.name not in _READ and child.name not in _REASONS:
            self._of_broker.append(child.name)
        if child.name in _REASONS:
            self._imported.note(child.line, f"{child.name} is not carried over: {_REASONS[child.name]}")

    def _knows(self, child: Element, container: str) -> bool:
        """Whether any version knows the element. Add a note if this version does not."""
        versions = names("artemis", container).get(child.name)
        if versions is not None and not self._version.has(versions):
            self._imported.note(
                child.line,
                f"<{child.name}> is a setting of Artemis {in_words(versions)}; {self._version} does not load the file",
            )
        return versions is not None

    def _wildcards(self, core: Element) -> Wildcards:
        given = core.find("wildcard-addresses")
        if given is None:
            return Wildcards()
        self._holds_elements(given)
        found: dict[str, str] = {}
        for child in given.children:
            if not self._knows(child, "wildcard-addresses"):
                self._refuse(child, f"<{child.name}> is not allowed in <{given.name}>")
            text = self._checked(child, WILDCARDS[child.name])
            if WILDCARDS[child.name] == "string":
                if not text:
                    self._refuse(child, f"<{child.name}> is empty")
                found[child.name] = str(text)[0]
        if found:
            self._imported.section["wildcard-addresses"] = found
        return Wildcards(**{key.replace("-", "_"): character for key, character in found.items()})

    def _note_meaning(self, line: int, match: str, wildcards: Wildcards) -> None:
        """Say where the version reads a match in another way than we do (ARTEMIS-5528, ARTEMIS-5739).

        Source: ``tests/parity/data/artemis_versions.json``.
        """
        old = not self._version.has(_DOLLAR)
        literal = "\\" + wildcards.single_word
        words = match.replace(wildcards.delimiter + wildcards.any_words, wildcards.any_words)
        text = ""
        if literal in match and self._version.has(_LITERAL) and not wildcards.used_in(match.replace(literal, "")):
            text = "applies to the address spelled like it; here it works as before 2.41"
        elif old and wildcards.any_words == "$" and match.endswith("$") and match != "$":
            text = "keeps the broker from starting; here it works as since 2.50"
        elif old and wildcards.single_word == "$" and "$" in match:
            text = "applies to no address; here it works as since 2.50"
        elif not old and wildcards.delimiter == "$" and "$" in words and wildcards.used_in(match):
            text = "applies to no address; here it works as before 2.50"
        if text:
            self._imported.note(line, f"match {match!r}: in {self._version} it {text}")

    def _settings(self, core: Element, repository: SettingsRepository) -> Iterator[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        characters = words = 0
        for element in self._setting_elements(core):
            match = element.attributes.get("match")
            if match is None:
                self._refuse(element, "<address-setting> has no match")
                continue
            setting = self._setting(element)
            match = self._replaced(element, match)
            characters += len(match)
            words += match.count(repository.wildcards.single_word)
            if len(match) > MAX_PATTERN_CHARACTERS or characters > _MAX_CHARACTERS or words > _MAX_WORDS:
                raise MigrationError(self._name, "the match is too long", element.line)
            if problem := _problem(match, repository):
                self._imported.note(
                    element.line, f"match {match!r} is left out: it {problem}, and the broker does not start with it"
                )
                continue
            self._note_meaning(element.line, match, repository.wildcards)
            if not match:
                self._imported.note(element.line, "match '' is left out: it matches no address")
            elif match in found:
                self._imported.note(
                    element.line, f"match {match!r} is left out: it is repeated, and the broker uses the first"
                )
            else:
                found[match] = {"match": match, **setting}
                if 2 * len(found) > MAX_VALUES:
                    problem = f"has more address settings than our file may have ({MAX_VALUES} values)"
                    raise MigrationError(self._name, problem, element.line)
        # a::q matches the address a. The broker adds matches in the order of their hashes; the last one has an effect.
        counting = {repository.checked(match): match for match in hash_order(found)}
        counted = set(counting.values())
        for match, setting in found.items():
            if match in counted:
                yield setting
            else:
                other = counting[repository.checked(match)]
                self._imported.note(
                    self._root.line, f"match {match!r} is left out: the broker uses {other!r} for the same address"
                )

    def _override(self, settings: list[dict[str, Any]], repository: SettingsRepository) -> None:
        """Apply ``broker.properties``, which set the properties of Artemis's Java objects after the file is read."""
        if self._overriding:
            self._imported.note(None, f"{PROPERTIES}, which is beside the file, overrides it")
        left: dict[str, None] = {}
        for key, text in self._replaced_properties():
            property_of, entry, rest = _java_entry(key, self._overriding.get(_SURROUND, '"'))
            if key == _JAVA_PERSIST:
                self._imported.handler["persistDeliveryCountBeforeDelivery"] = text.strip().lower() == "true"
            elif key.lower().startswith(_OF_ALL_MATCHES):
                problem = f"{key} of {PROPERTIES} changes what each match means; set it in the file instead"
                raise MigrationError(self._name, problem)
            elif property_of == _JAVA_ADDRESSES and entry and text != _REMOVE:
                self._addresses_of_properties.append(entry)
            elif property_of in _JAVA_SETTINGS and entry and (rest in _BY_JAVA_NAME or (text == _REMOVE and not rest)):
                self._override_setting(settings, repository, key, entry, rest, text)
            else:
                setting = property_of in _JAVA_SETTINGS and entry != ""
                if setting and rest not in _JAVA_TUNING:
                    self._imported.note(
                        None, f"{key} of {PROPERTIES} is left out: address settings have no such property"
                    )
                else:
                    left[rest if setting else property_of] = None
        if left:
            listed = ", ".join(left)
            self._imported.note(None, f"not carried over from {PROPERTIES}, because they tune the broker: {listed}")

    def _override_setting(
        self, settings: list[dict[str, Any]], repository: SettingsRepository, key: str, match: str, rest: str, text: str
    ) -> None:
        if not rest:
            settings[:] = [each for each in settings if each["match"] != match]
            return
        name = _BY_JAVA_NAME[rest]
        kind = ADDRESS_SETTING.get(name, "string")
        if not valid(text, kind) or (name in LIMITS and not LIMITS[name](float(value(text, kind)))):
            self._imported.note(None, f"{key}={text} of {PROPERTIES} is left out: the broker refuses such a value")
        elif problem := _problem(match, repository):
            self._imported.note(None, f"{key} of {PROPERTIES} is left out: its match {problem}")
        else:
            given = next((each for each in settings if each["match"] == match), None)
            if given is None:
                given = {"match": match}
                settings.append(given)
            given[name] = value(text, kind)

    def _replaced_properties(self) -> Iterator[tuple[str, str]]:
        for key, text in ((key, text) for key, text in self._overriding.items() if key != _SURROUND):
            yield _replaced(key, self._properties, PROPERTIES), _replaced(text, self._properties, PROPERTIES)

    def _setting_elements(self, core: Element) -> Iterator[Element]:
        container = core.find("address-settings")
        if container is None:
            return
        self._holds_elements(container, once=False)
        for element in container.children:
            if element.namespace == _INCLUDE:
                continue
            if element.name != "address-setting":
                self._refuse(element, f"<{element.name}> is not allowed in <address-settings>")
            yield element

    def _setting(self, element: Element) -> dict[str, Any]:
        self._holds_elements(element, "match")
        setting: dict[str, Any] = {}
        for child in element.children:
            if not self._knows(child, "address-setting"):
                self._refuse(child, f"<{child.name}> is not allowed in <address-setting>")
            found = self._checked(child, ADDRESS_SETTING.get(child.name, "string"))
            if child.name in CHOICES:
                self._chosen(child)
            if child.name in LIMITS and not (isinstance(found, int | float) and LIMITS[child.name](found)):
                self._refuse(child, f"{child.name} is {found}, which is out of its range")
            if child.name in SETTING_NAMES:
                setting[child.name] = found
            else:
                self._imported.note(child.line, f"{child.name}={self._text(child)} is not carried over: {_TUNING}")
        return setting

    def _addresses(self, core: Element, settings: list[dict[str, Any]]) -> None:
        """Add the addresses of the file, except dead-letter and expiry addresses."""
        aside = {each.get(key) for each in settings for key in ("dead-letter-address", "expiry-address")}
        named: list[tuple[int | None, str]] = []
        named += ((each.line, each.attributes.get("name", "")) for each in _inside(core, "addresses", "address"))
        for queue in _inside(core, "queues", "queue"):
            texts = [self._text(each) for each in queue.all("address")] or [queue.attributes.get("name", "")]
            named += ((queue.line, each) for each in texts)
        for kind in ("queue", "topic"):
            named += ((each.line, each.attributes.get("name", "")) for each in _inside(self._root, "jms", kind))
        named += ((None, name) for name in self._addresses_of_properties)
        for line, text in named:
            name = _replaced(text, self._properties, self._name, line)
            if name and name in aside:
                self._imported.note(
                    line, f"{name} is not among the sources: it is a dead-letter or expiry address of others"
                )
            elif name:
                self._imported.add_destinations([name])

    def _chosen(self, element: Element) -> None:
        """Check that the text is one of the allowed values; surrounding whitespace is significant."""
        text = self._replaced(element, "".join(element.pieces))
        allowed = CHOICES[element.name]
        if text not in allowed:
            self._refuse(element, f"{element.name} is {text!r}, not one of {', '.join(sorted(allowed))}")

    def _checked(self, element: Element, kind: str) -> bool | int | float | str:
        if element.children or element.attributes:
            self._refuse(element, f"<{element.name}> contains more than text")
        text = self._text(element)
        if kind == "boolean" and not any(element.pieces) and element.name not in NO_DEFAULT:
            # The schema gives an empty element its default, but the broker takes every text but true as false.
            return False
        if not valid(text, kind):
            self._refuse(element, f"{element.name} is {text!r}, which is not of the type {kind}")
        if kind == "boolean" and text == "1":
            self._imported.note(element.line, f"{element.name}=1 is false: Artemis takes only the word true as true")
            return False
        return value(text, kind)

    def _text(self, element: Element) -> str:
        return self._replaced(element, element.text).strip()

    def _replaced(self, element: Element, text: str) -> str:
        return _replaced(text, self._properties, self._name, element.line)

    def _holds_elements(self, element: Element, *attributes: str, once: bool = True) -> None:
        """Check that an element contains only Artemis's elements and has only these attributes."""
        if element.text:
            self._refuse(
                element, f"<{element.name}> contains the text {element.text[:40]!r}, but may only contain elements"
            )
        for attribute in element.attributes:
            if attribute not in attributes:
                self._refuse(element, f"<{element.name}> has no attribute {attribute}")
        seen: set[str] = set()
        for child in element.children:
            if child.namespace == _INCLUDE:
                continue
            if child.namespace != _NAMESPACE:
                self._refuse(child, f"<{child.name}> is not in the namespace {_NAMESPACE}")
            if once and child.name in seen:
                self._refuse(child, f"<{child.name}> is repeated in <{element.name}>")
            seen.add(child.name)

    def _refuse(self, element: Element, problem: str) -> None:
        raise refused(element, self._name, problem)
