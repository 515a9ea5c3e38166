"""What a broker.xml says in its many forms, and what Artemis refuses of it."""

import pytest

from tests.parity.importing import Migrated
from topology.migration.reading import read_broker_configuration
from topology.migration.result import Imported, MigrationError
from topology.migration.values import Values


def document(core: str) -> bytes:
    """A file around what stands in the core."""
    return f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{core}</core></configuration>'.encode()


def settings(*entries: str) -> bytes:
    """A file with address settings."""
    return document(f"<address-settings>{''.join(entries)}</address-settings>")


def setting(match: str, content: str) -> str:
    """One address setting."""
    return f'<address-setting match="{match}">{content}</address-setting>'


def read(content: bytes, **values: str) -> Imported:
    """Import it."""
    return read_broker_configuration(content, "broker.xml", Values(values, {"HOME_QUEUE": "from.environment"}))


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
        document("<nonsense/>"),
        document("<name>a</name><name>b</name>"),
        document("<persist-delivery-count-before-delivery>maybe</persist-delivery-count-before-delivery>"),
        document("<wildcard-addresses><nonsense/></wildcard-addresses>"),
        b"<configuration><core/></configuration>",
    ],
)
def test_what_the_broker_refuses_is_refused(content: bytes) -> None:
    """With the line."""
    with pytest.raises(MigrationError, match="the broker refuses") as caught:
        read(content)
    assert caught.value.place == "broker.xml:1"


def test_values_come_from_properties_then_from_the_environment() -> None:
    """Else from the default behind the colon."""
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


def test_a_match_that_keeps_the_broker_from_starting_is_left_out_and_told() -> None:
    """The others are carried over."""
    imported = read(settings(setting("a.#.b", ""), setting("a", "<expiry-delay>5</expiry-delay>")))
    assert imported.section["address-settings"] == [{"match": "a", "expiry-delay": 5}]
    assert any("does not start" in note.text for note in imported.notes)


def test_nothing_is_left_out_in_silence() -> None:
    """Every setting that has no meaning here is told with a reason."""
    imported = read(
        settings(setting("#", "<max-size-bytes>1</max-size-bytes>")).replace(
            b"<address-settings>", b"<max-redelivery-records>1</max-redelivery-records><address-settings>"
        )
    )
    notes = "\n".join(str(note) for note in imported.notes)
    assert "max-size-bytes=1 is not carried over: " in notes
    assert "max-redelivery-records is not carried over: " in notes


def test_an_include_is_told() -> None:
    """What it would bring is not there."""
    content = (
        b'<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude">'
        b'<core xmlns="urn:activemq:core">'
        b'<xi:include href="address-settings.xml"/></core></configuration>'
    )
    assert any("<include> is not followed" in note.text for note in read(content).notes)


def test_addresses_become_sources_but_for_those_of_dead_letters() -> None:
    """Nobody consumes its own dead letters."""
    addresses = "".join(f'<address name="{name}"/>' for name in ("orders", "DLQ", "a.#"))
    content = document(
        f"<addresses>{addresses}</addresses>"
        f"<address-settings>{setting('#', '<dead-letter-address>DLQ</dead-letter-address>')}</address-settings>"
    )
    assert [source.topic for source in Migrated(content, "broker.xml").settings.sources] == ["orders"]
