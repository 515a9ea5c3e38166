"""A worker that halts because a write is refused for good commits none of its offsets while it shuts down."""

from tests.scenarios.running import Group
from tests.scenarios.waiting import until


def test_a_refused_journal(group: Group) -> None:
    """The journal's size limit is too small for its records, so no source record may count as done."""
    group.prepare(journal=True, handler={"slots": 1})
    worker = group.worker()
    group.send([["ok"]] * 10)
    until(lambda: sum(group.outputs().values()) == 10, "the first records are handled")
    group.cluster.alter(group.journal, max_message_bytes="80")

    group.send([["ok"]] * 30 + [["raise"]] * 10, first=10)

    until(lambda: f"{group.source}-0 is halted" in worker.log, "the partition is halted")
    assert worker.running
    assert sum(group.outputs().values()) == 10
    assert len(group.pending()) == 40, "a record is committed although its outcome was not written"
