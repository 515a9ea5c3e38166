"""A topic that refuses the clock of a process, and a record that is invalid by itself, in one write or one batch."""

from dataclasses import replace

import pytest

from tests.scenarios.running import Group, script
from tests.scenarios.waiting import until

_KEYLESS = 5
"""The number of a record without a key. A compacted topic refuses what its handler emits for it."""

_TIME_LIMIT = {"message.timestamp.after.max.ms": "1000"}
_COMPACTED = {"cleanup.policy": "compact"}


@pytest.mark.parametrize("mode", ["transacted", "auto"])
@pytest.mark.parametrize("together", [True, False], ids=["one topic", "two topics"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_the_clock_decides_about_no_record(group: Group, mode: str, partitions: int, *, together: bool) -> None:
    """What is invalid by itself is dead-lettered, and nothing else, as soon as the time is right or does not matter.

    In mode ``auto`` the records that are tried meanwhile may be written twice.
    """
    policy = {"maximumRedeliveries": 0}
    config = _COMPACTED | _TIME_LIMIT if together else _COMPACTED
    group.prepare(partitions=partitions, output=config, policyEntry={"redeliveryPolicy": policy}, mode=mode)
    limited = group.output if together else f"{group.name}-limited"
    if not together:
        group.cluster.create(limited, config=_TIME_LIMIT)
    records = [script(n, ["ok"], partition=0) for n in range(10)]
    records[_KEYLESS] = replace(records[_KEYLESS], key=None)
    records += [script(n, [f"to {limited}"], partition=partitions - 1) for n in range(10, 20)]
    group.cluster.produce(group.source, records)
    worker = group.worker(program=("-m", "tests.scenarios.clock_ahead"))
    until(lambda: "correct the clock of this machine" in worker.log, "the cause is named")
    if partitions == 2 and not together:
        until(lambda: group.dead().keys() == {_KEYLESS}, "what does not need the topic goes on")
    group.cluster.alter(limited, message_timestamp_after_max_ms="3600000")
    group.settle()
    group.stop()
    written = group.outputs()
    if not together:
        written += type(written)(int(record.value or b"-1") for record in group.cluster.read(limited))
    assert written.keys() == set(range(20)) - {_KEYLESS}
    assert written.total() == 19 or mode == "auto"
    assert group.dead().keys() == {_KEYLESS}
    assert group.dead().total() == 1 or mode == "auto"
