"""The writes that a task reports to the driver."""

from dataclasses import fields

from kafka_redelivery.consumers.telemetry.observers import Committed, OutcomeLabel
from kafka_redelivery.pipeline.task.contract import merge_writes
from kafka_redelivery.topology.policy.decision import AckType


def test_writes_are_added_up() -> None:
    """Counts are added, lists of times are joined, and no field is left out."""
    write = Committed(
        seconds=0.5,
        outcomes={OutcomeLabel("t", "acked", AckType.STANDARD): 3},
        redeliveries={("t", 1): 2},
        dead_letters={("t", "rejected"): 1},
        lateness_ms=[7],
        outage_lateness_ms=[9],
        handler_seconds=[0.1, 0.2],
        recoveries={("t", 2): 1},
        discarded={("t", "expired"): 4},
        redriven={("t", "recovered"): 2},
        redriven_arrived={"t": 3},
    )

    empty = [each.name for each in fields(Committed) if not getattr(write, each.name)]
    assert not empty, "a value for each field, so that none is left out"
    assert merge_writes([write]) == write
    assert merge_writes([write, write]) == Committed(
        seconds=1.0,
        outcomes={OutcomeLabel("t", "acked", AckType.STANDARD): 6},
        redeliveries={("t", 1): 4},
        dead_letters={("t", "rejected"): 2},
        lateness_ms=[7, 7],
        outage_lateness_ms=[9, 9],
        handler_seconds=[0.1, 0.2, 0.1, 0.2],
        recoveries={("t", 2): 2},
        discarded={("t", "expired"): 8},
        redriven={("t", "recovered"): 4},
        redriven_arrived={"t": 6},
    )
