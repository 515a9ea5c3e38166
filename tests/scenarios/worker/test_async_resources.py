"""What a handler class opens in ``__aenter__`` is open during each call, and is closed after the last one."""

from collections.abc import Mapping

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.handlers import AWAY, CLOSED
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import LONG_S, until


@pytest.mark.parametrize("handler", [{}, {"isolation": "process"}], ids=["tasks", "children"])
def test_a_connection_lasts_from_the_start_to_the_end(group: Group, handler: Mapping[str, object]) -> None:
    """The worker stops in the middle of a call: the connection is closed after the call has ended."""
    group.prepare(
        handler={"callable": "tests.scenarios.handlers:Connected", "slots": 2, **handler},
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )
    group.send([["ok"]] * 40)
    worker = group.worker()
    group.settle()
    group.send([["sleep 2"]], first=40)
    until(lambda: 40 in group.deliveries.attempts(), "the last call has begun")
    worker.stop()

    assert group.outputs() == exactly(range(41))
    assert group.dead() == {}
    closed = [float(line) for line in (group.folder / CLOSED).read_text().splitlines()]
    ended = max(call.at_s for call in group.deliveries.all() if call.what == "ended")
    assert len(closed) == (2 if handler else 1)
    assert max(closed) >= ended


def test_a_connection_that_cannot_be_opened_ends_the_start(group: Group) -> None:
    """As with any handler that cannot be loaded, before a record is handled."""
    group.prepare(handler={"callable": "tests.scenarios.handlers:Connected"})
    group.send([["ok"]])
    (group.folder / AWAY).touch()
    worker = group.worker()
    assert worker.wait(LONG_S) == exit_codes.CONFIGURATION
    assert "cannot be started: ConnectionError: the database is away" in worker.log.splitlines()[-1]
    assert group.deliveries.all() == []
