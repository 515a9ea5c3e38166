"""Each acknowledgement mode commits when ActiveMQ would acknowledge, and redelivers and counts what ActiveMQ does."""

import pytest

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}}


def _committed(group: Group) -> int:
    """Return the committed offset of the only partition; -1 if there is none."""
    return group.cluster.committed(group.name, group.source).get((group.source, 0), (-1, ""))[0]


def _handled(group: Group, number: int) -> None:
    until(lambda: sum(line.what == "ended" for line in group.deliveries.all()) >= number, f"{number} are handled")


@pytest.mark.parametrize(
    ("mode", "section", "share"),
    [("auto", {"optimizeAcknowledge": True}, 65), ("dups_ok", {}, 50)],
    ids=["optimized", "dups_ok"],
)
def test_lazy_modes_acknowledge_at_their_share_of_the_prefetch(
    group: Group, mode: str, section: dict[str, object], share: int
) -> None:
    """Below the share nothing is committed, and a kill redelivers all of it uncounted; an orderly end commits."""
    section = section | {"prefetch": 100, "optimizeAcknowledgeTimeOut": 0}
    group.prepare(partitions=1, mode=mode, acknowledgement=section, policyEntry=_POLICY)
    worker = group.worker()
    group.send([["quiet"]] * (share - 1))
    _handled(group, share - 1)
    assert _committed(group) == 0
    worker.kill()
    worker = group.worker()
    _handled(group, 2 * (share - 1))
    assert _committed(group) == 0
    group.send([["quiet"]], first=share - 1)
    until(lambda: _committed(group) == share, "the share is acknowledged together")
    group.send([["quiet"]] * 3, first=share)
    _handled(group, 2 * share + 2)
    assert _committed(group) == share
    group.stop()
    assert _committed(group) == share + 3
    assert group.deliveries.attempts() == {n: [1] * (2 if n < share - 1 else 1) for n in range(share + 3)}


def test_lazy_acknowledgements_wait_for_their_time_limit_and_failures_do_not(group: Group) -> None:
    """A quiet topic is acknowledged after the time-out; a dead letter is written immediately."""
    section = {"optimizeAcknowledge": True, "prefetch": 1000, "optimizeAcknowledgeTimeOut": 4000}
    group.prepare(partitions=1, mode="auto", acknowledgement=section, policyEntry=_POLICY)
    group.worker()
    group.send([["quiet"]])
    until(lambda: _committed(group) == 1, "the time limit is over")
    group.send([["quiet"], ["reject"]], first=1)
    until(group.dead, "the dead letter is written")
    until(lambda: _committed(group) == 3, "the earlier record is acknowledged with it")


def test_client_acknowledges_whatever_the_session_was_given(group: Group) -> None:
    """A recovered session is redelivered and counted; after a close and a kill it is redelivered and not counted."""
    group.prepare(partitions=1, mode="client", policyEntry=_POLICY)
    group.scheduler()
    worker = group.worker()
    group.send([["leave"]] * 9)
    _handled(group, 9)
    assert _committed(group) == 0
    assert not group.outputs()
    group.send([["ack"]], first=9)
    until(lambda: _committed(group) == 10, "all ten are acknowledged")
    group.cluster.wait_for_markers(group.output)  # Kafka may show the offsets of a transaction before its records
    assert group.outputs() == exactly(range(10))

    # These may be redelivered in any order.
    group.send([["leave", "ack"], ["leave", "ack"], ["recover", "ack"]], first=10)
    until(lambda: group.deliveries.counts()[12] == 2, "the session is recovered")
    group.settle()
    assert group.outputs() == exactly(range(13))

    group.send([["leave"], ["leave"]], first=13)
    _handled(group, 18)
    worker.stop()
    worker = group.worker()
    _handled(group, 20)
    worker.kill()
    group.send([["ack"]], first=15)
    group.worker()
    group.settle()
    group.stop()

    attempts = group.deliveries.attempts()
    assert {n: attempts[n] for n in range(10, 16)} == {
        **{n: [1, 2] for n in (10, 11, 12)},
        **{n: [1, 1, 1] for n in (13, 14)},
        15: [1],
    }
    assert group.outputs() == exactly(range(16))
    assert not group.dead()


def test_individual_acknowledges_one_record(group: Group) -> None:
    """After a kill only the unacknowledged records come again; each that times out is counted and dead-lettered."""
    group.prepare(partitions=1, mode="individual", policyEntry=_POLICY)
    worker = group.worker()
    group.send(["leave" if n % 3 == 0 else "ack"] for n in range(30))
    left = set(range(0, 30, 3))
    until(lambda: group.outputs() == exactly(set(range(30)) - left), "two thirds are acknowledged")
    until(lambda: {int(seen.offset) for seen in group.pending()} == left, "their offsets are committed")
    worker.kill()
    group.configure(acknowledgement={"timeout": "500ms"})
    group.scheduler()
    group.worker()
    group.settle()
    group.stop()

    attempts = group.deliveries.attempts()
    assert attempts == {n: [1, 1, 2] if n in left else [1] for n in range(30)}
    assert group.dead() == exactly(left)
    assert group.outputs() == exactly(set(range(30)) - left)
    letter = group.cluster.read(group.dead_letters)[0]
    assert "NotAcknowledged" in (letter.header("dlqDeliveryFailureCause") or "")
