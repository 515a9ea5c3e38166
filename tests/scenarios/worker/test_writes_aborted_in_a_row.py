"""A writer whose writes are aborted one after the other takes a fresh transactional id, and leaves nothing open."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_redelivery.transport.client_config import consumer_config, producer_config
from kafka_redelivery.transport.clients import owned_producer, takeover
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.takeover import Endurance
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import WriteAbortedError
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.scenarios.cluster import Cluster
from tests.scenarios.replaced_clients import opens

_TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "made up by a test")
_MUST_ABORT = KafkaError(KafkaError.UNKNOWN_PRODUCER_ID, "made up by a test", txn_requires_abort=True)
_MARKED_S = 15.0
"""Half of the time-out of a transaction that is left open."""

Make = Callable[[Endurance | None], TransactionalWriter]


@pytest.fixture
def make(
    cluster: Cluster, unique: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Yield a factory of writers, no transaction of which is committed under their first id."""

    class Refused(Producer):
        """A producer whose commits fail, if it has that id."""

        def __init__(self, config: dict[str, str], **further: Any) -> None:  # noqa: ANN401 - handed on as they are
            super().__init__(config, **further)
            self._fails = config["transactional.id"] == unique

        def commit_transaction(self, *args: float) -> None:
            if self._fails:
                self.flush(10)
                raise KafkaException(request.param)
            super().commit_transaction(*args)

    monkeypatch.setattr(takeover, "open_producer", opens(Refused))
    cluster.create(unique)
    kafka = {"bootstrap.servers": cluster.servers}
    reader = GroupReader(consumer_config(kafka, group=unique, instance=None))
    made: list[TransactionalWriter] = []

    def writer(chosen: Endurance | None) -> TransactionalWriter:
        config = producer_config(kafka, transactional_id=unique)
        made.append(TransactionalWriter(config, reader, chosen))
        return made[-1]

    yield writer
    for each in made:
        each.close()
    reader.close()


def _endurance(unique: str) -> Endurance:
    numbers = count(1)
    return Endurance(lambda *_, **__: None, lambda: f"{unique}.fresh{next(numbers)}", "one")


_EACH = pytest.mark.parametrize("make", [_TIMED_OUT, _MUST_ABORT], indirect=True, ids=["unknown", "abortable"])


@_EACH
def test_the_next_write_has_a_fresh_id(make: Make, cluster: Cluster, unique: str) -> None:
    """It is committed, and all can be read before the time-out of a transaction: none of those before it is open."""
    writer, record = make(_endurance(unique)), ProducerRecord(unique, 0, None, b"once", [])
    for _ in range(owned_producer._FRESH_AFTER):
        with pytest.raises(WriteAbortedError):
            writer.write([record], {})
    writer.write([record], {})
    cluster.wait_for_markers(unique, within_s=_MARKED_S)
    assert [each.value for each in cluster.read(unique)] == [b"once"]


@_EACH
def test_without_endurance_the_id_stays(make: Make, unique: str) -> None:
    """It is a lock of a job or a task, so another one would be none."""
    writer, record = make(None), ProducerRecord(unique, 0, None, b"never", [])
    for _ in range(2 * owned_producer._FRESH_AFTER):
        with pytest.raises(WriteAbortedError):
            writer.write([record], {})
