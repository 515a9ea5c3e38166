"""The settings of a node that depend on whether it can start again."""

from pathlib import Path

from kafka_redelivery.transport.broker.embedded import server_properties

SESSION = "broker.session.timeout.ms"


def _properties(*, temporary: bool, own: dict[str, str] | None = None) -> dict[str, str]:
    return server_properties(Path("/home"), 9092, 9093, own or {}, temporary=temporary)


def test_a_node_that_loses_its_data_keeps_its_session_on_a_busy_machine() -> None:
    """Without a session it loses the lead of its partitions."""
    assert int(_properties(temporary=True)[SESSION]) > 600_000


def test_a_node_that_can_start_again_has_the_session_of_kafka() -> None:
    """It starts when the session of the time before has ended."""
    assert SESSION not in _properties(temporary=False)


def test_own_properties_override_it() -> None:
    """The properties of the caller come last."""
    assert _properties(temporary=True, own={SESSION: "5000"})[SESSION] == "5000"
