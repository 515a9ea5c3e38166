"""Settings of a broker's configuration that become settings of ``handler``."""

import pytest

from tests.parity.importing import Migrated

PERSIST = "persist-delivery-count-before-delivery"


def broker_xml(core: str) -> Migrated:
    """A broker.xml with this in its core."""
    return Migrated(
        f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{core}</core></configuration>'
    )


def activemq_xml(entries: str) -> Migrated:
    """An activemq.xml with these policy entries."""
    policies = f"<policyMap><policyEntries>{entries}</policyEntries></policyMap>"
    return Migrated(
        '<beans xmlns="http://www.springframework.org/schema/beans"><broker '
        f'xmlns="http://activemq.apache.org/schema/core"><destinationPolicy>{policies}</destinationPolicy></broker></beans>'
    )


def uri(options: str) -> Migrated:
    """A connection URI with these options."""
    return Migrated(f"tcp://broker:61616?{options}")


@pytest.mark.parametrize("name", ["nonBlockingRedelivery", "NonBlockingRedelivery"])
@pytest.mark.parametrize(("value", "expected"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)])
def test_non_blocking_redelivery(name: str, value: str, expected: bool) -> None:  # noqa: FBT001
    """It is carried over as Java reads it, with a note if the value is neither true nor false."""
    ours = uri(f"jms.{name}={value}")
    assert ours.settings.handler is not None
    assert ours.settings.handler.non_blocking_redelivery is expected
    assert ("only the word true is true" in ours.notes) is (value == "yes")
    assert "handler.callable" in ours.text.splitlines()[1]


def test_the_default_of_non_blocking_redelivery_has_a_note() -> None:
    """The defaults differ, and the note has both."""
    ours = uri("jms.redeliveryPolicy.maximumRedeliveries=1")
    assert ours.settings.handler is None
    assert "set handler.nonBlockingRedelivery to false" in ours.notes
    assert "handler.callable" not in ours.text


def test_an_option_without_a_value_is_not_set() -> None:
    """The same as for other flags."""
    ours = uri("jms.nonBlockingRedelivery")
    assert ours.settings.handler is None
    assert "cannot be set" in ours.notes


def test_an_entry_of_classic_that_persists_counts() -> None:
    """It becomes a setting for all sources of the worker, and a note says so."""
    ours = activemq_xml('<policyEntry queue="a" persistJMSRedelivered="true"/><policyEntry queue="b"/>')
    assert ours.settings.handler is not None
    assert ours.settings.handler.persist_delivery_count_before_delivery
    assert "all sources of the worker" in ours.notes


def test_an_entry_of_classic_that_does_not_persist_counts() -> None:
    """This is the default of both, so there is no setting and no note."""
    ours = activemq_xml('<policyEntry queue="a" persistJMSRedelivered="false"/>')
    assert (ours.settings.handler, ours.notes) == (None, "")


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (f"<{PERSIST}>true</{PERSIST}>", True),
        (f"<{PERSIST}>false</{PERSIST}>", False),
        (f"<{PERSIST}>1</{PERSIST}>", False),
        (f"<{PERSIST}/>", False),
    ],
)
def test_a_core_of_artemis_that_persists_counts(element: str, expected: bool) -> None:  # noqa: FBT001
    """Only the word ``true`` is true."""
    handler = broker_xml(element).settings.handler
    assert (handler is not None and handler.persist_delivery_count_before_delivery) is expected
