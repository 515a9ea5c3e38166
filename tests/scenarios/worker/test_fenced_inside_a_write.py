"""A writer that is fenced inside a write does not take its transactional id back: it stops, or takes another."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_redelivery.transport.client_config import consumer_config, producer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.takeover import Endurance
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import WriteAbortedError, WriterFencedError
from kafka_redelivery.transport.protocols import ProducerRecord, ReleaseTime
from tests.scenarios.cluster import Cluster

_LARGEST = 2000
_AHEAD_S = 15.0
"""How long a write waits for its release time; taking over its transactional id takes far less."""

Writers = Callable[..., TransactionalWriter]


@pytest.fixture
def writers(cluster: Cluster, unique: str) -> Iterator[Writers]:
    """Yield a factory of writers that share a transactional id, and create a topic of that name."""
    cluster.create(unique, partitions=3, config={"max.message.bytes": str(_LARGEST)})
    kafka = {"bootstrap.servers": cluster.servers}
    reader = GroupReader(consumer_config(kafka, group=unique, instance=None))
    made: list[TransactionalWriter] = []

    def make(endurance: Endurance | None = None) -> TransactionalWriter:
        made.append(TransactionalWriter(producer_config(kafka, transactional_id=unique), reader, endurance))
        return made[-1]

    yield make
    for writer in made:
        writer.close()
    reader.close()


def _records(topic: str, sizes: list[int]) -> list[ProducerRecord]:
    return [ProducerRecord(topic, n % 3, b"key", os.urandom(size), []) for n, size in enumerate(sizes)]


def _in(seconds: float) -> ReleaseTime:
    return ReleaseTime(round((time.time() + seconds) * 1000), time.monotonic() + seconds)


@pytest.mark.parametrize("ahead_s", [None, 0.5])
def test_fenced_before_its_records(unique: str, writers: Writers, ahead_s: float | None) -> None:
    """The error is the same whether the client reports it at the commit or between two delivery reports."""
    older, newer = writers(), writers()

    with pytest.raises(WriterFencedError, match=f"another process took over transactional.id {unique}"):
        older.write(_records(unique, [10] * 9), {}, None if ahead_s is None else _in(ahead_s))

    newer.write(_records(unique, [10]), {})


def test_a_writer_that_reclaims_its_id(unique: str, writers: Writers) -> None:
    """It fences the process that had the id meanwhile, but only before it has written something itself."""
    older, newer = writers(), writers()
    older.reclaims = True

    with pytest.raises(WriteAbortedError):
        older.write(_records(unique, [10]), {})

    older.write(_records(unique, [10]), {})
    with pytest.raises(WriterFencedError):
        newer.write(_records(unique, [10]), {})
    writers()
    with pytest.raises(WriterFencedError):
        older.write(_records(unique, [10]), {})


def test_fenced_before_it_is_aborted(unique: str, writers: Writers) -> None:
    """A write that must be aborted does not fence the newer writer."""
    older = writers()
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(older.write, _records(unique, [10, 2 * _LARGEST]), {}, _in(_AHEAD_S))
        newer = writers()
        assert not write.done()
        with pytest.raises(WriterFencedError):
            write.result()

    newer.write(_records(unique, [10]), {})


def _ignore(client: str, problem: str | None, *, call: bool = False) -> None:
    pass


def test_fenced_in_a_trial(unique: str, writers: Writers) -> None:
    """A writer that endures goes on with another transactional id; the newer one keeps the old id."""
    older = writers(Endurance(_ignore, lambda: f"{unique}.fresh", "one"))
    newer = writers()
    records = _records(unique, [10])

    with pytest.raises(WriteAbortedError, match=f"this one goes on with transactional.id {unique}.fresh") as raised:
        older.trial(records[0], 1.0)

    assert raised.value.fenced
    older.trial(records[0], 1.0)
    newer.write(records, {})
    older.write(records, {})
