"""What a task tells the driver of its writes is what it did."""

from consumers.observer import Committed, OutcomeLabel
from pipeline.summary import together
from topology.decision import AckType


def test_several_writes_are_told_as_one() -> None:
    """Counts are added up, times are put side by side, and nothing that a write tells is left out."""
    write = Committed(
        seconds=0.5,
        outcomes={OutcomeLabel("t", "acked", AckType.STANDARD): 3},
        redeliveries={("t", 1): 2},
        dead_letters={("t", "rejected"): 1},
        lateness_ms=[7],
        handler_seconds=[0.1, 0.2],
        recoveries={("t", 2): 1},
        discarded={("t", "expired"): 4},
    )

    assert together([write]) == write
    assert together([write, write]) == Committed(
        seconds=1.0,
        outcomes={OutcomeLabel("t", "acked", AckType.STANDARD): 6},
        redeliveries={("t", 1): 4},
        dead_letters={("t", "rejected"): 2},
        lateness_ms=[7, 7],
        handler_seconds=[0.1, 0.2, 0.1, 0.2],
        recoveries={("t", 2): 2},
        discarded={("t", "expired"): 8},
    )
