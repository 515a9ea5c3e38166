"""A writer whose identity is taken inside a write says so, and does not take it back."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.scenarios.cluster import Cluster
from transport.client_config import consumer_config, producer_config
from transport.errors import WriterFencedError
from transport.protocols import Copy, Due
from transport.reader import Reader
from transport.writer import TransactedWriter

_LARGEST = 2000
_AHEAD_S = 4.0
"""How long a write waits for its time; taking its identity over takes far less."""

Writers = Callable[[], TransactedWriter]


@pytest.fixture
def writers(cluster: Cluster, unique: str) -> Iterator[Writers]:
    """Makes writers of one identity, and a topic with their name."""
    cluster.create(unique, partitions=3, config={"max.message.bytes": str(_LARGEST)})
    kafka = {"bootstrap.servers": cluster.servers}
    reader = Reader(consumer_config(kafka, group=unique, instance=None))
    made: list[TransactedWriter] = []

    def make() -> TransactedWriter:
        made.append(TransactedWriter(producer_config(kafka, transactional_id=unique), reader))
        return made[-1]

    yield make
    for writer in made:
        writer.close()
    reader.close()


def _copies(topic: str, sizes: list[int]) -> list[Copy]:
    return [Copy(topic, n % 3, b"key", os.urandom(size), []) for n, size in enumerate(sizes)]


def _in(seconds: float) -> Due:
    return Due(round((time.time() + seconds) * 1000), time.monotonic() + seconds)


@pytest.mark.parametrize("ahead_s", [None, 0.5])
def test_before_its_copies(unique: str, writers: Writers, ahead_s: float | None) -> None:
    """Whether the client says so in the commit or between the reports of the copies, it is one error."""
    older, newer = writers(), writers()

    with pytest.raises(WriterFencedError, match=f"another process took over transactional.id {unique}"):
        older.write(_copies(unique, [10] * 9), {}, None if ahead_s is None else _in(ahead_s))

    newer.write(_copies(unique, [10]), {})


def test_before_it_is_aborted(unique: str, writers: Writers) -> None:
    """A write that has to be undone does not take the identity back from who has it now."""
    older = writers()
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(older.write, _copies(unique, [10, 2 * _LARGEST]), {}, _in(_AHEAD_S))
        newer = writers()
        assert not write.done()
        with pytest.raises(WriterFencedError):
            write.result()

    newer.write(_copies(unique, [10]), {})
