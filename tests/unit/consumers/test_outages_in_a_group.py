"""Twenty workers and one control topic: one closes an outage, the others follow within seconds, without a stampede."""

from itertools import pairwise

import pytest

from kafka_redelivery.consumers.flow.outages import SPREAD_S
from tests.unit.consumers.outage_group import AWAY_S, LONGEST_S, RAMP_S, ROUND_S, SLOTS, WORKERS, Member, WorkerGroup
from tests.unit.consumers.simulation import ControlTopic

pytestmark = pytest.mark.usefixtures("hasty")


def _assert_no_stampede(member: Member) -> None:
    """From second to second the calls in flight at most double."""
    first_s = member.tries(answered=True)[0]
    for at_s, calls in member.curve:
        if at_s >= first_s:
            assert calls <= 2 ** int(at_s - first_s), (at_s - first_s, calls)


def test_all_are_at_full_load_soon_after_one_has_closed() -> None:
    """All have met the outage. The first that finds the bank back makes the others try within three seconds."""
    group = WorkerGroup()
    group.meet()
    before = [len(member.tries(answered=False)) for member in group.members]
    group.run(AWAY_S + LONGEST_S + SPREAD_S + RAMP_S + 2)

    first = [member.tries(answered=True)[0] for member in group.members]
    closed_s = min(first)
    assert max(first) <= closed_s + SPREAD_S + 2 * ROUND_S
    assert len(set(first)) > WORKERS // 4
    assert max(member.full_s(closed_s) for member in group.members) <= max(first) + RAMP_S + 2 * ROUND_S
    for member, calls in zip(group.members, before, strict=True):
        assert calls <= SLOTS + 7  # those in flight when it opened, and one after each pause
        _assert_no_stampede(member)


@pytest.mark.parametrize("control", [ControlTopic(shared=False), ControlTopic(compacted=True)])
def test_nobody_waits_for_ever_who_sees_no_closing(control: ControlTopic) -> None:
    """Each worker finds out by itself, at the latest after its longest pause."""
    group = WorkerGroup(control=control)
    group.meet()
    group.run(AWAY_S + LONGEST_S + RAMP_S + 2)

    assert all(member.full_s(AWAY_S) <= AWAY_S + LONGEST_S + RAMP_S + 2 * ROUND_S for member in group.members)
    for member in group.members:
        _assert_no_stampede(member)


@pytest.mark.parametrize("number", [10, pytest.param(1, marks=pytest.mark.long)])
def test_workers_that_are_cut_off_by_themselves(number: int) -> None:
    """They neither stop the others nor are driven by them: their pauses stay long."""
    group = WorkerGroup(cut_off=range(number))
    cut_off, others = group.members[:number], group.members[number:]
    group.meet()
    closed_s = group.run(AWAY_S + LONGEST_S, lambda: any(each.tries(answered=True) for each in others))
    group.run(closed_s + SPREAD_S + RAMP_S + 1)
    group.run(closed_s + 4 * LONGEST_S, round_s=1.0)

    assert all(each.full_s(AWAY_S) <= closed_s + SPREAD_S + RAMP_S + 2 * ROUND_S for each in others)
    assert all(len(each.bank.calls) > 120 for each in others)
    assert not any(each.tries(answered=False, since_s=AWAY_S) for each in others)
    for each in cut_off:
        later = each.tries(answered=False, since_s=closed_s + 2 * SPREAD_S)
        assert len(later) >= 2
        assert all(after - earlier >= 0.9 * LONGEST_S for earlier, after in pairwise(later))
        assert len(each.tries(answered=False, since_s=closed_s)) <= len(later) + 4
