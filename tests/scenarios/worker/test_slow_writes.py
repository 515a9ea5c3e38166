"""A write that is slower than its time-out is repeated in smaller pieces, and no record is handled again for it."""

from collections import Counter

import pytest

from tests.crash.hasty import PROGRAM
from tests.scenarios.quotas import limit_producer
from tests.scenarios.running import Group

_NUMBER = 50
_OUTPUT_BYTES = 20_000
_BYTES_PER_S = 60_000.0
"""The outputs are far more than the broker accepts in the ten seconds for which it averages the rate."""


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_a_producer_quota(group: Group, mode: str) -> None:
    """All records together do not fit into the time-out, which is 3 s here."""
    client_id = f"{group.name}.slow"
    limit_producer(group.cluster.servers, client_id, _BYTES_PER_S)
    group.prepare(mode=mode, kafka={"producer.client.id": client_id, "producer.batch.size": 40_000})
    group.send([[f"big {_OUTPUT_BYTES}"]] * _NUMBER)
    worker = group.worker(program=PROGRAM)
    group.settle(within_s=300)
    assert "was aborted" in worker.log, "no write was slow, so the test proves nothing"
    assert worker.running
    group.stop()

    calls = group.deliveries.counts()
    assert set(calls) == set(range(_NUMBER))
    assert sum(calls.values()) <= 1.25 * _NUMBER
    copies = Counter(record.value for record in group.cluster.read(group.output))
    assert len(copies) <= sum(calls.values()), "a handler emits other bytes at each call"
    if mode == "transacted":
        assert sum(copies.values()) == len(copies) == _NUMBER
    else:
        assert _NUMBER <= sum(copies.values()) <= 2 * _NUMBER
