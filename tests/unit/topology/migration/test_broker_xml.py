"""Importing a ``broker.xml`` in its many forms, and refusing what Artemis refuses."""

import pytest

from kafka_redelivery.topology.migration.conversion import read_broker_configuration
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import Imported, MigrationError
from tests.parity.importing import Migrated


def document(core: str) -> bytes:
    """A file with this content of ``<core>``."""
    return f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{core}</core></configuration>'.encode()


def settings(*entries: str) -> bytes:
    """A file with these address settings."""
    return document(f"<address-settings>{''.join(entries)}</address-settings>")


def setting(match: str, content: str) -> str:
    """One address setting."""
    return f'<address-setting match="{match}">{content}</address-setting>'


def read(content: bytes, **values: str) -> Imported:
    """Import the file."""
    return read_broker_configuration(
        content, "broker.xml", PlaceholderValues(values, {"HOME_QUEUE": "from.environment"})
    )


@pytest.mark.parametrize(
    "content",
    [
        settings(setting("a", "<max-delivery-attempts>1.5</max-delivery-attempts>")),
        settings(setting("a", "<max-delivery-attempts>9999999999</max-delivery-attempts>")),
        settings(setting("a", "<max-delivery-attempts>${missing}</max-delivery-attempts>")),
        settings(setting("a", "<redelivery-delay-multiplier>x</redelivery-delay-multiplier>")),
        settings(setting("a", "<redelivery-collision-avoidance-factor>1.1</redelivery-collision-avoidance-factor>")),
        settings(setting("a", "<redelivery-collision-avoidance-factor>-0.1</redelivery-collision-avoidance-factor>")),
        settings(setting("a", "<address-full-policy>WAIT</address-full-policy>")),
        settings(setting("a", "<nonsense/>")),
        settings("<address-setting/>"),
        settings("<nonsense/>"),
        document("<name>a</name><name>b</name>"),
        document("<persist-delivery-count-before-delivery>maybe</persist-delivery-count-before-delivery>"),
        document("<wildcard-addresses><nonsense/></wildcard-addresses>"),
        document("<wildcard-addresses><any-words></any-words></wildcard-addresses>"),
        document("<wildcard-addresses><routing-enabled></routing-enabled></wildcard-addresses>"),
        document("<journal-type>PAPER</journal-type>"),
        document("<thread-pool-max-size>many</thread-pool-max-size>"),
        settings(setting("a", "<send-to-dla-on-no-route></send-to-dla-on-no-route>")),
        settings(setting("a", "<auto-create-expiry-resources> </auto-create-expiry-resources>")),
        settings(setting("a", "<auto-create-expiry-resources>TRUE</auto-create-expiry-resources>")),
        settings(setting("a", "<max-size-bytes>10 barrels</max-size-bytes>")),
        settings(setting("a", "<page-size-bytes>2G</page-size-bytes>")),
        settings(setting("a", "<slow-consumer-threshold>0</slow-consumer-threshold>")),
        settings(setting("a", "<initial-queue-buffer-size>48</initial-queue-buffer-size>")),
        settings(setting("a", "<config-delete-queues>off</config-delete-queues>")),
        settings(setting("a", "words")),
        settings(setting("a", '<max-delivery-attempts unit="1">5</max-delivery-attempts>')),
        settings(setting("a", "<max-delivery-attempts><max-delivery-attempts/>5</max-delivery-attempts>")),
        settings(setting("a", '<max-delivery-attempts xmlns="urn:other">5</max-delivery-attempts>')),
        settings('<address-setting match="a" unit="1"/>'),
        document("words"),
        document("<literal-match-markers>(</literal-match-markers>"),
        document("<literal-match-markers>((()</literal-match-markers>"),
        b"<configuration><core/></configuration>",
    ],
)
def test_a_file_that_the_broker_refuses(content: bytes) -> None:
    """The error has the line."""
    with pytest.raises(MigrationError, match="the broker refuses") as caught:
        read(content)
    assert caught.value.location == "broker.xml:1"


def test_values_come_from_properties_then_from_the_environment() -> None:
    """Without either, the default after the colon is used."""
    content = settings(
        setting(
            "#",
            "<dead-letter-address>${HOME_QUEUE:x}</dead-letter-address><expiry-address>${e:y}</expiry-address>",
        )
    )
    assert read(content).section["address-settings"] == [
        {"match": "#", "dead-letter-address": "from.environment", "expiry-address": "y"}
    ]
    assert read(content, HOME_QUEUE="given").section["address-settings"][0]["dead-letter-address"] == "given"


def test_placeholders_are_replaced_before_the_file_is_parsed() -> None:
    """One without an end extends to the next brace, markup included; one without a name is refused."""
    open_one = setting("#", "<dead-letter-address>${a</dead-letter-address>") + setting("a}", "")
    with pytest.raises(MigrationError, match="not well-formed XML"):
        read(settings(open_one))
    with pytest.raises(MigrationError, match="a placeholder that cannot be replaced"):
        read(settings(setting("#", "<dead-letter-address>${ :x}</dead-letter-address>")))
    with pytest.raises(MigrationError, match="a placeholder that cannot be replaced: 'a'"):
        read(settings(setting("${a}", "")), a="${a}")
    nested = settings(setting("#", "<dead-letter-address>${a:${b:c}}</dead-letter-address>"))
    assert read(nested).section["address-settings"][0]["dead-letter-address"] == "c"


def test_placeholders_in_any_encoding() -> None:
    """The XML declaration or the byte order mark gives the encoding."""
    text = '<?xml version="1.0" encoding="%s"?>' + settings(setting("${a:\u00e9}", "")).decode()
    for encoding in ("iso-8859-1", "utf-8", "utf-16"):
        assert read((text % encoding).encode(encoding)).section["address-settings"] == [{"match": "\u00e9"}]
    with pytest.raises(MigrationError, match="not well-formed"):
        read((text % "utf-8").encode("iso-8859-1"))


def test_only_the_word_true_is_true() -> None:
    """The schema also allows 1 and an empty element; both are false, and the 1 has a note."""
    content = settings(
        setting("a", "<auto-create-dead-letter-resources>1</auto-create-dead-letter-resources>"),
        setting("b", "<auto-create-dead-letter-resources></auto-create-dead-letter-resources>"),
        setting("c", "<auto-create-dead-letter-resources> true </auto-create-dead-letter-resources>"),
    )
    imported = read(content)
    assert [each["auto-create-dead-letter-resources"] for each in imported.section["address-settings"]] == [
        False,
        False,
        True,
    ]
    assert [note.text for note in imported.notes] == [
        "auto-create-dead-letter-resources=1 is false: Artemis takes only the word true as true"
    ]


def test_the_first_of_two_equal_matches_is_used() -> None:
    """The broker does the same; the other has a note."""
    imported = read(
        settings(setting("a", "<expiry-delay>1</expiry-delay>"), setting("a", "<min-expiry-delay>2</min-expiry-delay>"))
    )
    assert imported.section["address-settings"] == [{"match": "a", "expiry-delay": 1}]
    assert any("it is repeated" in note.text for note in imported.notes)


def test_one_of_an_address_and_its_queue_is_used() -> None:
    """It is the one that the broker adds last; the other has a note."""
    one, other = (setting(match, f"<expiry-delay>{n}</expiry-delay>") for n, match in enumerate(["a::b", "a"]))
    for content in (settings(one, other), settings(other, one)):
        imported = read(content)
        assert imported.section["address-settings"] == [{"match": "a::b", "expiry-delay": 0}]
        assert [note.text for note in imported.notes] == [
            "match 'a' is left out: the broker uses 'a::b' for the same address"
        ]


@pytest.mark.parametrize("match", ["", "${nothing}"])
def test_an_empty_match_is_left_out(match: str) -> None:
    """It matches no address, and a note says so."""
    imported = read(settings(setting(match, "<expiry-delay>1</expiry-delay>")))
    assert imported.section["address-settings"] == []
    assert any("no address" in note.text for note in imported.notes)


@pytest.mark.parametrize(("text", "word", "second"), [("NaN", "NaN", 0), ("1e400", "Infinity", 300)])
def test_a_multiplier_that_is_not_finite(text: str, word: str, second: int) -> None:
    """As in the broker, NaN gives a delay of 0 and infinity the maximum."""
    found = Migrated(
        settings(
            setting(
                "a",
                "<redelivery-delay>30</redelivery-delay>"
                f"<redelivery-delay-multiplier>{text}</redelivery-delay-multiplier>",
            )
        ),
        "broker.xml",
    ).explain("a")
    assert found["policy"]["redelivery-delay-multiplier"] == word
    assert found["delays_ms"][:2] == [30, second]


@pytest.mark.parametrize("text", ["10", "-1", "10M", "10 mib", "1Gb", "5b", "64K"])
def test_sizes_are_read_as_the_broker_reads_them(text: str) -> None:
    """They have no effect here, but the file can be imported."""
    imported = read(settings(setting("a", f"<max-size-bytes>{text}</max-size-bytes>")))
    assert any(note.text.startswith("max-size-bytes=") for note in imported.notes)


def test_a_match_with_which_the_broker_does_not_start_is_left_out() -> None:
    """Other matches are carried over, and a note says so."""
    imported = read(settings(setting("a.#.b", ""), setting("a", "<expiry-delay>5</expiry-delay>")))
    assert imported.section["address-settings"] == [{"match": "a", "expiry-delay": 5}]
    assert any("does not start" in note.text for note in imported.notes)


def test_a_match_too_deep_for_a_regular_expression_is_left_out() -> None:
    """The stack does not overflow, and a note says so."""
    imported = read(settings(setting("(" * 5000 + ".#", "")))
    assert any(note.text.startswith("match '((") for note in imported.notes)


def test_settings_that_are_not_carried_over_have_notes() -> None:
    """Each note has a reason."""
    imported = read(
        settings(setting("#", "<max-size-bytes>1</max-size-bytes>")).replace(
            b"<address-settings>", b"<max-redelivery-records>1</max-redelivery-records><address-settings>"
        )
    )
    notes = "\n".join(str(note) for note in imported.notes)
    assert "max-size-bytes=1 is not carried over: " in notes
    assert "max-redelivery-records is not carried over: " in notes


def test_an_include_has_a_note() -> None:
    """The included file is not read."""
    content = (
        b'<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude">'
        b'<core xmlns="urn:activemq:core">'
        b'<xi:include href="address-settings.xml"/></core></configuration>'
    )
    assert any("<include> is not read" in note.text for note in read(content).notes)


def test_addresses_become_sources() -> None:
    """Dead-letter addresses and patterns do not."""
    addresses = "".join(f'<address name="{name}"/>' for name in ("orders", "DLQ", "a.#"))
    content = document(
        f"<addresses>{addresses}</addresses>"
        f"<address-settings>{setting('#', '<dead-letter-address>DLQ</dead-letter-address>')}</address-settings>"
    )
    assert [source.topic for source in Migrated(content, "broker.xml").settings.sources] == ["orders"]


def test_old_lists_of_queues() -> None:
    """``<queues>`` and the section ``<jms>`` make addresses, too. A prefix of Artemis 1.x has a note."""
    core = document("<queues><queue name='q'><address>orders</address></queue></queues>").decode()
    core = core.replace(
        "<core", "<jms xmlns='urn:activemq:jms'><queue name='bills'/><queue name='DLQ'/><topic name='news'/></jms><core"
    )
    given = setting("jms.queue.bills", "<dead-letter-address>DLQ</dead-letter-address>")
    imported = read(core.replace("</core>", f"<address-settings>{given}</address-settings></core>").encode())
    assert imported.destinations == ["orders", "bills", "news"]
    notes = "\n".join(map(str, imported.notes))
    assert "DLQ is not among the sources" in notes
    assert "matches that begin with jms.queue. or jms.topic. are for addresses of clients of Artemis 1.x" in notes


def test_a_file_of_hornetq_is_named() -> None:
    """No Artemis reads it."""
    with pytest.raises(MigrationError, match="is a HornetQ configuration"):
        read(b'<configuration xmlns="urn:hornetq"><address-settings/></configuration>')
