"""A process that Kafka has forgotten as a producer, because it wrote nothing for long, writes again at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.clients.takeover import Endurance
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import WriteAbortedError, WriterFencedError
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.scenarios.cluster import Cluster
from tests.scenarios.forgetting import await_forgotten, forgetting_kafka, known
from tests.scenarios.letters import emptied, expiring, kept, letter
from tests.scenarios.redriving import dead_letter, dlq, sent
from tests.scenarios.running import SHORT_SESSION, Group, exactly
from tests.scenarios.waiting import until

_NUMBER: Final = 20
_FORGOTTEN: Final = "Kafka has forgotten transactional.id "
_CLASSIC: Final = SHORT_SESSION
_CONSUMER: Final = {"group.protocol": "consumer"}
_EACH = pytest.mark.parametrize("kafka", [_CLASSIC, _CONSUMER], ids=["classic", "consumer"])


@pytest.fixture(scope="module")
def forgetful() -> Iterator[EmbeddedKafka]:
    """Run a broker that soon forgets."""
    with forgetting_kafka() as broker:
        yield broker


@pytest.fixture
def group(forgetful: EmbeddedKafka, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A consumer group at that broker."""
    found = Group(Cluster(forgetful.bootstrap_servers), unique, tmp_path)
    try:
        yield found
    finally:
        found.close()


@_EACH
@pytest.mark.slow
def test_worker_and_scheduler(group: Group, kafka: dict[str, object]) -> None:
    """Records that fail after a week of silence are retried and released once each, with fresh transactional ids."""
    group.prepare(kafka=kafka)
    group.send([["raise", "ok"]])
    worker, scheduler = group.worker(), group.scheduler()
    group.settle()
    await_forgotten(group.cluster, f"{group.name}.worker.w1", f"{group.name}.scheduler.s1")

    group.send([["raise", "ok"]] * _NUMBER, first=1)
    group.settle()

    for process in (worker, scheduler):
        assert process.log.count(_FORGOTTEN) == 1
        assert "fenced" not in process.log
    group.stop()
    assert group.outputs() == exactly(range(_NUMBER + 1))
    assert group.dead() == exactly([])


@_EACH
def test_a_standby_of_eight_days(group: Group, kafka: dict[str, object]) -> None:
    """A scheduler that has no partitions, and so never writes, releases everything once it is needed."""
    group.prepare(partitions=1, kafka=kafka)
    active = group.scheduler("s1")
    worker = group.worker()
    group.send([["raise", "ok"]])
    group.settle()
    standby = group.scheduler("s2")
    until(lambda: len(group.cluster.members(f"{group.name}.scheduler")) == 2, "the standby is a member")
    await_forgotten(group.cluster, f"{group.name}.scheduler.s2")

    active.kill()
    group.send([["raise", "ok"]] * _NUMBER, first=1)
    group.settle()

    assert f"{_FORGOTTEN}{group.name}.scheduler.s2" in standby.log
    worker.stop()
    standby.stop()
    assert group.outputs() == exactly(range(_NUMBER + 1))


def test_expired_dead_letters_are_moved(group: Group) -> None:
    """The first dead letter that a scheduler moves in a week reaches its expiry topic, once."""
    group.prepare(1, policyEntry=expiring(3_600_000, expiryAddress="EXP.{topic}"))
    scheduler = group.scheduler()
    until(lambda: " reads " in scheduler.log, "the scheduler runs")
    sweeper = f"{group.name}.sweeper.s1"
    until(lambda: known(group.cluster, sweeper), "the sweeper has its id")
    await_forgotten(group.cluster, sweeper)

    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(_NUMBER)])

    until(lambda: emptied(group), "all are removed")
    assert f"{_FORGOTTEN}{sweeper}" in scheduler.log
    group.stop()
    assert kept(group, f"EXP.{group.source}") == list(range(_NUMBER))


def test_a_slow_job_of_redrive(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """The id of its second slice, which it takes at the start, expires during the first. Each letter is sent once."""
    group.prepare()
    letters = [*range(0, 16, 2), 1, 3]  # the even ones are the first slice
    dead_letter(group, letters)

    done = dlq(group, "redrive", "--yes", "--rate", "1")

    assert done.code == 0, done
    assert sent(group) == exactly(letters)
    assert _FORGOTTEN in caplog.text


def test_the_owner_of_the_id_keeps_it(forgetful: EmbeddedKafka, unique: str) -> None:
    """Kafka answers the older of two processes in the same way. It takes a fresh id, so the newer one keeps the old."""
    cluster = Cluster(forgetful.bootstrap_servers)
    cluster.create(unique)
    config = producer_config({"bootstrap.servers": cluster.servers}, transactional_id=unique)
    endurance = Endurance(lambda *_, **__: None, lambda: f"{unique}.fresh", "one")
    older = TransactionalWriter(config, None, endurance)
    until(lambda: known(cluster, unique), "it has its id")
    await_forgotten(cluster, unique)
    newer = TransactionalWriter(config, None, endurance)  # Kafka gives it the old name, with a producer id of its own

    with pytest.raises(WriteAbortedError, match=f"{_FORGOTTEN}{unique},.* goes on with .*{unique}.fresh") as raised:
        older.write([_record(unique, 0)], {})
    newer.write([_record(unique, 1)], {})  # raises if it is fenced
    older.write([_record(unique, 2)], {})

    assert not raised.value.fenced
    for each in (older, newer):
        each.close()
    assert sorted(each.value or b"" for each in cluster.read_written(unique)) == [b"1", b"2"]


def test_a_lock_is_taken_again(forgetful: EmbeddedKafka, unique: str) -> None:
    """A writer of a task or of a job does not change its id, which is a lock: it stops, and its successor writes."""
    cluster = Cluster(forgetful.bootstrap_servers)
    cluster.create(unique)
    config = producer_config({"bootstrap.servers": cluster.servers}, transactional_id=unique)
    idle = TransactionalWriter(config, None)
    until(lambda: known(cluster, unique), "it has its id")
    await_forgotten(cluster, unique)

    with pytest.raises(WriterFencedError) as raised:
        idle.write([_record(unique, 0)], {})

    assert (raised.value.expired, raised.value.as_member) == (True, False)
    idle.close()
    successor = TransactionalWriter(config, None)
    successor.write([_record(unique, 0)], {})
    successor.close()
    assert [each.value for each in cluster.read_written(unique)] == [b"0"]


def _record(topic: str, n: int) -> ProducerRecord:
    return ProducerRecord(topic, 0, None, b"%d" % n, [])
