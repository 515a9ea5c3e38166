"""Records in and behind an open transaction of another producer are counted, found, and named as a fault."""

import json

import pytest

from kafka_redelivery.consumers.operations import status
from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import in_process
from tests.scenarios.running import Group, script
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


def test_a_pause_that_no_reader_sees_yet(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written, which the command says, and the transaction is named that hides it."""
    group.prepare()
    control = f"{group.name}.control"
    producer = group.cluster.begin(control, [script(0, ["ok"])])
    producer.flush(45)
    paused = in_process("pause", "--all", "--wait", "0s", file=group.file)
    assert (paused.code, paused.out.splitlines()[0][:13]) == (exit_codes.OK, "paused: group"), paused.err
    monkeypatch.setattr(status, "_OPEN_MS", -60_000)
    shown = in_process("status", file=group.file)
    assert shown.code == exit_codes.FAILED
    assert "paused: group" not in shown.out
    assert "are in or behind a transaction that is open since 20" in shown.out
    assert f"abort --topic {control} --partition 0 --start-offset" in shown.out
    producer.abort_transaction(45)
    until(lambda: "paused: group" in in_process("status", file=group.file).out, "all see it")


def test_what_no_reader_sees_yet(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short transaction is no fault. When it has ended, nothing is hidden any more."""
    group.prepare(partitions=1)
    producer = group.cluster.begin(group.source, [script(0, ["ok"])])
    producer.flush(45)
    group.cluster.produce(group.source, [script(n, ["ok"]) for n in range(1, 51)])

    seen = json.loads(in_process("status", "--json", file=group.file).out)
    [source] = [each for each in seen["unfinished"] if each["role"] == "source"]
    assert (source["records"], source["behindOpenTransactions"]) == (0, 51)
    assert "transaction" not in str(seen["faults"])
    monkeypatch.setattr(status, "_OPEN_MS", -60_000)
    shown = in_process("status", file=group.file)
    assert shown.code == exit_codes.FAILED
    assert "51 more in or behind open transactions" in shown.out
    assert (
        f"{group.source}-0: 51 records from offset 0 on are in or behind a transaction that is open since 20"
        in shown.out
    )
    assert f"abort --topic {group.source} --partition 0 --start-offset 0" in shown.out
    for wanted in (f"{group.source}-0@7", "k7"):
        found = in_process("find", wanted, file=group.file)
        assert found.code == exit_codes.OK, found.out
        assert f"{group.source}-0@7: not finished in its source" in found.out
        assert "behind an open transaction, whose first record was written at 20" in found.out

    producer.commit_transaction(45)
    group.cluster.wait_for_markers(group.source)
    seen = json.loads(in_process("status", "--json", file=group.file).out)
    [source] = [each for each in seen["unfinished"] if each["role"] == "source"]
    assert (source["records"], source["exact"], source["behindOpenTransactions"]) == (51, True, 0)
    group.worker()
    until(lambda: len(group.outputs()) == 51, "all are handled")
    group.stop()
