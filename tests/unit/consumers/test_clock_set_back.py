"""The scheduler's own clock is set back while records wait."""

from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.wire.headers import SCHEDULED_DELIVERY
from kafka_redelivery.topology.wire.progress import Progress
from tests.unit.consumers.records import Fetched

NOW = 1_700_000_000_000
HOUR = 3_600_000
DELAY = 1000


def waiting(offset: int, due_ms: int) -> Fetched:
    """A retry copy that was appended when its delay began."""
    return Fetched("g.retry.1s", 0, offset, pairs=[(SCHEDULED_DELIVERY, b"%d" % due_ms)], stamp_ms=due_ms - DELAY)


def test_nobody_waits_for_a_clock_to_catch_up() -> None:
    """An hour back: what would leave in an hour and a second leaves after the tier's delay, and is counted."""
    for ordered in (True, False):
        tier = TierPartition("g.retry.1s", DELAY, Progress(0), ordered=ordered)
        tier.add([waiting(0, NOW + 400)], [0], NOW)
        tier.add([waiting(1, NOW + 900)], [0], NOW)

        tier.clock_set_back(NOW - HOUR)

        assert tier.next_ms == NOW - HOUR + DELAY
        assert tier.take(NOW - HOUR + DELAY - 1, 10) == []
        assert [held.offset for held in tier.take(NOW - HOUR + DELAY, 10)] == [0, 1]
        assert tier.clock_faults == 2


def test_a_clock_that_did_not_jump_changes_nothing() -> None:
    """What leaves within the tier's delay anyway keeps its time."""
    tier = TierPartition("g.retry.1s", DELAY, Progress(0), ordered=True)
    tier.add([waiting(0, NOW + 400)], [0], NOW)

    tier.clock_set_back(NOW)

    assert tier.next_ms == NOW + 400
    assert tier.clock_faults == 0
