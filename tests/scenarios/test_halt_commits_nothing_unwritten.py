"""A worker that stops because a write is refused for good commits nothing of it on its way out."""

from cli import exit_codes
from tests.scenarios.running import Group
from tests.scenarios.waiting import until


def test_a_refused_journal(group: Group) -> None:
    """The journal is too small for what it has to say: no record counts as done that was not written."""
    group.prepare(journal=True, handler={"slots": 1})
    worker = group.worker()
    group.send([["ok"]] * 10)
    until(lambda: sum(group.outputs().values()) == 10, "they run")
    group.cluster.alter(group.journal, max_message_bytes="80")

    group.send([["ok"]] * 30 + [["raise"]] * 10, first=10)

    assert worker.wait(40) == exit_codes.HALTED
    assert sum(group.outputs().values()) == 10
    assert len(group.pending()) == 40, "what was not written is still to be done"
