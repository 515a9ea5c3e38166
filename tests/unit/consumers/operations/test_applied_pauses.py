from kafka_redelivery.consumers.operations.pausing import AppliedPauses, observed
from kafka_redelivery.topology.wire.pauses import Pauses


def test_a_group_that_was_never_paused_has_nothing_to_obey() -> None:
    """Its processes note nothing, so no process counts as missing."""
    assert AppliedPauses((), 0, {}, 2).whole


def test_a_process_that_has_not_noted_a_change_is_missing() -> None:
    """The members are counted, because a process that does not obey cannot say so."""
    assert not AppliedPauses((), 7, {}, 2).whole
    assert AppliedPauses((), 7, {}, None).whole


def test_members_of_both_groups_are_counted() -> None:
    """If those of one are unknown, so is the number."""
    assert observed(Pauses(), {"billing": {"w1": [], "w2": []}, "billing.scheduler": {"s1": []}}).members == 3
    assert observed(Pauses(), {"billing": {"w1": []}, "billing.scheduler": None}).members is None
