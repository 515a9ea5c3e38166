"""While the control topic cannot be read, only partitions wait that need it: those without a committed offset."""

from pathlib import Path
from time import monotonic

import pytest

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.control_topic import read_control
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients.enduring_control import EnduringControlTopic
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.running import SHORT_SESSION, Group, exactly, script
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until

_HALTED = "redelivery_halted_partitions"
_SOON_S = 30.0


@pytest.mark.slow
def test_a_rebalance_while_the_control_topic_has_a_bad_record(group: Group) -> None:
    """Partitions with a committed offset go on at once in their next owner. A new one waits alone, and then goes on."""
    port = free_port()
    group.prepare(kafka=SHORT_SESSION, leaveOnStop=True)
    leaving = [group.worker("w1"), group.scheduler("s1")]
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=n % 2) for n in range(10)])
    until(lambda: group.outputs() == exactly(range(10)), "the records are handled")
    scheduler = group.scheduler("s2")
    worker = group.start("worker", "w2", f"metrics.port={port}", "metrics.host=127.0.0.1")
    until(lambda: len(group.cluster.members(group.name)) == 2, "both workers are members")
    until(lambda: len(group.cluster.members(f"{group.name}.scheduler")) == 2, "both schedulers are members")

    control, key = f"{group.name}.control", f"partition/{group.source}/9"
    group.cluster.produce(control, [Sent(b"forged", key.encode(), (), 0)])
    for process in leaving:
        process.stop()
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=n % 2) for n in range(10, 20)])
    until(lambda: group.outputs() == exactly(range(20)), "the other worker and the other scheduler go on")

    group.cluster.grow(group.source, 3)
    labels = {"refused_by": group.source, "cause": "control"}
    until(lambda: value_of(port, _HALTED, **labels) == 1, "the new partition is halted")
    until(lambda: f"{group.source}-2 is halted" in readiness(port), "the probe names it")
    assert f"the record {key!r} of the control topic was not written by this project" in readiness(port)
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=n % 3) for n in range(20, 32)])
    others = exactly([*range(20), *(n for n in range(20, 32) if n % 3 != 2)])
    until(lambda: group.outputs() == others, "the other partitions go on")

    group.cluster.produce(control, [Sent(None, key.encode(), (), 0)])
    until(lambda: group.outputs() == exactly(range(32)), "the new partition starts at its log start")
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    assert worker.running
    assert scheduler.running
    group.stop()
    saved = {each.key: each.value or b"" for each in group.cluster.read(control)}
    assert b"metadata" in saved[f"partition/{group.source}/2".encode()], "the position is saved at the end"


def test_what_is_saved_is_dropped_as_soon_as_the_topic_can_be_read(
    kafka: EmbeddedKafka, cluster: Cluster, unique: str
) -> None:
    """Before a partition is read if that is possible. A bad record makes nothing wait."""
    settings: Config = {"bootstrap.servers": kafka.bootstrap_servers}
    first, second = Partition("orders", 0), Partition("orders", 1)
    last = Checkpoint(7, "")
    cluster.create(unique)
    control = EnduringControlTopic(settings, unique, unique, lambda: 1)
    control.save({first: last, second: last})
    control.begin([first])
    assert (control.problem(), control.state.saved) == (None, {second: last})

    cluster.produce(unique, [Sent(b"forged", b"source/orders")])
    control.begin([second])
    assert "'source/orders' of the control topic was not written by this project" in (control.problem() or "")
    cluster.produce(unique, [Sent(None, b"source/orders")])
    until(lambda: control.problem() is None, "it is read again")
    assert control.state.saved == {second: last}
    control.note_first_offset(second, 8)
    control.note_unstarted(Partition("orders", 2), 5)
    control.close()
    found = read_control(settings, unique, unique)
    assert (found.saved, found.committed, found.unstarted) == ({}, {first: 7, second: 8}, {("orders", 2): 5})


def test_no_rebalance_waits_for_a_broker_that_does_not_answer(tmp_path: Path, unique: str) -> None:
    """The topic is read when it answers again."""
    with EmbeddedKafka(data_dir=tmp_path / "kafka") as kafka:
        Cluster(kafka.bootstrap_servers).create(unique)
        control = EnduringControlTopic({"bootstrap.servers": kafka.bootstrap_servers}, unique, unique, lambda: 1)
        kafka.stop()
        began_s = monotonic()
        control.begin([])
        control.begin([])
        assert monotonic() - began_s < _SOON_S
        assert "no answer yet" in (control.problem() or "")
        kafka.start()
        until(lambda: control.problem() is None, "it is read again")
        control.close()
