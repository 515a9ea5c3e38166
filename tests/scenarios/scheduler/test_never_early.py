"""No record is released before its due time, a tier keeps its order, and lateness is small."""

from itertools import pairwise
from statistics import median

from tests.scenarios.running import Group, exactly, number
from tests.scenarios.waiting import until

_NUMBER = 300
_DELAYS_MS = (300, 1200)
_USUAL_S, _LONGEST_S = 5, 30
"""Lateness is milliseconds; a busy machine may be much slower."""


def test_no_release_before_its_due_time(group: Group) -> None:
    """No handler call and no release timestamp is early, and the order is that of the failures."""
    group.prepare(
        partitions=3,
        policyEntry={
            "redeliveryPolicy": {
                "initialRedeliveryDelay": _DELAYS_MS[0],
                "redeliveryDelay": _DELAYS_MS[0],
                "useExponentialBackOff": True,
                "backOffMultiplier": 4,
            }
        },
    )
    group.scheduler()
    group.worker()
    # Retries that are written before the scheduler has its partitions would be late by its start.
    until(lambda: any(group.cluster.members(f"{group.name}.scheduler").values()), "the scheduler has its partitions")
    for first in range(0, _NUMBER, 20):  # in several waves, as a single batch would always be in order
        group.send([["raise", "raise", "ok"]] * 20, first=first)
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(_NUMBER))

    began: dict[int, list[float]] = {}
    for call in group.deliveries.began():
        began.setdefault(call.n, []).append(call.at_s)
    late_s = []
    for times in began.values():
        assert len(times) == 3
        for (before, after), delay_ms in zip(pairwise(times), _DELAYS_MS, strict=True):
            # The due time counts from the decision, which follows the end of the call.
            late_s.append(after - before - delay_ms / 1000)
    assert min(late_s) >= 0
    assert median(late_s) < _USUAL_S
    assert max(late_s) < _LONGEST_S

    released = group.cluster.read(group.ready)
    assert len(released) == 2 * _NUMBER
    for record in released:
        assert record.timestamp_ms >= int(record.header("_AMQ_SCHED_DELIVERY") or "")
        assert record.header("AMQ_SCHEDULED_DELAY") is None
    for delay_ms, tier, attempts in zip(_DELAYS_MS, ("300ms", "1200ms"), ("1", "2"), strict=True):
        waited = group.cluster.read(group.tier(tier))
        assert {record.header("AMQ_SCHEDULED_DELAY") for record in waited} == {str(delay_ms)}
        for partition in range(3):
            order = [number(record) for record in waited if record.partition == partition]
            assert order == [
                number(record)
                for record in released
                if record.partition == partition and record.header("JMSXDeliveryCount") == attempts
            ]
