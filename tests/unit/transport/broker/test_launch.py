"""The settings of a node that depend on whether it can start again."""

from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.launch import Launch
from kafka_redelivery.transport.broker.quorum import Quorum

SESSION = "broker.session.timeout.ms"


def _properties(*, nodes: int, temporary: bool, own: dict[str, str] | None = None) -> dict[str, str]:
    quorum = Quorum(1, {node: 9000 + node for node in range(1, nodes + 1)}, "AAAAAAAAAAAAAAAAAAAAAA")
    launch = Launch(
        home=Path("/home"),
        port=9092,
        quorum=quorum,
        listeners={},
        properties=own or {},
        heap_mb=512,
        temporary=temporary,
    )
    return dict(line.split("=", 1) for line in launch.server_properties().splitlines())


def test_a_lone_node_that_loses_its_data_keeps_its_session_on_a_busy_machine() -> None:
    """Without a session a node that is alone loses the lead of its partitions."""
    assert int(_properties(nodes=1, temporary=True)[SESSION]) > 600_000


@pytest.mark.parametrize(("nodes", "temporary"), [(1, False), (3, True), (3, False)])
def test_a_node_that_can_start_again_or_has_others_has_the_session_of_kafka(nodes: int, *, temporary: bool) -> None:
    """It starts when the session of the time before has ended; others take its partitions then."""
    assert SESSION not in _properties(nodes=nodes, temporary=temporary)


def test_own_properties_override_it() -> None:
    """The properties of the caller come last."""
    assert _properties(nodes=1, temporary=True, own={SESSION: "5000"})[SESSION] == "5000"
