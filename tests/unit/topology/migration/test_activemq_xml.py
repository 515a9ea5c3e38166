"""Importing an ``activemq.xml`` in its many forms, and refusing what the broker refuses."""

import pytest

from kafka_redelivery.topology.migration.conversion import read_broker_configuration
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import Imported, MigrationError
from tests.parity.importing import Migrated

SPRING = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"
CONFIGURER = "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"


def document(broker: str, *, before: str = "", after: str = "", attributes: str = "") -> str:
    """A file with this content of ``<broker>``."""
    return (
        f'<beans xmlns="{SPRING}" xmlns:amq="{CORE}">{before}\n'
        f'<broker xmlns="{CORE}" brokerName="b" {attributes}>{broker}</broker>{after}</beans>'
    )


def read(text: str, **values: str) -> Imported:
    """Import the file."""
    return read_broker_configuration(text.encode(), "activemq.xml", PlaceholderValues(values))


def policies(entries: str) -> str:
    """A policy map."""
    return f"<destinationPolicy><policyMap><policyEntries>{entries}</policyEntries></policyMap></destinationPolicy>"


def entry(attributes: str, content: str = "") -> str:
    """A policy map with one entry."""
    return policies(f"<policyEntry {attributes}>{content}</policyEntry>")


def strategy(name: str, value: str) -> str:
    """An individual strategy with one property."""
    return f'<deadLetterStrategy><individualDeadLetterStrategy {name}="{value}"/></deadLetterStrategy>'


def redelivery(policy: str) -> str:
    """A redelivery plugin with one policy."""
    entries = f"<redeliveryPolicyEntries>{policy}</redeliveryPolicyEntries>"
    inner = f"<redeliveryPolicyMap><redeliveryPolicyMap>{entries}</redeliveryPolicyMap></redeliveryPolicyMap>"
    return f"<plugins><redeliveryPlugin>{inner}</redeliveryPlugin></plugins>"


def dead_letters(text: str) -> str:
    """The destination of the dead letters of a queue."""
    return str(Migrated(text).explain("orders.eu")["dead_letter_strategy"]["dead_letter_destination"])


@pytest.mark.parametrize(
    ("before", "uri", "values", "url"),
    [
        ("", "stomp://0.0.0.0:61613?trace=true", {}, "stomp://HOST:61613"),
        ("", "stomp+nio+ssl://[::1]:61614", {}, "stomp+ssl://HOST:61614"),
        ("", "stomp://0.0.0.0:${port:7}", {}, "stomp://HOST:PORT"),
        (f'<bean class="{CONFIGURER}"/>', "stomp://${host:a}:${port:61615}", {}, "stomp://HOST:61615"),
        (f'<bean class="{CONFIGURER}"/>', "${scheme}://a:${port}", {"scheme": "auto", "port": "7"}, "stomp://HOST:7"),
        (
            f'<bean class="{CONFIGURER}"><property name="location" value="a"/></bean>',
            "stomp://a:${port}/",
            {},
            "stomp://HOST:PORT",
        ),
    ],
)
def test_the_connector_of_stomp(before: str, uri: str, values: dict[str, str], url: str) -> None:
    """With its placeholders replaced; a port that another file has is not known."""
    connector = f'<transportConnectors><transportConnector uri="{uri}"/></transportConnectors>'
    assert read(document(connector, before=before), **values).stomp == [url]


BEAN = (
    f'<deadLetterStrategy><bean xmlns="{SPRING}" class="org.apache.activemq.broker.region.policy.'
    'IndividualDeadLetterStrategy"><property name="queuePrefix" value="B."/></bean></deadLetterStrategy>'
)
NESTED = "<destination><queue physicalName='orders.&gt;'/></destination>"
REFERRED = '<amq:individualDeadLetterStrategy id="s" queuePrefix="R."/>'
GRAVE = '<deadLetterQueue><topic physicalName="t"/></deadLetterQueue>'
SHARED = f"<deadLetterStrategy><sharedDeadLetterStrategy>{GRAVE}</sharedDeadLetterStrategy></deadLetterStrategy>"
PREFIX = strategy("queuePrefix", "D.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(document(entry('queue="orders.>"', PREFIX)), "queue:D.orders.eu", id="attribute"),
        pytest.param(document(entry("", NESTED + PREFIX)), "queue:D.orders.eu", id="element"),
        pytest.param(document(entry('queue="A,orders.>"', PREFIX)), "queue:D.orders.eu", id="composite"),
        pytest.param(document(entry('queue=">"', BEAN)), "queue:B.orders.eu", id="bean"),
        pytest.param(
            document(entry('queue=">" deadLetterStrategy="#s"'), after=REFERRED), "queue:R.orders.eu", id="reference"
        ),
        pytest.param(document(entry('queue=">"', SHARED)), "topic:t", id="a topic of its own"),
    ],
)
def test_a_strategy_in_each_of_its_forms(text: str, expected: str) -> None:
    """Each is read as the broker reads it."""
    assert dead_letters(text) == expected


@pytest.mark.parametrize(
    "broker",
    [
        policies('<policyEntry queue=">" processExpired="true"/>'),
        policies("<policyEntry/>"),
        policies('<policyEntry queue=" "/>'),
        policies('<policyEntry destination="queue://a"/>'),
        policies('<policyEntry queue=">"><deadLetterStrategy/></policyEntry>'),
        policies('<policyEntry queue=">"><deadLetterStrategy><policyEntry/></deadLetterStrategy></policyEntry>'),
        policies('<redeliveryPolicy queue=">"/>'),
        policies('<policyEntry queue=">" deadLetterStrategy="#nowhere"/>'),
        entry('queue=">"', strategy("expiration", "1.5")),
        entry('queue=">"', strategy("maxAuditDepth", "99999999999")),
        redelivery('<redeliveryPolicy queue=">" backOffMultiplier="INF"/>'),
        redelivery('<redeliveryPolicy queue=">" collisionAvoidancePercent="40000"/>'),
        redelivery('<redeliveryPolicy queue=">" collisionAvoidanceFactor="0.2"/>'),
        redelivery('<redeliveryPolicy maximumRedeliveries="3"/>'),
        "<destinationPolicy><destinationPolicy/></destinationPolicy>",
        "<plugins><nonsense/></plugins>",
        "<nonsense/>",
    ],
)
def test_a_file_that_the_broker_refuses(broker: str) -> None:
    """The error has the line."""
    with pytest.raises(MigrationError, match="the broker refuses the file") as caught:
        read(document(broker))
    assert caught.value.location == "activemq.xml:2"


@pytest.mark.parametrize("namespace", ["http://example.com/x", "http://activemq.org/config/1.0", ""])
def test_a_broker_of_another_namespace_is_refused(namespace: str) -> None:
    """Also if it is the root of the file."""
    for text in (f'<broker xmlns="{namespace}"/>', f'<beans xmlns="{SPRING}"><broker xmlns="{namespace}"/></beans>'):
        with pytest.raises(MigrationError, match="contains no <broker"):
            read(text)


def test_settings_that_are_not_carried_over_have_notes() -> None:
    """Each attribute and element that is not carried over has a note with its line and a reason."""
    text = document(
        policies('<policyEntry queue=">" memoryLimit="1mb" lazyDispatch="true"><pendingQueuePolicy/></policyEntry>')
        + "<plugins><timeStampingBrokerPlugin/></plugins><transportConnectors/>",
        attributes='useJmx="true"',
    )
    notes = [str(note) for note in read(text).notes]
    for what in (
        "memoryLimit=1mb",
        "lazyDispatch=true",
        "<pendingQueuePolicy>",
        "<timeStampingBrokerPlugin>",
        "<transportConnectors>",
        "useJmx",
    ):
        assert any(what in note and "not carried over: " in note for note in notes), what
    assert all(note.startswith("activemq.xml:") for note in notes)


def test_an_entry_for_a_queue_and_a_topic_is_for_the_topic() -> None:
    """Spring sets them in alphabetical order; a note says so."""
    imported = read(document(policies('<policyEntry topic=">" queue=">"/>')))
    assert imported.section["policyEntries"] == [{"topic": ">"}]
    assert any("more than one target" in note.text for note in imported.notes)


def test_the_value_of_temp_queue_is_ignored() -> None:
    """An entry with tempQueue="false" is for temporary queues, as in the broker."""
    assert read(document(policies('<policyEntry tempQueue="false"/>'))).section["policyEntries"] == [
        {"tempQueue": True}
    ]


def test_an_entry_that_names_a_temporary_destination_is_left_out() -> None:
    """The broker generates such names, so that it matches none; one with wildcards matches all of them."""
    named = '<policyEntry><destination><tempQueue physicalName="A"/></destination></policyEntry>'
    all_of_them = '<policyEntry><destination><tempTopic physicalName="&gt;"/></destination></policyEntry>'
    imported = read(document(policies(named + all_of_them)))
    assert imported.section["policyEntries"] == [{"tempTopic": True}]
    assert any("the broker generates those names" in note.text for note in imported.notes)
    with pytest.raises(MigrationError, match="has no destination"):
        read(document(policies("<policyEntry><destination><tempQueue/></destination></policyEntry>")))


def test_the_last_of_several_maps_is_used() -> None:
    """A property that is set twice has its last value."""
    first, second = (policies(f'<policyEntry queue="{name}"/>') for name in ("a", "b"))
    assert read(document(first + second)).section["policyEntries"] == [{"queue": "b"}]


class TestPlaceholders:
    """Placeholders of Spring, with a configurer in the file."""

    ENTRY = policies('<policyEntry queue="${q}"/>')

    def configured(self, properties: str, more: str = "") -> str:
        """A file with properties of its own."""
        value = f'<property name="properties"><value>{properties}</value></property>'
        return document(self.ENTRY, before=f'<bean class="{CONFIGURER}">{value}{more}</bean>')

    def queue(self, text: str, **values: str) -> str:
        """The queue of the entry."""
        return str(read(text, **values).section["policyEntries"][0]["queue"])

    def test_the_files_own_properties(self) -> None:
        """They are in the format of Java's properties."""
        assert self.queue(self.configured("# comment\n  q = a.\\\n   b")) == "a.b"

    def test_a_given_value_takes_precedence(self) -> None:
        """--property is for properties of other files."""
        assert self.queue(self.configured("q=own"), q="given") == "given"

    def test_without_a_configurer_placeholders_are_text(self) -> None:
        """They are not replaced, as in the broker."""
        assert self.queue(document(self.ENTRY)) == "${q}"
        assert Migrated(document(self.ENTRY)).explain("${q}")["policy_entry"] == "queue:${q}"

    def test_a_placeholder_without_a_value_is_refused(self) -> None:
        """Spring refuses it, too; the error has the option that sets the value."""
        with pytest.raises(MigrationError, match="--property q=VALUE"):
            read(self.configured("other=1"))

    @pytest.mark.parametrize(
        "part",
        [
            '<persistenceAdapter><kahaDB directory="${nope}/kahadb"/></persistenceAdapter>',
            '<transportConnectors><transportConnector name="${nope}" uri="tcp://0.0.0.0:1"/></transportConnectors>',
            f'<services><bean xmlns="{SPRING}"><property><value>${{nope}}</value></property></bean></services>',
        ],
    )
    def test_a_placeholder_without_a_value_is_refused_everywhere(self, part: str) -> None:
        """Also in elements that are not carried over, unless other files define properties."""
        with pytest.raises(MigrationError, match="--property nope=VALUE"):
            read(document(part, before=f'<bean class="{CONFIGURER}"/>'))
        location = '<property name="location" value="file:${nope}/x.properties"/>'
        for before in ("", f'<bean class="{CONFIGURER}">{location}</bean>'):
            assert read(document(part, before=before)).dialect == "activemq"

    def test_properties_of_the_start_script_have_values(self) -> None:
        """One note says which; a given value takes precedence."""
        text = document("", before=f'<bean class="{CONFIGURER}"/>', attributes='dataDirectory="${activemq.data}/a"')
        notes = [note.text for note in read(text).notes if "start script" in note.text]
        [note] = notes
        assert "taken to be 'data': set another value with --property activemq.data=VALUE" in note
        given = read(text, **{"activemq.data": "/var"}).notes
        assert [note.text for note in given] == [
            "dataDirectory=/var/a is not carried over: it is a setting of the broker itself"
        ]

    def test_other_files_have_a_note(self) -> None:
        """They are not opened."""
        more = '<property name="location" value="file:/etc/passwd"/>'
        notes = read(self.configured("q=a", more)).notes
        assert any("other files are not read" in note.text for note in notes)


def shared(attributes: str, target: str) -> str:
    """An entry with a shared strategy, which may name its queue."""
    inner = f"<deadLetterQueue>{target}</deadLetterQueue>" if target else ""
    found = f"<sharedDeadLetterStrategy {attributes}>{inner}</sharedDeadLetterStrategy>"
    return entry('queue=">"', f"<deadLetterStrategy>{found}</deadLetterStrategy>")


def test_the_queue_of_a_shared_strategy_is_an_element() -> None:
    """It takes precedence over an attribute, which alone cannot be converted; an empty name is refused."""
    assert dead_letters(document(shared('deadLetterQueue="X"', '<topic physicalName="lost"/>'))) == "topic:lost"
    for attributes, target in (('deadLetterQueue="X"', ""), ("", '<queue physicalName=""/>')):
        with pytest.raises(MigrationError, match="the broker refuses"):
            read(document(shared(attributes, target)))


@pytest.mark.parametrize("target", ["<tempQueue/>", '<topic name="lost"/>'])
def test_a_dead_letter_queue_without_a_name_is_ignored(target: str) -> None:
    """The broker would lose dead letters; here the default is used."""
    ours = Migrated(document(shared("", target)))
    assert "dead letters would be lost" in ours.notes
    assert ours.explain("q")["dead_letter_topic"] == "ActiveMQ.DLQ"


def test_a_temporary_dead_letter_queue_becomes_a_queue() -> None:
    """Kafka has no temporary topics; a note says so."""
    text = document(shared("", '<tempQueue physicalName="lost"/>'))
    assert dead_letters(text) == "queue:lost"
    assert any("no temporary topics" in note.text for note in read(text).notes)


def test_exact_destinations_become_sources() -> None:
    """The file lists them; a topic keeps its kind."""
    destinations = "<queue physicalName='a.b'/><topic physicalName='news/x'/><queue physicalName='c.*'/>"
    text = document(f"<destinations>{destinations}</destinations>")
    sources = [(source.topic, source.destination) for source in Migrated(text).settings.sources]
    assert sources == [("a.b", None), ("news_x", "topic:news/x")]


def test_of_a_repeated_property_the_last_one_counts() -> None:
    """XBean replaces the property; a note has the line of the other."""
    queues = '<destinations><queue physicalName="{}"/></destinations>'
    text = "<plugins><discardingDLQBrokerPlugin/></plugins><plugins><statisticsBrokerPlugin/></plugins>"
    imported = read(document(text + queues.format("a") + queues.format("b")))
    assert "plugins" not in imported.section
    assert imported.destinations == ["queue:b"]
    assert sum("the last one has an effect" in note.text for note in imported.notes) == 2


def test_a_destination_that_is_a_text_is_refused_with_the_fix() -> None:
    """Many examples on the web have it."""
    shared = '<deadLetterStrategy><sharedDeadLetterStrategy deadLetterQueue="D"/></deadLetterStrategy>'
    with pytest.raises(MigrationError, match="write <deadLetterQueue> with an element inside; the broker refuses"):
        read(document(entry('queue="A"', shared)))


def test_null_and_escaped_references() -> None:
    """``#null`` is no value, and ``##`` begins a text with ``#``."""
    inner = '<individualDeadLetterStrategy queuePrefix="##D." queueSuffix="#null"/>'
    inner = f"<deadLetterStrategy>{inner}</deadLetterStrategy>"
    imported = read(
        document(entry('queue="A"', inner) + policies('<policyEntry queue="B" deadLetterStrategy="#null"/>'))
    )
    assert imported.section["policyEntries"] == [{"queue": "B"}]
    imported = read(document(entry('queue="A"', inner)))
    strategy = {"individualDeadLetterStrategy": {"queuePrefix": "#D."}}
    assert imported.section["policyEntries"] == [{"queue": "A", "deadLetterStrategy": strategy}]


def test_a_placeholder_that_nothing_replaces_has_a_note() -> None:
    """The broker takes it as a name, too. A class that is not known is named."""
    imported = read(document(entry('queue="${q}"') + f'<plugins><bean xmlns="{SPRING}" class="a.Mine"/></plugins>'))
    notes = "\n".join(note.text for note in imported.notes)
    assert notes.count("${q} is taken as it is") == 1
    assert "<bean class='a.Mine'> is not carried over" in notes


@pytest.mark.parametrize(
    ("name", "word"), [("order*", "order*"), ("a.b>,c", "b>"), ("a.&gt;,topic://b.*", None), ("*.a.>", None)]
)
def test_a_wildcard_that_is_none_has_a_note(name: str, word: str | None) -> None:
    """It stands for a whole word; such an entry matches only its own name."""
    notes = [note.text for note in read(document(policies(f'<policyEntry queue="{name}"/>'))).notes]
    assert [text.partition(" is taken as it is")[0] for text in notes] == ([] if word is None else [repr(word)])


def test_a_listed_destination_has_neither_options_nor_blanks_in_its_name() -> None:
    """The broker removes both."""
    listed = '<queue physicalName=" a?consumer.prefetchSize=5"/><topic physicalName="b "/><queue physicalName="?x=y"/>'
    assert read(document(f"<destinations>{listed}</destinations>")).destinations == ["queue:a", "topic:b"]
