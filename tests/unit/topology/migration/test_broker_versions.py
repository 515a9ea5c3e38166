"""Files of all versions of the brokers are read; a note says what a version does not know."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.broker_names import ranges
from kafka_redelivery.topology.migration.broker_xml import ADDRESS_SETTING, CHOICES, CORE
from kafka_redelivery.topology.migration.classic_beans import TYPES
from kafka_redelivery.topology.migration.connection_uri import is_connection_uri, read_connection_uri
from kafka_redelivery.topology.migration.conversion import broker_version, read_broker_configuration
from kafka_redelivery.topology.migration.names import VERSIONS
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import MigrationError
from kafka_redelivery.topology.migration.versions import BrokerVersion, names
from tests.parity.importing import Migrated

ARTEMIS = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{}<address-settings>
    <address-setting match="#"><max-delivery-attempts>4</max-delivery-attempts>{}</address-setting></address-settings>
    </core></configuration>"""
CLASSIC = """<beans xmlns="http://www.springframework.org/schema/beans">
    <broker xmlns="http://activemq.apache.org/schema/core" {}><destinationPolicy><policyMap><policyEntries>
    <policyEntry queue=">" {}><deadLetterStrategy><individualDeadLetterStrategy queuePrefix="D."/></deadLetterStrategy>
    </policyEntry></policyEntries></policyMap></destinationPolicy><plugins>{}</plugins></broker></beans>"""


def read(text: str, version: str | None = None) -> str:
    """Import the file and return its notes."""
    imported = read_broker_configuration(text.encode(), "broker.xml", PlaceholderValues(), version)
    assert imported.section["address-settings" if imported.dialect == "artemis" else "policyEntries"]
    return "\n".join(map(str, imported.notes))


@pytest.mark.parametrize(
    ("core", "lacking", "having"),
    [
        ("<purge-page-folders>true</purge-page-folders>", "2.42.0", "2.43.0"),
        ("<uuid-namespace>a</uuid-namespace>", "2.40.0", "2.56.0"),
        ("<mqtt-subscription-persistence-enabled>true</mqtt-subscription-persistence-enabled>", "2.40.0", "2.42.0"),
        ('<lock-coordinators><lock-coordinator name="a"/></lock-coordinators>', "2.44.0", "2.51.0"),
        ("<jmx-notification-enabled>true</jmx-notification-enabled>", "2.50.0", "2.55.0"),
        ("<journal-lock-monitor-timeout>1</journal-lock-monitor-timeout>", "2.55.0", "2.56.0"),
        ("<journal-lock-monitor-max-retries>1</journal-lock-monitor-max-retries>", "2.55.0", "2.56.0"),
        ('<broker-balancers><broker-balancer name="a"/></broker-balancers>', "2.21.0", "2.20.0"),
    ],
)
def test_settings_of_some_versions_of_artemis(core: str, lacking: str, having: str) -> None:
    """They are read whatever the version is, with a note for a version that does not know them."""
    assert "does not load the file" in read(ARTEMIS.format(core, ""), lacking)
    assert "does not load the file" not in read(ARTEMIS.format(core, ""), having)
    assert read(ARTEMIS.format(core, "")) == read(ARTEMIS.format(core, ""), "2.56.0")


def test_a_newer_address_setting_is_not_carried_over() -> None:
    """A note names it, as it names others that Kafka has no need of."""
    text = ARTEMIS.format("", "<disk-full-policy>BLOCK</disk-full-policy>")
    assert "disk-full-policy=BLOCK is not carried over" in read(text)
    assert "2.50 and later; Artemis 2.40 does not load the file" in read(text, "2.40")


def test_what_no_version_knows() -> None:
    """It is left out where it cannot concern redelivery, and refused where it can."""
    notes = read(ARTEMIS.format("<flux-capacitor>1</flux-capacitor>", ""))
    assert "broker.xml:1: <flux-capacitor> is left out: Artemis 2.0 to 2.56 do not know it" in notes
    assert "fluxCapacitor of <broker> is left out" in read(CLASSIC.format('fluxCapacitor="1"', "", ""))
    for text in (
        ARTEMIS.format("", "<max-delivery-attemps>5</max-delivery-attemps>"),
        CLASSIC.format("", 'fluxCapacitor="1"', ""),
        CLASSIC.format("", "", "<fluxPlugin/>"),
    ):
        with pytest.raises(MigrationError, match="the broker refuses the file"):
            read(text)


@pytest.mark.parametrize(
    ("broker", "entry", "plugin", "lacking", "having"),
    [
        ("", 'advancedMessageStatisticsEnabled="true"', "", "5.18.6", "5.19.1"),
        ("", 'allowTempDestinationStealing="true"', "", "6.1.8", "6.2.7"),
        ('virtualThreadTaskRunner="true"', "", "", "5.19", "6.2"),
        ('maxInflatedDataSize="1000"', "", "", "5.18", "5.19.8"),
        ('destroyApplicationContextOnStop="true"', "", "", "5.18", "5.3.1"),
        ('masterConnectorURI="tcp://a:1"', "", "", "6.3", "5.7"),
        ('supportFailOver="true"', "", "", "6.3", "5.11"),
        ("", "", "<camelRoutesBrokerPlugin/>", "5.17", "5.16"),
        ("", "", "<partitionBrokerPlugin/>", "6.0", "5.19"),
    ],
)
def test_settings_of_some_versions_of_classic(broker: str, entry: str, plugin: str, lacking: str, having: str) -> None:
    """They are read whatever the version is, with a note for a version that does not know them."""
    text = CLASSIC.format(broker, entry, plugin)
    assert "does not load the file" in read(text, lacking)
    assert "does not load the file" not in read(text, having)
    assert read(text) == read(text, "6.3.1")


@pytest.mark.parametrize(
    "option",
    ["strictCompliance=true", "requestTimeout=5", "maxInflatedDataSizeRatio=9.5", "useVirtualThreadTaskRunner=true"],
)
def test_options_of_newer_clients(option: str) -> None:
    """They do not hinder the import of a policy; a note says which clients cannot connect with them."""
    uri = f"tcp://a:1?jms.{option}&jms.redeliveryPolicy.maximumRedeliveries=4"
    imported = read_connection_uri(uri)
    assert imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}
    assert "cannot connect" not in str(imported.notes)
    assert "ActiveMQ Classic 5.18 cannot connect" in str(
        read_connection_uri(uri, broker_version("activemq", "5.18")).notes
    )


@pytest.mark.parametrize(("broker", "version"), [("artemis", "5.18"), ("activemq", "2.40"), ("artemis", "new")])
def test_a_version_that_does_not_exist(broker: str, version: str) -> None:
    """The error names the option."""
    with pytest.raises(MigrationError, match=r"^--broker-version: "):
        broker_version(broker, version)


@pytest.mark.parametrize(
    ("versions", "number", "expected"),
    [
        ("", "1.0", True),
        ("2.18-2.20", "2.17", False),
        ("2.18-2.20", "2.18", True),
        ("2.18-2.20", "2.21", False),
        ("2.43-", "2.57", True),
        ("-5.7", "5.8", False),
        ("5.0", "5.1", False),
        ("5.18-5.19 6.2-", "6.1", False),
        ("5.18-5.19 6.2-", "6.3", True),
    ],
)
def test_ranges_of_versions(versions: str, number: str, expected: bool) -> None:  # noqa: FBT001
    """Both ends belong to a range."""
    major, minor = map(int, number.split("."))
    assert BrokerVersion("artemis", (major, minor)).has(versions) is expected


def test_the_table_has_names_of_all_versions() -> None:
    """Of the first and of the last."""
    assert names("activemq", "broker")["clustered"] == "5.0"
    assert names("artemis", "core")["journal-lock-monitor-timeout"] == "2.56-"


@given(st.data())
def test_a_range_is_that_of_the_versions_that_it_was_made_of(data: st.DataObject) -> None:
    """Of each known version, and of one that is released later as of the last."""
    broker = data.draw(st.sampled_from(sorted(VERSIONS)))
    known = VERSIONS[broker].split()
    found = data.draw(st.sets(st.sampled_from(known), min_size=1))
    text = ranges(found, known)
    assert {each for each in known if BrokerVersion.of(broker, each).has(text)} == found
    major, minor = map(int, known[-1].split("."))
    assert BrokerVersion(broker, (major, minor + 1)).has(text) == (known[-1] in found)


def test_elements_of_classic_have_versions_too() -> None:
    """A version that does not know one does not load the file."""
    text = CLASSIC.format("", "", "").replace(
        '<individualDeadLetterStrategy queuePrefix="D."/>', '<discarding enableAudit="false"/>'
    )
    assert "<discarding> is a setting of ActiveMQ Classic" in read(text, "5.4")
    assert "<discarding>" not in read(text, "5.18")


@pytest.mark.parametrize(
    "text",
    ["<purge-page-folders>5</purge-page-folders>", "<journal-lock-monitor-timeout>x</journal-lock-monitor-timeout>"],
)
def test_newer_settings_have_types(text: str) -> None:
    """The broker refuses the file."""
    with pytest.raises(MigrationError, match="is not of the type"):
        read(ARTEMIS.format(text, ""))


def test_a_secret_is_hidden_however_its_option_is_written() -> None:
    """Java ignores the case of the first letter."""
    for option in ("password", "Password", "userName", "UserName"):
        assert "hunter2" not in str(read_connection_uri(f"tcp://a:1?jms.{option}=hunter2").notes)


def test_options_of_policies_have_versions_too() -> None:
    """As those of the factory."""
    uri = "tcp://a:1?jms.redeliveryPolicy.preDispatchCheck=true"
    assert "5.4 cannot connect with it" in str(read_connection_uri(uri, broker_version("activemq", "5.4")).notes)
    assert "cannot connect" not in str(read_connection_uri(uri).notes)


def test_the_namespace_of_the_first_versions() -> None:
    """A file with it is read for these versions; for others the error says how."""
    text = CLASSIC.format("", "", "").replace("activemq.apache.org/schema/core", "activemq.org/config/1.0")
    assert read(text, "5.2") == ""
    for version in (None, "5.3.2"):
        with pytest.raises(MigrationError, match=r"is of 5\.0 to 5\.2: add --broker-version 5\.2"):
            read(text, version)


class TestQpid:
    """The two settings of the redelivery policy of Qpid JMS."""

    @pytest.mark.parametrize(
        ("uri", "limit", "note"),
        [
            (
                "amqp://a:1?jms.redeliveryPolicy.maxRedeliveries=4",
                4,
                "after 5 deliveries the outcome is MODIFIED_FAILED",
            ),
            ("amqps://a:1?jms.redeliveryPolicy.maxRedeliveries=0&jms.redeliveryPolicy.outcome=2", 0, "REJECTED"),
            (
                "failover:(amqp://a:1)?jms.redeliveryPolicy.maxRedeliveries=1&jms.redeliveryPolicy.outcome=ACCEPTED",
                1,
                "lost",
            ),
            ("amqp://a:1?jms.username=a&jms.redeliveryPolicy.outcome=5", -1, "the broker's file decides"),
        ],
    )
    def test_the_policy_of_qpid_jms(self, uri: str, limit: int, note: str) -> None:
        """It has a limit and an outcome, and no delays."""
        ours = Migrated(uri)
        policy = ours.imported.section["redeliveryPolicy"]
        assert policy == {"maximumRedeliveries": limit, "initialRedeliveryDelay": 0, "redeliveryDelay": 0}
        assert note in ours.notes
        assert "fails to connect" not in ours.notes

    @pytest.mark.parametrize("option", ["maxRedeliveries=x", "outcome=6", "outcome=none"])
    def test_what_qpid_jms_refuses(self, option: str) -> None:
        """The policy has no such value."""
        with pytest.raises(MigrationError, match="the client refuses the URI"):
            read_connection_uri(f"amqp://a:1?jms.redeliveryPolicy.{option}")


VALUES = {"boolean": "true", "int": "1", "long": "1", "bytes": "1", "double": "1", "string": "a"}


@pytest.mark.parametrize("version", VERSIONS["artemis"].split())
def test_a_file_with_all_names_of_a_version_of_artemis(version: str) -> None:
    """It is imported without a note that the version does not know a name; what is left out is named."""
    known = BrokerVersion.of("artemis", version)

    def elements(container: str) -> Iterator[str]:
        for name, versions in names("artemis", container).items():
            if known.has(versions) and name not in {"address-settings", "wildcard-addresses", "max-delivery-attempts"}:
                kind = CORE if container == "core" else ADDRESS_SETTING
                text = min(CHOICES[name]) if name in CHOICES else VALUES[kind.get(name, "string")]
                yield f"<{name}>{'((' if name == 'literal-match-markers' else text}</{name}>"

    notes = read(ARTEMIS.format("".join(elements("core")), "".join(elements("address-setting"))), version)
    assert "does not load" not in notes
    assert "because they concern the broker itself: " in notes
    assert notes.count("acceptors") == 1


@pytest.mark.parametrize("version", VERSIONS["activemq"].split())
def test_a_file_with_all_names_of_a_version_of_classic(version: str) -> None:
    """It is imported without a note that the version does not know a name; each name that is left out has one."""
    known = BrokerVersion.of("activemq", version)
    left_out = {
        "id",
        "deadLetterStrategy",
        "destination",
        "destinationPolicy",
        "queue",
        "topic",
        "tempQueue",
        "tempTopic",
    }

    def attributes(element: str) -> Iterator[str]:
        for name, versions in names("activemq", element).items():
            kind = TYPES[element].get(name, "string")
            if known.has(versions) and name not in left_out:
                yield f'{name}="{"true" if kind in {"boolean", "editor"} else "1"}"'

    broker, entry = list(attributes("broker")), list(attributes("policyEntry"))
    notes = read(CLASSIC.format(" ".join(broker), " ".join(entry), ""), version)
    assert "does not load" not in notes
    assert [each for each in (*broker, *entry) if f"{each.partition('=')[0]}=" not in notes] == [
        each for each in (*broker, *entry) if each.partition("=")[0] in {"brokerName", "schedulerSupport"}
    ]


@pytest.mark.parametrize(
    ("uri", "whose"),
    [
        ("amqp://a:5672", "Qpid JMS"),
        ("failover:(amqps://a:1,amqps://b:1)?jms.prefetchPolicy.all=5", "Qpid JMS"),
        ("(tcp://a:1,tcp://b:1)?ha=true&reconnectAttempts=-1", "Artemis's client"),
    ],
)
def test_a_client_whose_broker_decides(uri: str, whose: str) -> None:
    """It has no policy of its own, so that the broker's file is needed."""
    assert is_connection_uri(uri)
    imported = read_connection_uri(uri)
    assert imported.section == {"redeliveryPolicy": {}}
    (note,) = (each.text for each in imported.notes)
    assert whose in note
    assert "import" in note


def test_a_uri_with_a_placeholder_is_named() -> None:
    """The error says what to write."""
    with pytest.raises(MigrationError, match=r"has the placeholder \$\{HOST\}: write its value"):
        read_connection_uri("failover:(tcp://${HOST}:61616)")
