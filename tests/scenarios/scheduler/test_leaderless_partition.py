"""Partitions without a leader: all others are trimmed and shown; processes start, handle these, and skip nothing."""

import json
import logging
import shutil
from pathlib import Path

import pytest

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.admin.trimming import trim
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.commands import redelivery
from tests.scenarios.letters import now_ms
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

_RETRIED = ("raise", "ok")


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(600)
def test_partitions_on_a_lost_disk(tmp_path: Path, unique: str, caplog: pytest.LogCaptureFixture) -> None:
    """Those of the first disk go on; without the second one, the partitions there have no leader."""
    home, lost = tmp_path / "kafka", tmp_path / "kafka" / "lost"
    with EmbeddedKafka(data_dir=home) as kafka:
        group = Group(Cluster(kafka.bootstrap_servers), unique, tmp_path)
        group.prepare(topics={"auditHorizon": "1s"})
        group.scheduler()
        group.worker()
        _send(group, 0, 4)
        group.settle()
        group.stop()
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
    lost.mkdir()
    formatted = (home / "data" / "meta.properties").read_text(encoding="utf-8").splitlines(keepends=True)
    own = [line for line in formatted if not line.startswith("directory.id")]  # the broker adds the other one's
    (lost / "meta.properties").write_text("".join(own), encoding="utf-8")
    two_disks = EmbeddedKafka(data_dir=home, port=port, properties={"log.dirs": f"{home / 'data'},{lost}"})
    with two_disks:
        group.cluster.grow(group.source, 3)  # new partitions go to the disk that has fewer
        group.apply()
        assert {path.name for path in lost.glob(f"{unique}.*")} >= {f"{group.source}-2", f"{group.tier('200ms')}-2"}
    lost.rename(tmp_path / "away")
    lost.write_text("no directory")
    with two_disks:
        try:
            trimmed = trim(load_settings(group.file.read_text()), now_ms() + 60_000)
            assert {partition for partition in trimmed if partition.topic == group.tier("200ms")} == {
                (group.tier("200ms"), 0),
                (group.tier("200ms"), 1),
            }
            [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
            assert f"{group.tier('200ms')}-2" in warning
            started = group.scheduler(), group.worker()
            _send(group, 4, 8)
            until(lambda: group.outputs() == exactly(range(8)), "the records of the other partitions are handled")
            for process in started:
                assert f"{group.source}-2" in process.own_log
            without = f"{group.tier('200ms')}-2", f"{group.source}-2"
            halts = [f"{each} is halted, other partitions are not: it has no committed offset" for each in without]
            until(
                lambda: all(halt in process.own_log for process, halt in zip(started, halts, strict=True)),
                "the partitions without a leader are assigned",
            )
            _send(group, 8, 12)
            until(lambda: group.outputs() == exactly(range(12)), "the records of the other partitions are handled")
            _commands_work(group)
            late = _waits_for_the_lost_partition(group, unique, tmp_path / "late")
        finally:
            group.close()
    lost.unlink()
    (tmp_path / "away").rename(lost)
    for replica in [each for each in lost.iterdir() if (home / "data" / each.name).is_dir()]:
        shutil.rmtree(replica)  # the broker has made it again, empty
    with two_disks:
        group.cluster.produce(group.source, [script(12, ["ok"], partition=2)])
        late.worker()
        until(lambda: late.outputs() == exactly([12]), "what came before its new worker is handled")
        late.close()


def _waits_for_the_lost_partition(group: Group, unique: str, folder: Path) -> Group:
    """Return another group, which reads the same source from its end on, and whose worker has waited for its leader."""
    folder.mkdir()
    late = Group(group.cluster, f"{unique}-late", folder)
    kafka = {"auto.offset.reset": "latest"}
    late.configure(kafka=kafka, sources=[{"topic": group.source, "value": {"format": "json"}}])
    late.cluster.create(late.output)
    late.apply()
    worker = late.worker()
    until(lambda: f"{group.source}-2 is halted" in worker.own_log, "it has the partition without a leader")
    late.stop()
    return late


def _commands_work(group: Group) -> None:
    """What is known is shown, and what is not is said; ``apply`` changes nothing there."""
    status = redelivery("status", "--json", file=group.file)
    assert f"{group.source}-2 has no leader" in status.out
    assert json.loads(status.out)["members"]
    checked = redelivery("topology", "check", file=group.file)
    assert f"{group.source}: partition 2 has no leader" in checked.out
    assert "no record would be lost" in checked.out
    assert "nothing to do" in redelivery("topology", "apply", file=group.file).out
    _unreadable_partitions_are_named(group)


def _unreadable_partitions_are_named(group: Group) -> None:
    """Commands that only read answer from the other partitions; one that changes something says what to do first."""
    group.cluster.produce(group.source, [script(20, ["reject"], partition=0)])
    until(lambda: group.dead() == exactly([20]), "one is a dead letter")
    lost = [f"{group.dead_letters}-2", f"{group.name}.dlq.actions-2"]
    for command in ("list", "summary"):
        done = redelivery("dlq", command, "--json", file=group.file)
        found = json.loads(done.out)
        assert (done.code, found["letters"], found["unreadPartitions"]) == (0, 1, lost), done
        assert f"{', '.join(lost)} have no leader" in done.err
    [letter] = json.loads(redelivery("dlq", "list", "--each", "--json", file=group.file).out)["each"]
    for words in (["show", letter["id"]], ["jobs"]):
        done = redelivery("dlq", *words, file=group.file)
        assert (done.code, f"{lost[1]} has no leader" in done.err) == (0, True), done
    waiting = redelivery("waiting", "list", file=group.file)
    assert waiting.code == 0, waiting
    assert f"{group.tier('200ms')}-2 has no leader" in waiting.err
    searched = redelivery("find", letter["sourceId"], file=group.file)
    assert (searched.code, "a dead letter" in searched.out) == (0, True), searched
    assert f"{lost[0]}, {group.ready}-2, {group.tier('200ms')}-2 have no leader" in searched.err
    refused = redelivery("dlq", "redrive", "--yes", file=group.file)
    assert refused.code != 0
    assert f"{lost[0]} has no leader; start a broker" in refused.err


def _send(group: Group, first: int, end: int) -> None:
    """Send records that are retried, to the first two partitions."""
    group.cluster.produce(group.source, [script(n, _RETRIED, partition=n % 2) for n in range(first, end)])
