"""Sources of `redelivery import` that are more than one file, or none that it can read."""

from pathlib import Path

import pytest

from kafka_redelivery.cli.commands.importing import read_source
from kafka_redelivery.topology.migration.conversion import to_yaml
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import Imported, MigrationError

BROKER = """<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude">
<core xmlns="urn:activemq:core"><xi:include href="{}"/></core></configuration>"""
SETTINGS = """<address-settings xmlns="urn:activemq:core"><address-setting match="orders.#">
<max-delivery-attempts>4</max-delivery-attempts><redelivery-delay>100</redelivery-delay>
</address-setting></address-settings>"""
PROPERTIES = """# overrides
addressSettings."orders.#".redeliveryDelay=5000
addressSettings.news.maxDeliveryAttempts=2
addressSettings.news.redeliveryMultiplier=1.5
addressSettings.news.redeliveryDelay=soon
addressSettings.news.redeliveryCollisionAvoidanceFactor=7
addressSettings."#a".maxDeliveryAttempts=2
persistDeliveryCountBeforeDelivery=${persist:true}
maxDiskUsage=85
"""
BOOTSTRAP = """<broker xmlns="http://activemq.apache.org/schema">
<server configuration="file:/opt/a%20b/etc/broker.xml"/></broker>"""
SPRING = '<beans xmlns="http://www.springframework.org/schema/beans">{}</beans>'


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """The folder of an Artemis."""
    folder = tmp_path / "artemis" / "etc"
    folder.mkdir(parents=True)
    (folder / "broker.xml").write_text(BROKER.format("settings.xml"))
    (folder / "settings.xml").write_text(SETTINGS)
    (folder / "broker.properties").write_text(PROPERTIES)
    (folder / "bootstrap.xml").write_text(BOOTSTRAP)
    return folder


def read(path: Path, **values: str) -> Imported:
    """Import."""
    return read_source(str(path), PlaceholderValues(values))


def test_a_folder_with_properties_and_included_files(etc: Path) -> None:
    """All of it is read as the broker reads it, whatever of it is named; notes say what is left out."""
    for source in (etc, etc.parent, etc / "broker.xml", etc / "bootstrap.xml"):
        imported = read(source)
        assert imported.section["address-settings"] == [
            {"match": "orders.#", "max-delivery-attempts": 4, "redelivery-delay": 5000},
            {"match": "news", "max-delivery-attempts": 2, "redelivery-delay-multiplier": 1.5},
        ]
        assert imported.handler == {"persistDeliveryCountBeforeDelivery": True}
        notes = "\n".join(map(str, imported.notes))
        assert "broker.properties, which is beside the file, overrides it" in notes
        assert "not carried over from broker.properties, because they tune the broker: maxDiskUsage" in notes
        assert "redeliveryDelay=soon of broker.properties is left out: the broker refuses such a value" in notes
        assert 'addressSettings."#a".maxDeliveryAttempts of broker.properties is left out: its match' in notes
        assert "redeliveryCollisionAvoidanceFactor=7 of broker.properties is left out" in notes


def test_what_the_broker_reads_from_elsewhere_has_a_note(etc: Path) -> None:
    """A relative path is taken from where the broker is started, and JSON and YAML only with an option."""
    for name in ("broker.json", "broker.yaml", "logging.json"):
        (etc / name).write_text("{}")
    first, *rest = map(str, read(etc).notes)
    assert first.startswith("broker.xml:2: settings.xml is read from the folder of the file; the broker takes it from")
    assert [note.partition(": ")[2].partition(",")[0] for note in rest if "is not read" in note] == [
        "broker.json",
        "broker.yaml",
    ]


@pytest.mark.parametrize("key", ["wildCardConfiguration.delimiter=/", "literalMatchMarkers=()"])
def test_a_property_that_changes_all_matches_is_refused(etc: Path, key: str) -> None:
    """The matches of the file would mean something else; it says where to set it."""
    (etc / "broker.properties").write_text(key)
    with pytest.raises(MigrationError, match="changes what each match means"):
        read(etc)


def test_an_included_file_is_named_by_the_line_that_includes_it(etc: Path) -> None:
    """Its own lines are no lines of broker.xml."""
    (etc / "settings.xml").write_text(
        SETTINGS.replace("100", "soon").replace("<address-setting ", "\n\n\n<address-setting ")
    )
    with pytest.raises(MigrationError, match=r"^broker\.xml:2: "):
        read(etc)


def test_a_bootstrap_file_that_names_itself_is_no_broker(etc: Path) -> None:
    """It ends with an error."""
    (etc / "bootstrap.xml").write_text(BOOTSTRAP.replace("broker.xml", "bootstrap.xml"))
    with pytest.raises(MigrationError):
        read(etc / "bootstrap.xml")


def test_only_files_of_the_folder_are_included(etc: Path, tmp_path: Path) -> None:
    """Another one stays a note, and files that include each other are an error."""
    (tmp_path / "outside.xml").write_text(SETTINGS)
    (etc / "broker.xml").write_text(BROKER.format("../../outside.xml"))
    assert "<include> is not read: '../../outside.xml'" in str(read(etc).notes[0])
    (etc / "broker.xml").write_text(BROKER.format("broker.xml"))
    with pytest.raises(MigrationError, match="includes more than"):
        read(etc)


NESTED = """<address-settings xmlns="urn:activemq:core" xmlns:xi="http://www.w3.org/2001/XInclude">
<xi:include href="{}"/></address-settings>"""
ONE = '<address-setting xmlns="urn:activemq:core" match="{}"><redelivery-delay>7</redelivery-delay></address-setting>'


def test_an_included_file_includes_those_beside_it(etc: Path) -> None:
    """And not those beside broker.xml."""
    (etc / "broker.properties").unlink()
    (etc / "sub").mkdir()
    (etc / "sub" / "all.xml").write_text(NESTED.format("one%20a.xml"))
    (etc / "sub" / "one a.xml").write_text(ONE.format("beside"))
    (etc / "one a.xml").write_text(ONE.format("above"))
    for href in ("sub/all.xml", "file:sub/all.xml", "${artemis.instance.etc}/sub/all.xml", "${folder:sub}/all.xml"):
        (etc / "broker.xml").write_text(BROKER.format(href))
        assert [each["match"] for each in read(etc).section["address-settings"]] == ["beside"], href
    (etc / "broker.xml").write_text(BROKER.format("file://${artemis.instance}/etc/sub/all.xml"))
    assert [each["match"] for each in read(etc).section["address-settings"]] == ["beside"]
    assert "is started" not in str(read(etc).notes)
    (etc / "sub" / "all.xml").write_text(NESTED.format("../../../outside.xml"))
    assert "<include> is not read: '../../../outside.xml'" in str(read(etc).notes[0])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "include", ['<xi:include href = "a&amp;b.xml"/>', "<i:include\n xmlns:i='{}' href='a&#38;b.xml' />"]
)
def test_includes_are_found_in_the_parsed_file(etc: Path, include: str, encoding: str) -> None:
    """In whatever way XML allows to write them."""
    (etc / "broker.properties").unlink()
    include = include.format("http://www.w3.org/2001/XInclude")
    (etc / "broker.xml").write_text(BROKER.replace('<xi:include href="{}"/>', include), encoding=encoding)
    (etc / "a&b.xml").write_text(NESTED.replace('<xi:include href="{}"/>', ONE.format("x")), encoding=encoding)
    assert [each["match"] for each in read(etc).section["address-settings"]] == ["x"]


def test_a_path_that_no_file_can_have_is_an_error(etc: Path) -> None:
    """Of the import, and not of the program."""
    (etc / "broker.xml").write_text(BROKER.format("a%00b.xml"))
    with pytest.raises(MigrationError, match="cannot be read"):
        read(etc)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("standalone.xml", '<server xmlns="urn:jboss:domain:20.0"/>', "is a WildFly configuration"),
        ("artemis.yaml", "apiVersion: broker.amq.io/v1beta1\nkind: ActiveMQArtemis\nspec: {}\n", "Kubernetes resource"),
        ("broker.json", '{"addressSettings": {}}', "is JSON"),
        ("broker.yaml", "addressSettings: {}\n", "is YAML"),
        ("broker.properties", PROPERTIES, "is a file of properties"),
        ("a.properties", "quarkus.artemis.url=tcp://a:1\n", "that quarkus.artemis.url has"),
        ("application.properties", "spring.activemq.broker-url=tcp://a:1\n", "that spring.activemq.broker-url has"),
        (
            "application.yml",
            "spring:\n  activemq:\n    broker-url: tcp://a:1\n",
            "the connection URI that broker-url has",
        ),
        ("mq.tf", 'resource "aws_mq_configuration" "c" {\n  data = <<XML\n<broker xmlns="a"/>\n', "contains <broker>"),
        ("context.xml", "<Context/>", "give the connection URI"),
        ("part.xml", '<subsystem xmlns="urn:jboss:domain:messaging-activemq:15.0"/>', "a part of a WildFly"),
        (
            "config.yaml",
            "kind: ConfigMap\ndata:\n  broker.xml: |\n    <broker/>\n",
            "write that into a file of its own",
        ),
    ],
)
def test_other_configuration_is_named(tmp_path: Path, name: str, content: str, what: str) -> None:
    """The error says what the file is, and how to get one that can be imported."""
    (tmp_path / name).write_text(content)
    with pytest.raises(MigrationError, match=f"^{name}.*{what}"):
        read(tmp_path / name)


def test_a_folder_without_a_file_of_a_broker(tmp_path: Path) -> None:
    """The error has the names that were looked for."""
    with pytest.raises(MigrationError, match=r"is a folder without broker\.xml"):
        read(tmp_path)


@pytest.mark.parametrize("encoding", ["GBK", "GB2312", "GB18030", "Shift_JIS"])
def test_encodings_of_several_bytes(tmp_path: Path, encoding: str) -> None:
    """They are read as their declaration says."""
    text = f'<?xml version="1.0" encoding="{encoding}"?><broker xmlns="http://activemq.apache.org/schema/core">'
    text += '<destinations><queue physicalName="中文"/></destinations></broker>'
    (tmp_path / "activemq.xml").write_bytes(text.encode(encoding))
    assert read(tmp_path).destinations == ["queue:中文"]


def test_all_placeholders_without_a_value_are_named(tmp_path: Path) -> None:
    """At once, with the options that set them; those of Artemis are empty, as in the broker."""
    configurer = '<bean class="a.PropertyPlaceholderConfigurer">{}</bean>'
    broker = '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="${{one}}" dataDirectory="${{two}}"/>'
    for more in ("", '<property name="location" value="a.properties"/>'):
        (tmp_path / "activemq.xml").write_text(SPRING.format(configurer.format(more) + broker.format()))
        with pytest.raises(MigrationError, match="needs a value for one, two: set it with --property one=VALUE"):
            read(tmp_path)
    (tmp_path / "activemq.xml").write_text(SPRING.format(broker.format()))
    assert "--property one has no effect" in str(read(tmp_path, one="1").notes[0])
    (tmp_path / "activemq.xml").unlink()
    core = '<core xmlns="urn:activemq:core"><name>${one}${two:b}</name>%s</core>'
    file = f'<configuration xmlns="urn:activemq">{core}</configuration>'
    (tmp_path / "broker.xml").write_text(file % "<cluster-user>${three}</cluster-user>")
    assert "without a value are empty: one, three; set them" in str(read(tmp_path).notes[-1])
    (tmp_path / "broker.xml").write_text(file % "<thread-pool-max-size>${three}</thread-pool-max-size>")
    with pytest.raises(MigrationError, match="placeholders without a value are empty: one, three"):
        read(tmp_path)


def test_a_dead_letter_queue_is_no_source(tmp_path: Path) -> None:
    """Only what has the name of a dead-letter topic is left out, each with its reason."""
    queues = "".join(f'<queue physicalName="{"DLQ." * dead}q{number}"/>' for dead in (0, 1) for number in range(12))
    policies = (
        '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"><deadLetterStrategy>'
        '<individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy></policyEntry></policyEntries>'
        "</policyMap></destinationPolicy>"
    )
    xml = f'<broker xmlns="http://activemq.apache.org/schema/core">{policies}<destinations>{queues}</destinations></broker>'
    (tmp_path / "activemq.xml").write_text(xml)
    imported = read(tmp_path)
    text = to_yaml(imported)
    assert text.count("- topic: q") == 12
    assert "topic: DLQ" not in text
    assert sum("has the name of the dead-letter topic of q" in str(note) for note in imported.notes) == 12


CORE = "http://activemq.apache.org/schema/core"
POLICIES = f"""<policyMap xmlns="{CORE}" id="policies"><policyEntries><policyEntry queue="A"><deadLetterStrategy>
<individualDeadLetterStrategy queuePrefix="D."/></deadLetterStrategy></policyEntry></policyEntries>
</policyMap>"""
REFERRING = f'<broker xmlns="{CORE}" destinationPolicy="#policies"/>'


@pytest.mark.parametrize(
    "resource", ["policies.xml", "classpath:policies.xml", "file:${activemq.conf}/policies.xml", "sub/more.xml"]
)
def test_beans_of_imported_files(tmp_path: Path, resource: str) -> None:
    """Also of those that they import, beside them. Files without settings of ActiveMQ need no notes."""
    (tmp_path / "activemq.xml").write_text(SPRING.format(f'<import resource="{resource}"/>{REFERRING}'))
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "policies.xml").write_text(SPRING.format(POLICIES + '<import resource="jetty.xml"/>'))
    (tmp_path / "sub" / "more.xml").write_text(SPRING.format('<import resource="policies.xml"/>'))
    (tmp_path / "jetty.xml").write_text(SPRING.format('<bean id="server" class="org.eclipse.jetty.server.Server"/>'))
    imported = read(tmp_path)
    strategy = {"individualDeadLetterStrategy": {"queuePrefix": "D."}}
    assert imported.section["policyEntries"] == [{"queue": "A", "deadLetterStrategy": strategy}]
    sub = resource.startswith("sub")  # jetty.xml is not there
    assert [note.text.partition(" is not read")[0] for note in imported.notes] == [
        "<import resource='jetty.xml'>"
    ] * sub


def test_a_broker_in_an_imported_file(tmp_path: Path) -> None:
    """It is the broker."""
    (tmp_path / "activemq.xml").write_text(SPRING.format('<import resource="b.xml"/>'))
    (tmp_path / "b.xml").write_text(SPRING.format(POLICIES + REFERRING))
    assert read(tmp_path).section["policyEntries"]


def test_a_reference_into_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The error names the file, and does not say that the broker refuses it. Imports in a circle are an error."""
    (tmp_path / "activemq.xml").write_text(SPRING.format(f'<import resource="p.xml"/>{REFERRING}'))
    with pytest.raises(
        MigrationError, match=r"refers to '#policies'.*; p\.xml, which it imports, is not read"
    ) as caught:
        read(tmp_path)
    assert "refuses" not in caught.value.problem
    (tmp_path / "p.xml").write_text(SPRING.format(POLICIES + '<import resource="p.xml"/>'))
    with pytest.raises(MigrationError, match="imports more than"):
        read(tmp_path)


def test_names_and_removals_in_properties(etc: Path) -> None:
    """``key.surround`` encloses names with dots; ``-`` removes an entry; addresses become sources."""
    (etc / "broker.properties").write_text(
        "key.surround=$$\n"
        "addressSettings.$$orders.eu$$.redeliveryMultiplier=2\n"
        "addressSettings.orders\\ eu.sendToDLAOnNoRoute=true\n"
        "addressSettings.$$orders.#$$=-\n"
        "addressSettings.a.RedeliveryDelay=7\n"
        "addressSettings.a.maxSizeBytes=7\n"
        "addressSettings.b.maxSizeBytes=7\n"
        "addressSettings.b.pageCacheMaxSize=7\n"
        "addressConfigurations.$$orders.eu$$.routingTypes=ANYCAST\n"
        "addressConfigurations.$$orders.eu$$.queueConfigs.$$orders.eu$$.routingType=ANYCAST\n"
        "addressConfigurations.gone=-\n"
    )
    imported = read(etc)
    assert imported.section["address-settings"] == [
        {"match": "orders.eu", "redelivery-delay-multiplier": 2.0},
        {"match": "orders eu", "send-to-dla-on-no-route": True},
    ]
    assert imported.destinations == ["orders.eu"]
    (left,) = (note.text for note in imported.notes if "not carried over" in note.text)
    assert left.endswith(": maxSizeBytes, pageCacheMaxSize, addressConfigurations")
    assert "addressSettings.a.RedeliveryDelay of broker.properties is left out: address settings have no such" in str(
        imported.notes
    )


def test_the_fallback_of_an_included_file(etc: Path) -> None:
    """The broker takes it if the file is not there."""
    (etc / "broker.properties").unlink()
    inner = '<xi:include href="a.xml"><xi:fallback><xi:include href="settings.xml"/></xi:fallback></xi:include>'
    (etc / "broker.xml").write_text(BROKER.replace('<xi:include href="{}"/>', inner))
    imported = read(etc)
    assert [each["match"] for each in imported.section["address-settings"]] == ["orders.#"]
    assert "is not read" not in str(imported.notes)


CONFIGURER = "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"


@pytest.mark.parametrize(
    "element",
    [
        f'<bean class="{CONFIGURER}"><property name="location" value="file:${{activemq.conf}}/a.properties"/></bean>',
        (
            f'<bean class="{CONFIGURER}"><property name="locations"><list><value>classpath:b.properties</value>'
            "<value>a.properties</value></list></property></bean>"
        ),
        '<p:property-placeholder xmlns:p="a" location="classpath:b.properties,classpath:a.properties"/>',
    ],
)
def test_properties_in_files_of_the_folder(tmp_path: Path, element: str) -> None:
    """As Spring reads them, which is in Latin-1. One that is not there has a note."""
    strategy = '<individualDeadLetterStrategy queuePrefix="${prefix}"/>'
    entry = f'<policyEntry queue="A"><deadLetterStrategy>{strategy}</deadLetterStrategy></policyEntry>'
    policies = f"<destinationPolicy><policyMap><policyEntries>{entry}</policyEntries></policyMap></destinationPolicy>"
    (tmp_path / "activemq.xml").write_text(
        SPRING.format(f'{element}<broker xmlns="{CORE}">{policies}</broker><bean p="${{other}}"/>')
    )
    (tmp_path / "b.properties").write_text("prefix=B.")
    with pytest.raises(MigrationError, match="needs a value for prefix"):
        read(tmp_path)
    (tmp_path / "a.properties").write_bytes("# of a\nprefix = für.\n".encode("latin-1"))
    imported = read(tmp_path)
    strategies = {"individualDeadLetterStrategy": {"queuePrefix": "für."}}
    assert imported.section["policyEntries"] == [{"queue": "A", "deadLetterStrategy": strategies}]
    assert imported.notes == []
