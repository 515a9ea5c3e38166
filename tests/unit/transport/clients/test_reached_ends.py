"""The end of a partition that was reached before it was given back says nothing about what comes after."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from kafka_redelivery.transport.client_config import consumer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.protocols import Partition, RebalanceListener
from tests.unit.transport.clients.test_position_before import Fetched

ORDERS = Partition("orders", 0)
END = Fetched(0, 9, KafkaError(KafkaError._PARTITION_EOF))


class Starts:
    """A listener that starts each partition at its beginning."""

    def assigned(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        return dict.fromkeys(partitions, 0)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing is held."""

    lost = revoked


class Client:
    """A client that reaches an end, and then calls back before it returns that."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[[object, list[TopicPartition]], None]] = {}
        self.calls: list[str] = []
        """The next callbacks: within ``poll``, and, if it has returned the end, within ``consume``."""

        self.ends = 0

    def subscribe(self, _topics: list[str], **callbacks: Callable[[object, list[TopicPartition]], None]) -> None:
        self.callbacks = callbacks

    def _call(self) -> None:
        if self.calls:
            self.callbacks[self.calls.pop(0)](self, [TopicPartition(*ORDERS)])

    def poll(self, _timeout_s: float) -> Message | None:
        if self.ends:
            self.ends -= 1
            return cast("Message", END)
        self._call()
        return None

    def consume(self, _maximum: int, _timeout_s: float) -> list[Message]:
        self._call()
        return []

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Fetch them."""

    resume = pause = assign = incremental_assign

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("calls", [["on_revoke"], ["on_revoke", "on_assign"]], ids=["revoked", "assigned again"])
def test_an_end_from_before_a_revocation_is_forgotten(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweeper would remove letters up to there that it has not read."""
    client = Client()
    monkeypatch.setattr("kafka_redelivery.transport.clients.reader.open_consumer", lambda *_, **__: client)
    reader = GroupReader(consumer_config({"bootstrap.servers": "127.0.0.1:1"}, group="billing", instance=None))
    reader.subscribe(["orders"], cast("RebalanceListener", Starts()))
    client.calls = ["on_assign"]
    reader.fetch(10, 0)
    client.ends = 1
    reader.fetch(10, 0)
    assert reader.reached_end(ORDERS) == 9
    client.ends, client.calls = 1, calls
    reader.fetch(10, 0)
    reader.fetch(10, 0)
    assert reader.reached_end(ORDERS) is None
    assert reader.take_reached_ends() == {}
    reader.close()
