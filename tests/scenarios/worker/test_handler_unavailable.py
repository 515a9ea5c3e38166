"""What the handler's process needs at its start is away: records wait, uncounted, and the worker goes on by itself."""

import pytest

from tests.scenarios.handlers import AWAY
from tests.scenarios.running import Group, exactly
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


def test_records_wait_until_the_handler_can_be_loaded_again(group: Group) -> None:
    """The policy allows no redelivery, so that a counted attempt would be the last: that of the killer is."""
    port = free_port()
    group.prepare(
        partitions=1,
        handler={"callable": "tests.scenarios.handlers:Needing", "isolation": "process", "slots": 1},
        metrics={"port": port, "host": "127.0.0.1"},
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )
    worker = group.worker()
    group.send([["ok"]])
    until(lambda: group.outputs() == exactly([0]), "the handler is loaded")
    away = group.folder / AWAY
    away.touch()
    group.send([["kill"], *[["ok"]] * 4], first=1)
    until(lambda: "it is tried again in 2 s" in worker.log, "loading it has failed again and again")
    assert "ConnectionError: the database is away" in readiness(port)
    assert value_of(port, "redelivery_halted_partitions", refused_by=group.source, cause="unavailable") == 1

    away.unlink()
    until(lambda: group.outputs() == exactly([0, 2, 3, 4, 5]), "the others are handled")
    group.stop()
    assert group.deliveries.attempts() == {n: [1] for n in range(6)}
    assert group.dead() == exactly([1])
