"""A worker that runs out of memory halts without committing the record, and a restart delivers it again."""

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import LONG_S


@pytest.mark.parametrize("handler", ["scripted", pytest.param("scripted_async", marks=pytest.mark.long)])
def test_a_memory_error_halts_the_worker(group: Group, handler: str) -> None:
    """The failure is not counted: no retry, no dead letter, and the next worker delivers attempt 1 again."""
    group.prepare(handler={"callable": f"tests.scenarios.handlers:{handler}", "slots": 2})
    group.cluster.produce(
        group.source,
        [script(n, ["memory"] if n == 10 else ["ok"], partition=0) for n in range(20)]
        + [script(n, ["ok"], partition=1) for n in range(20, 30)],
    )
    worker = group.worker()
    assert worker.wait(LONG_S) == exit_codes.HALTED
    assert f"{group.source}-0@10" in worker.log.splitlines()[-1]
    assert group.cluster.committed(group.name, group.source)[group.source, 0] == (10, "")
    assert 10 not in group.outputs()

    group.worker()
    group.settle()
    group.stop()
    assert group.deliveries.attempts()[10] == [1, 1]
    assert group.outputs() == exactly(range(30))
    assert group.dead() == {}
    assert group.cluster.read(group.tier("200ms")) == []
