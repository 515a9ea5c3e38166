"""Resolves what Spring defines in an ``activemq.xml``: beans, references, placeholders and typed attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from kafka_redelivery.topology.migration.placeholders import (
    MAX_CHARACTERS,
    TOO_LONG,
    PlaceholderError,
    PlaceholderValues,
    missing_names,
    read_properties,
    spring_text,
)
from kafka_redelivery.topology.migration.result import Imported, MigrationError
from kafka_redelivery.topology.migration.schema import CONVERTED, spring_value, types, valid, value, words
from kafka_redelivery.topology.migration.versions import BrokerVersion, in_words, known_versions, names
from kafka_redelivery.topology.migration.xml_tree import MAX_ELEMENTS, Element, refused

NAMESPACE = "http://activemq.apache.org/schema/core"

_DESTINATIONS = words("queue tempQueue tempTopic topic")
_STRATEGY = types(
    boolean="enableAudit processExpired processNonPersistent",
    long="expiration",
    integer="maxAuditDepth maxProducersToAudit",
)

TYPES = {
    "broker": types(
        boolean="""
            adjustUsageLimits allowTempAutoCreationOnSend anonymousProducerAdvisorySupport cacheTempDestinations
            dedicatedTaskRunner enableMessageExpirationOnActiveDurableSubs enableStatistics keepDurableSubsActive
            monitorConnectionSplits networkConnectorStartAsync populateJMSXUserID populateUserNameInMBeans
            rejectDurableConsumers restartAllowed rollbackOnlyOnAsyncException shutdownOnMasterFailure
            splitSystemUsageForProducersConsumers start startAsync useAuthenticatedPrincipalForJMSXUserID
            useLocalHostBrokerName useLoggingForShutdownErrors useMirroredQueues useShutdownHook
            useTempMirroredQueues useVirtualDestSubs useVirtualDestSubsOnCreation useVirtualTopics
            virtualThreadTaskRunner
        """,
        editor="""
            advisorySupport deleteAllMessagesOnStartup passiveSlave persistent schedulerSupport
            shutdownOnSlaveFailure systemExitOnShutdown useJmx waitForSlave
        """,
        integer="""
            consumerSystemUsagePortion maxInflatedDataSize maxPurgedDestinationsPerSweep maxSchedulerRepeatAllowed
            maxUncommittedCount
            persistenceThreadPriority producerSystemUsagePortion schedulePeriodForDestinationPurge
            schedulePeriodForDiskUsageCheck storeOpenWireVersion systemExitOnShutdownExitCode taskRunnerPriority
            timeBeforePurgeTempDestinations
        """,
        long="""
            mbeanInvocationTimeout offlineDurableSubscriberTaskSchedule offlineDurableSubscriberTimeout
            waitForSlaveTimeout
        """,
    ),
    "policyMap": {},
    "policyEntry": types(
        boolean="""
            advancedMessageStatisticsEnabled advancedNetworkStatisticsEnabled allowTempDestinationStealing
            advisoryForConsumed advisoryForDelivery advisoryForDiscardingMessages
            advisoryForDispatched advisoryForFastProducers advisoryForSlowConsumers advisoryWhenFull
            allConsumersExclusiveByDefault alwaysRetroactive doOptimzeMessageStorage enableAudit
            gcInactiveDestinations gcWithNetworkConsumers includeBodyForAdvisory lazyDispatch optimizedDispatch
            persistJMSRedelivered prioritizedMessages producerFlowControl reduceMemoryFootprint
            sendAdvisoryIfNoConsumers sendDuplicateFromStoreToDLQ sendFailIfNoSpace strictOrderDispatch tempQueue
            tempTopic useCache useConsumerPriority usePrefetchExtension useTopicSubscriptionInflightStats
        """,
        long="""
            blockedProducerWarningInterval expireMessagesPeriod inactiveTimeoutBeforeGC inactiveTimoutBeforeGC
            minimumMessageSize sendFailIfNoSpaceAfterTimeout
        """,
        integer="""
            consumersBeforeDispatchStarts cursorMemoryHighWaterMark durableTopicPrefetch maxAuditDepth
            maxBrowsePageSize maxDestinations maxExpirePageSize maxPageSize maxProducersToAudit maxQueueAuditDepth
            optimizeMessageStoreInFlightLimit queueBrowserPrefetch queuePrefetch storeUsageHighWaterMark
            timeBeforeDispatchStarts topicPrefetch
        """,
        memory="memoryLimit",
    ),
    "sharedDeadLetterStrategy": _STRATEGY,
    "individualDeadLetterStrategy": _STRATEGY
    | types(boolean="destinationPerDurableSubscriber useQueueForQueueMessages useQueueForTopicMessages"),
    "discarding": _STRATEGY,
    "redeliveryPlugin": types(boolean="fallbackToDeadLetter sendToDlqIfMaxRetriesExceeded"),
    "redeliveryPolicyMap": {},
    "redeliveryPolicy": types(
        double="backOffMultiplier",
        short="collisionAvoidancePercent",
        long="initialRedeliveryDelay maximumRedeliveryDelay redeliveryDelay",
        integer="maximumRedeliveries",
        boolean="preDispatchCheck tempQueue tempTopic useCollisionAvoidance useExponentialBackOff",
    ),
    "discardingDLQBrokerPlugin": types(
        boolean="dropAll dropTemporaryQueues dropTemporaryTopics", integer="reportInterval"
    ),
}
"""The types of the attributes of the elements that are imported, other than text.

Other elements are not checked.
"""

PROPERTIES = {
    "deadLetterStrategy": words("discarding individualDeadLetterStrategy sharedDeadLetterStrategy"),
    "deadLetterQueue": _DESTINATIONS,
    "destination": _DESTINATIONS,
}
"""Properties without attributes, and the elements of which they contain one."""

HOLDS_ONE = frozenset(("defaultEntry", "deadLetterQueue", "destination", "destinationPolicy"))
"""Properties that contain exactly one element."""

HOLDS_ELEMENTS = {*TYPES, *PROPERTIES} | words(
    """
    defaultEntry destinationPolicy destinations entries plugins policyEntries queue redeliveryPolicyEntries tempQueue
    tempTopic topic
    """
)
"""Elements that contain no text."""

NEVER_A_REFERENCE = words(
    "brokerName dropOnly name physicalName queue queuePrefix queueSuffix topic topicPrefix topicSuffix"
)
"""Attributes that are always text: the broker fails on a value that starts with ``#``."""


def top_level(root: Element, *inside: str) -> Iterator[Element]:
    """Yield the elements directly in a document, also those inside of others, ``<beans>`` and imports by default."""
    for child in root.children:
        chosen = child.name == NESTED and "profile" in child.attributes  # only a program with Spring has profiles
        if child.children and (chosen or child.name in (inside or (NESTED, IMPORT))):
            yield from top_level(child, *inside)
        else:
            yield child


def read_of_factory(factory: Element) -> Element:
    """Return a connection factory with only those of its attributes that are carried over."""
    read = {key: text for key, text in factory.attributes.items() if "." in key or key in _OF_FACTORY}
    return replace(factory, attributes=read)


def take_profiles(root: Element, values: PlaceholderValues) -> list[Element]:
    """Remove the ``<beans>`` whose profile is not active. Return them.

    Source: ``ProfilesParser`` without expressions, ``AbstractEnvironment``.
    """
    text = {**values.environment, **values.given}.get(ACTIVE_PROFILES, "default")
    active = set(_SEPARATORS.split(text))
    removed: list[Element] = []
    waiting = [root]
    while waiting:
        element = waiting.pop()
        kept = list[Element]()
        for child in element.children:
            profiles = child.attributes.get("profile", "") if child.name == NESTED else ""
            chosen = [each for each in _SEPARATORS.split(profiles) if each]
            if chosen and not any((each.lstrip("!") in active) != each.startswith("!") for each in chosen):
                removed.append(child)
            else:
                kept.append(child)
        element.children = kept
        waiting += (each for each in kept if each.name in {NESTED, IMPORT})
    return removed


def check_structure(root: Element, name: str) -> None:
    """Check what involves more than one element.

    Args:
        root: the root element.
        name: the name of the file, for messages.

    Raises:
        MigrationError: the broker refuses the file.
    """
    ids: set[str] = set()
    for element in root.walk():
        beside: set[str] = set()
        for child in element.children:
            identity = child.attributes.get("id")
            # Elements of the broker have ids of XML, which are unique. Spring only compares beans beside each other.
            known = ids if child.namespace.startswith(NAMESPACE) else beside
            if identity is not None and (identity in known or identity in beside):
                raise refused(child, name, f"two beans have the id {identity!r}")
            if identity is not None:
                known.add(identity)
                beside.add(identity)
        if element.namespace.startswith(NAMESPACE):
            _check_element(element, name)


def _check_element(element: Element, name: str) -> None:
    if element.name in HOLDS_ELEMENTS and element.text:
        raise refused(
            element, name, f"<{element.name}> contains the text {element.text[:40]!r}, but may only contain elements"
        )
    for attribute in NEVER_A_REFERENCE & element.attributes.keys():
        text = element.attributes[attribute]
        if text.startswith("#") and text != _NULL and not text.startswith("##"):
            raise refused(
                element, name, f"{attribute}={element.attributes[attribute]!r} is a reference, but must be text"
            )
    for child in element.children:
        if not child.namespace.startswith(NAMESPACE):
            continue
        if element.name == "plugins" and child.name not in names("activemq", "plugins"):
            raise refused(child, name, f"<{child.name}> is not a plugin")
        if element.name == "destinationPolicy" and child.name != "policyMap":
            raise refused(child, name, f"<{child.name}> is not a <policyMap>")
        if element.name == "redeliveryPlugin" and child.name == "redeliveryPolicyMap":
            _check_map_property(child, name)
        if child.name in HOLDS_ONE and len(child.children) != 1:
            raise refused(child, name, f"<{child.name}> contains {len(child.children)} elements instead of one")


def _check_map_property(element: Element, name: str) -> None:
    """Check that the property contains the bean of the same name; often one of the two is missing."""
    own = [child.name for child in element.children if child.namespace.startswith(NAMESPACE)]
    if len(element.children) != 1 or any(child != "redeliveryPolicyMap" for child in own):
        raise refused(element, name, "<redeliveryPolicyMap> of the plugin must contain one <redeliveryPolicyMap>")


Value = bool | int | float | str

_LOCATIONS = frozenset(("location", "locations"))
READ = "properties of files"
"""The name of a setting whose value has been read from files."""

_CONFIGURERS = ("PropertyPlaceholderConfigurer", "PropertySourcesPlaceholderConfigurer")
_CLASSES = {
    "SharedDeadLetterStrategy": "sharedDeadLetterStrategy",
    "IndividualDeadLetterStrategy": "individualDeadLetterStrategy",
    "DiscardingDeadLetterStrategy": "discarding",
    "PolicyEntry": "policyEntry",
    "PolicyMap": "policyMap",
    "RedeliveryPolicy": "redeliveryPolicy",
    "RedeliveryPolicyMap": "redeliveryPolicyMap",
    "RedeliveryPlugin": "redeliveryPlugin",
    "DiscardingDLQBrokerPlugin": "discardingDLQBrokerPlugin",
    "ActiveMQConnectionFactory": "connectionFactory",
    "ActiveMQSslConnectionFactory": "connectionFactory",
    "ActiveMQXAConnectionFactory": "xaConnectionFactory",
    "ActiveMQXASslConnectionFactory": "xaConnectionFactory",
    "ActiveMQQueue": "queue",
    "ActiveMQTopic": "topic",
    "ActiveMQPrefetchPolicy": "prefetchPolicy",
    "BrokerService": "broker",
    "XBeanBrokerService": "broker",
}
"""Classes of beans for which there are elements, too."""

_FACTORIES = frozenset(("connectionFactory", "xaConnectionFactory"))

_OF_OTHERS = frozenset(("redeliveryPolicyMap", "redeliveryPolicy"))
"""Elements that are also properties of beans whose schema is not checked."""

_NOT_ALL_READ = _FACTORIES | {"broker"}
"""Beans with many settings that are not carried over."""

_WITH_URI = {
    "PooledConnectionFactory": "brokerURL",
    "ActiveMQComponent": "brokerURL",
    "ActiveMQConfiguration": "brokerURL",
    "ActiveMQResourceAdapter": "serverUrl",
}
"""Classes of beans that make a connection factory of a URI, and the property with the URI."""

_LISTS = words("destinations plugins policyEntries redeliveryPolicyEntries")
"""Properties that are lists. Spring makes a list of a single bean."""

ACTIVE_PROFILES = "spring.profiles.active"
_SEPARATORS = re.compile(r"[,;\s]+")
NESTED, IMPORT = "beans", "import"
_ARGUMENTS = frozenset(("argument", "constructor-arg"))
_OF_FACTORY = _OF_OTHERS | words(
    "brokerURL prefetchPolicy nonBlockingRedelivery optimizeAcknowledge optimizeAcknowledgeTimeOut"
)
_COLLECTIONS = frozenset(("array", "list", "set"))
_FOREIGN = "is not carried over: it is a Spring bean, which only the broker can create"
_NULL = "#null"
EXPRESSION = "#{"
"""Begins an expression, which only Spring can compute."""


@dataclass(slots=True)
class _Bean(Element):
    """The element that is equivalent to a ``<bean>``. Spring converts its texts, and no schema checks them."""


SPRING = "http://www.springframework.org/schema/beans"
_NEVER_REPLACED = frozenset(("id", "name"))

_SET_BY_SCRIPT = {"activemq.home": ".", "activemq.base": ".", "activemq.conf": "conf", "activemq.data": "data"}
"""Properties that ``bin/activemq`` sets, relative to the broker's folder."""


class Beans:
    """The beans and properties of a document."""

    def __init__(
        self, root: Element, imported: Imported, values: PlaceholderValues, version: BrokerVersion, hint: str = ""
    ) -> None:
        self._root = root
        self._hint = hint
        self._imported = imported
        self._version = version
        self._by_id = {name: element for element in root.walk() for name in _names(element)}
        for alias in (each for each in top_level(root) if each.name == "alias"):
            bean = self._by_id.get(alias.attributes.get("name", ""))
            if bean is not None:
                self._by_id[alias.attributes.get("alias", "")] = bean
        self._configured = self._lenient = self._elsewhere = False
        self._added = self._inherited = 0
        self._elements: dict[int, Element | None] = {}
        """The equivalents of beans, by their identity."""

        own = self._configurers(root)
        properties = values.for_spring(own)
        self._assumed = {name: text for name, text in _SET_BY_SCRIPT.items() if name not in properties}
        self._properties = self._assumed | properties
        self._check(root)
        if self._configured and not self._lenient:
            self._check_placeholders(root)
        unused = [name for name in values.given if name != ACTIVE_PROFILES]
        if unused and not self._configured:
            imported.note(
                root.line,
                f"--property {', '.join(unused)} has no effect: without a PropertyPlaceholderConfigurer "
                "the broker replaces no placeholder",
            )
        elif not self._configured:
            self._note_literal(root)

    def _note_literal(self, root: Element) -> None:
        for element in root.walk():
            carried = element.namespace.startswith(NAMESPACE) and element.name in TYPES.keys() - {"broker"}
            text = next((text for text in element.attributes.values() if "${" in text), None) if carried else None
            if text is not None:
                problem = (
                    "is taken as it is: without a PropertyPlaceholderConfigurer the broker replaces no placeholder"
                )
                self._imported.note(element.line, f"{text} {problem}")

    def attributes(self, element: Element) -> dict[str, Value]:
        """Return the typed attributes of an element, with placeholders replaced.

        Raises:
            MigrationError: the broker refuses an attribute.
        """
        spring = isinstance(element, _Bean)
        found: dict[str, Value] = {}
        for name, given in element.attributes.items():
            if given == _NULL and not spring:
                continue
            text = given[1:] if given.startswith("##") and not spring else given
            bean, _, last = name.rpartition(".")
            kind = TYPES.get(bean or element.name, {}).get(last, "string")
            resolved = self._resolved(element, text)
            if spring and EXPRESSION in resolved:
                if element.name in _NOT_ALL_READ:
                    found[name] = resolved
                    continue
                problem = f"{name} is {resolved!r}, an expression that only Spring computes: write its value"
                raise MigrationError(self._imported.name, problem, element.line)
            resolved = spring_value(resolved, kind) if spring else resolved
            if not valid(resolved, kind) and (missing := dict.fromkeys(missing_names(resolved, {}), element.line)):
                self._needs(missing)
            if not valid(resolved, kind):
                self.refuse(element, f"{name}={resolved!r} is not of the type {kind}")
            if resolved != text and kind not in CONVERTED and not spring:
                self._imported.note(
                    element.line,
                    f"{name} contains a placeholder, which the broker refuses unless it is started with validate=false",
                )
            found[name] = value(resolved, kind)
        return found

    def text(self, element: Element, name: str) -> str:
        """Return an attribute that is not carried over, with placeholders replaced if all of them have a value."""
        text = element.attributes.get(name, "")
        return text if any(missing_names(text, self._properties)) else self._resolved(element, text)

    def inside(self, container: Element, *wanted: str) -> Iterator[Element]:
        """Yield the children with one of these names, references included. Add a note for each other child."""
        for child in container.children:
            known = self.as_element(child)
            if known is not None and known.name in wanted:
                yield known
            elif child.name == "ref":
                yield from self.referred(container, container.name, _reference(child), wanted)
            elif child.namespace.startswith(NAMESPACE):
                self._imported.note(child.line, f"<{child.name}> is not carried over: there is no equivalent")
            else:
                self._imported.note(child.line, f"{described(child)} {_FOREIGN}")

    def resolved(self, container: Element, child: Element) -> Element:
        """Return the child, the bean that it refers to, or the element that is equivalent to its ``<bean>``."""
        if child.name == "ref":
            return next(self.referred(container, container.name, _reference(child)), child)
        return self.as_element(child) or child

    def property(self, element: Element, attributes: Mapping[str, Value], name: str) -> Iterator[Element]:
        """Yield the beans of a property, which is an attribute that refers to one, or a child."""
        yield from self.referred(element, name, attributes.get(name), (name,))
        for child in element.all(name):
            yield from self.inside(child, name)

    def unused(self, *wanted: str) -> Iterator[Element]:
        """Yield the beans directly in the document, with one of these names, to which nothing refers."""
        references = {name for each in self._root.walk() for name in _references(each)}
        for child in top_level(self._root):
            known = self.as_element(child)
            if known is not None and known.name in wanted and not references.intersection(_names(child)):
                yield known

    def as_element(self, child: Element) -> Element | None:
        """Return the child itself, or the element that is equivalent to a ``<bean class=...>``."""
        if child.namespace.startswith(NAMESPACE):
            return child
        if child.name != "bean" or child.attributes.get("abstract") == "true":
            return None
        if id(child) not in self._elements:
            self._elements[id(child)] = self._converted(child)
        return self._elements[id(child)]

    def _converted(self, child: Element) -> Element | None:
        definitions = [child]
        while (parent := self._by_id.get(definitions[-1].attributes.get("parent", ""))) is not None:
            definitions.append(parent)
            self._inherited += 1 + len(parent.children) + len(parent.attributes)
            if self._inherited > MAX_ELEMENTS:
                self.refuse(child, "beans inherit too much from their parents, or from themselves")
        names_of = (each.attributes["class"] for each in definitions if "class" in each.attributes)
        of_class = next(names_of, "").strip().rpartition(".")[2]
        name = _CLASSES.get(of_class, "connectionFactory" if of_class in _WITH_URI else None)
        if name is None:
            return None
        bean, inner = _Bean(NAMESPACE, name, {}, child.line), dict[str, Element]()
        for each in reversed(definitions):
            self._construct(bean, each, inner)
            self._set_properties(bean, each, inner)
        bean.children += inner.values()
        if of_class in _WITH_URI:
            uri = bean.attributes.get(_WITH_URI[of_class])
            return None if uri is None else _Bean(NAMESPACE, name, {"brokerURL": uri}, child.line)
        return bean

    def _construct(self, bean: Element, definition: Element, inner: dict[str, Element]) -> None:
        """Set what a bean gets from its constructor: of a connection factory's arguments the URI is the last one."""
        name = "brokerURL" if bean.name in _FACTORIES else "physicalName"
        arguments: dict[str, Element | str] = {}
        for number, each in enumerate(child for child in definition.children if child.name in _ARGUMENTS):
            arguments[each.attributes.get("name") or each.attributes.get("index") or str(number)] = each
        for key, text in definition.attributes.items():
            if key.startswith("c:"):
                name_of, reference, _ = key.removeprefix("c:").removeprefix("_").partition("-ref")
                arguments[name_of] = f"#{text}" if reference else text
        last = max((key for key in arguments if key.isdigit()), default="")
        given = arguments.get("brokerURL" if bean.name in _FACTORIES else "name", arguments.get(last))
        if isinstance(given, str):
            bean.attributes[name] = given
        elif given is not None:
            self._set(bean, name, given, inner)

    def _set_properties(self, bean: Element, definition: Element, inner: dict[str, Element]) -> None:
        for key, text in definition.attributes.items():
            if key.startswith("p:"):
                reference = key.endswith("-ref")
                bean.attributes[key[2:].removesuffix("-ref")] = f"#{text}" if reference else text
        for given in definition.all("property"):
            self._set(bean, given.attributes.get("name", ""), given, inner)

    def _set(self, bean: Element, name: str, given: Element, inner: dict[str, Element]) -> None:
        """Set a property to what a ``<property>`` or an argument of a constructor has, a text or ``inner`` elements."""
        content = [each for each in given.children if each.name not in {"description", "meta"}]
        reference = f"#{given.attributes['ref']}" if "ref" in given.attributes else ""
        if len(content) == 1 and content[0].name == "ref":
            reference = _reference(content[0])
        shared = self._by_id.get(reference[1:])
        if reference and name in _LISTS:
            if shared is None:
                self._undefined(given, name, reference)
            content, reference = [shared], ""
        inner.pop(name, None)
        bean.attributes.pop(name, None)
        if name == "properties" and bean.name in _FACTORIES:
            bean.attributes |= _properties(given)
        elif "value" in given.attributes:
            bean.attributes[name] = given.attributes["value"]
        elif reference:
            bean.attributes[name] = reference
        elif len(content) == 1 and content[0].name == "value":
            bean.attributes[name] = "".join(content[0].pieces)
        elif content and content[0].name != "null" and name in TYPES.get(bean.name, {}):
            text = f"{name} is not carried over: only Spring computes {described(content[0])}; write its value"
            self._imported.note(content[0].line, text)
        elif content and content[0].name != "null":
            inner[name] = Element(NAMESPACE, name, {}, given.line, _without_list(content))

    def referred(
        self, element: Element, name: str, reference: Value | None, wanted: tuple[str, ...] = ()
    ) -> Iterator[Element]:
        """Yield the bean that an attribute refers to as ``#id``."""
        if reference is None:
            return
        text = str(reference)
        if text[:1] != "#":
            self.refuse(
                element, f"{name}={text!r} is not a reference such as #id; write <{name}> with an element inside"
            )
        found = self._by_id.get(text.removeprefix("#"))
        bean = None if found is None else self.as_element(found)
        if found is None:
            self._undefined(element, name, text)
        elif bean is None:
            self._imported.note(found.line, f"{described(found)} {_FOREIGN}")
        elif wanted and bean.name not in wanted:
            self._imported.note(bean.line, f"<{bean.name}> is not carried over: there is no equivalent")
        else:
            yield bean

    def _undefined(self, element: Element, name: str, reference: str) -> NoReturn:
        problem = f"{name} refers to {reference!r}, which this file does not define"
        if self._hint:
            raise MigrationError(self._imported.name, problem + self._hint, element.line)
        raise refused(element, self._imported.name, problem)

    def refuse(self, element: Element, problem: str) -> None:
        """Report that the broker refuses the file.

        Raises:
            MigrationError: always.
        """
        raise refused(element, self._imported.name, problem)

    def _check(self, root: Element) -> None:
        """Check the whole file against the schema, as the broker does before it reads any element."""
        check_structure(root, self._imported.name)
        for element in root.walk():
            if not element.namespace.startswith(NAMESPACE):
                continue
            if element.name in PROPERTIES and not element.attributes:
                known = names("activemq", "elements")
                self._check_children(element, {each: known.get(each, "") for each in PROPERTIES[element.name]})
            elif element.name in TYPES and (element.attributes or element.name not in _OF_OTHERS):
                # Without attributes it may be a property with the name of a bean, which contains beans.
                self._check_attributes(element)
                self._check_children(element, names("activemq", f"{element.name} children"))
            if element.name == "plugins":
                for plugin in element.children:
                    self._note_version(plugin, f"<{plugin.name}>", names("activemq", "plugins").get(plugin.name))

    def _check_attributes(self, element: Element) -> None:
        known = names("activemq", element.name)
        for attribute, text in element.attributes.items():
            kind = TYPES[element.name].get(attribute, "string")
            if attribute in known:
                self._note_version(element, attribute, known[attribute])
            elif element.name == "broker":
                self._imported.note(
                    element.line,
                    f"{attribute} of <broker> is left out: {known_versions('activemq')} do not know it and do not load "
                    "the file",
                )
            else:
                self.refuse(element, f"<{element.name}> has no attribute {attribute}")
            if not valid(text, kind) and not (self._configured and "${" in text):
                self.refuse(element, f"{attribute}={text!r} is not of the type {kind}")

    def _check_children(self, element: Element, known: Mapping[str, str]) -> None:
        """Check that children are allowed; ``known``: those that are, each with the versions that know it."""
        for child in element.children:
            if child.namespace != element.namespace:
                continue
            if child.name not in known:
                self.refuse(child, f"<{child.name}> is not allowed in <{element.name}>")
            self._note_version(child, f"<{child.name}>", known[child.name])

    def _note_version(self, element: Element, what: str, versions: str | None) -> None:
        if versions is not None and not self._version.has(versions):
            self._imported.note(
                element.line,
                f"{what} is a setting of ActiveMQ Classic {in_words(versions)}; {self._version} does not load the file",
            )

    def _check_placeholders(self, root: Element) -> None:
        """Check that every placeholder has a value, also outside of what is carried over, as Spring does.

        If other files define properties, only what is carried over needs values.

        Raises:
            MigrationError: some have none; it names all of them.
        """
        waiting, missing = [root], dict[str, int]()
        on_top = {id(each) for each in top_level(root)}
        while waiting:
            element = waiting.pop()
            if _is_configurer(element):
                continue
            waiting += reversed(element.children)
            ours = element.namespace.startswith(NAMESPACE)
            known = self.as_element(element) if self._elsewhere else None
            if known is not None and (
                known.name in TYPES or (ours and known.name in _DESTINATIONS and id(element) not in on_top)
            ):
                texts = list(known.attributes.values())
            elif known is not None and known.name in _FACTORIES:
                texts = list(read_of_factory(known).attributes.values())
            elif not self._elsewhere and (ours or element.namespace == SPRING):
                left = {"id"} if ours else _NEVER_REPLACED
                texts = [text for name, text in element.attributes.items() if name not in left]
                texts.append(element.text if element.name == "value" else "")
            else:
                texts = []
            for text in texts:
                for name in missing_names(text, self._properties):
                    missing.setdefault(name, element.line)
                if not missing:
                    self._resolved(element, text)
        if missing:
            self._needs(missing)

    def _needs(self, missing: Mapping[str, int]) -> None:
        options = " ".join(f"--property {name}=VALUE" for name in missing)
        problem = f"needs a value for {', '.join(missing)}: set it with {options}"
        raise MigrationError(self._imported.name, problem, min(missing.values()))

    def _resolved(self, element: Element, text: str) -> str:
        if not self._configured or "${" not in text:
            return text
        for name in [name for name in self._assumed if f"${{{name}" in text]:
            self._imported.note(
                element.line,
                f"{name}, which the broker's start script sets, is taken to be {self._assumed.pop(name)!r}: set "
                f"another value with --property {name}=VALUE",
            )
        try:
            found = spring_text(text, self._properties)
        except PlaceholderError as error:
            problem = str(error)
            if error.missing is not None:
                if self._lenient:
                    return text
                self._needs({error.missing: element.line})
            raise MigrationError(self._imported.name, problem, element.line) from None
        self._added += max(0, len(found) - len(text))
        if self._added > MAX_CHARACTERS:
            raise MigrationError(self._imported.name, TOO_LONG, element.line)
        return found

    def _defined(self, name: str | None) -> dict[str, str]:
        """Return the properties of ``<util:properties>``."""
        element = self._by_id.pop(name or "", None)  # they are nothing else, and need not be read again
        if element is None:
            return {}
        self._note_made(element)
        return _properties(element)

    def _note_made(self, setting: Element) -> None:
        """Note that properties that a class makes are not known, so that only what is carried over needs values."""
        for bean in (each for each in setting.walk() if each.name == "bean"):
            self._elsewhere = True
            self._imported.note(bean.line, f"properties of {described(bean)} are not read: set them with --property")

    def _configurers(self, root: Element) -> dict[str, str]:
        """Return the properties that the file defines, and find out whether and how Spring replaces placeholders."""
        found: dict[str, str] = {}
        for bean in filter(_is_configurer, top_level(root)):
            self._configured = True
            for setting in bean.all("property"):
                name = setting.attributes.get("name", "")
                self._elsewhere |= name == READ
                if name in {"properties", "localProperties", READ}:
                    found |= self._defined(setting.attributes.get("ref")) | _properties(setting)
                    self._note_made(setting)
                elif name in _LOCATIONS:
                    self._elsewhere = True
                    self._imported.note(
                        setting.line, "properties of other files are not read: set them with --property"
                    )
                elif name in {"placeholderPrefix", "placeholderSuffix", "valueSeparator"}:
                    self._imported.note(
                        setting.line,
                        f"{name} is not carried over: only placeholders like ${{name:default}} are replaced",
                    )
                elif name == "ignoreUnresolvablePlaceholders":
                    self._lenient = (setting.attributes.get("value") or "").strip() == "true"
        for element in (each for each in top_level(root) if each.name == "property-placeholder"):
            self._configured = True
            self._lenient |= element.attributes.get("ignore-unresolvable", "").strip() == "true"
            found |= self._defined(element.attributes.get("properties-ref")) | _properties(element)
            beside = element.attributes.get("name") == READ
            self._elsewhere |= beside
            if not beside and ("properties-ref" not in element.attributes or "location" in element.attributes):
                self._elsewhere = True
                self._imported.note(element.line, "properties of other files are not read: set them with --property")
        if not self._configured and not any(map(_is_broker, root.walk())):
            self._configured = self._elsewhere = True  # the program of a client, too, can replace placeholders
        return found


def _is_broker(element: Element) -> bool:
    of_class = element.attributes.get("class", "").rpartition(".")[2] if element.name == "bean" else ""
    return element.name == "broker" or _CLASSES.get(of_class) == "broker"


def locations(root: Element) -> Iterator[Element]:
    """Yield the elements that name files with the values of placeholders."""
    for element in root.walk():
        if element.name == "property-placeholder" and "location" in element.attributes:
            yield element
        elif _is_configurer(element):
            yield from (each for each in element.all("property") if each.attributes.get("name") in _LOCATIONS)


def described(element: Element) -> str:
    """Return an element's name, and the class of a bean, for notes."""
    of_class = element.attributes.get("class")
    return f"<{element.name}>" if of_class is None else f"<{element.name} class={of_class!r}>"


def of_activemq(element: Element) -> bool:
    """Whether an element concerns ActiveMQ or the values of placeholders, or imports a file that may."""
    of_class = element.attributes.get("class", "").rpartition(".")[2]
    ours = element.namespace.startswith(NAMESPACE) or element.name in {"property-placeholder", IMPORT}
    return ours or of_class in _CLASSES or of_class in _WITH_URI or _is_configurer(element)


def _is_configurer(element: Element) -> bool:
    return element.name == "bean" and element.attributes.get("class", "").endswith(_CONFIGURERS)


def _without_list(children: list[Element]) -> list[Element]:
    return children[0].children if len(children) == 1 and children[0].name in _COLLECTIONS else children


def _reference(element: Element) -> str:
    """Return what a ``<ref>`` refers to; ``local`` and ``parent`` are of Spring 3 and earlier."""
    given = element.attributes
    return f"#{next((given[key] for key in ('bean', 'local', 'parent', 'component-id') if key in given), '')}"


def _names(element: Element) -> list[str]:
    """Return the names by which references find a bean."""
    names_of = _SEPARATORS.split(element.attributes.get("name", "")) if element.name == "bean" else []
    return [name for name in (element.attributes.get("id", ""), *names_of) if name]


def _references(element: Element) -> Iterator[str]:
    for key, text in element.attributes.items():
        if text[:1] == "#":
            yield text[1:]
        elif key in {"ref", "parent"} or key.endswith("-ref") or element.name == "ref":
            yield text


def _properties(setting: Element) -> dict[str, str]:
    found = read_properties(setting.attributes.get("value", ""))
    for element in setting.walk():
        if element.name == "value":
            found |= read_properties("".join(element.pieces))
        elif element.name == "prop":
            found[element.attributes.get("key", "")] = element.text
        elif element.name == "property" and element is not setting:  # of Blueprint
            found[element.attributes.get("name", "")] = element.attributes.get("value", element.text)
        elif element.name == "entry":
            found[element.attributes.get("key", "")] = element.attributes.get("value", element.text)
    return found
