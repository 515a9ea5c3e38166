"""A member that closes answers the rebalances that it has not seen yet before its client ends the group."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_redelivery.transport.client_config import consumer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import Clock

ORDERS = TopicPartition("orders", 0)
_Callback = Callable[["Client", list[TopicPartition]], None]


class Client:
    """A client in which rebalances are queued. One call of :meth:`poll` makes one callback."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.queued: deque[str] = deque()
        self.endless: str = ""
        """The rebalance that always follows."""

        self.fails = False
        self.records = 0
        self.left: int | None = None
        """How many rebalances were queued when it was closed."""

    def subscribe(self, _topics: Sequence[str], **callbacks: _Callback) -> None:
        self._callbacks = callbacks

    def poll(self, timeout_s: float) -> object:
        self._clock.advance(timeout_s)
        if self.fails:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if self.queued or self.endless:
            self._callbacks[self.queued.popleft() if self.queued else self.endless](self, [ORDERS])
            return None
        self.records -= 1
        return object() if self.records >= 0 else None

    def pause(self, _partitions: Sequence[TopicPartition]) -> None:
        """A record may be on its way."""

    def incremental_assign(self, _partitions: Sequence[TopicPartition]) -> None:
        raise AssertionError("the client gives them back at once")

    def close(self) -> None:
        self.left = len(self.queued)


class Listener:
    """Receives what is revoked."""

    def __init__(self) -> None:
        self.gone: list[Partition] = []

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """Not called."""
        raise AssertionError(partitions)

    def revoked(self, partitions: Iterable[Partition]) -> None:
        self.gone += partitions

    lost = revoked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """That of the reader."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.transport.clients.reader.monotonic", clock)
    return clock


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Client:
    """That of the reader."""
    client = Client(clock)
    monkeypatch.setattr("kafka_redelivery.transport.clients.reader.open_consumer", lambda *_, **__: client)
    return client


def closed() -> Listener:
    """The listener of a reader that was closed."""
    reader, listener = GroupReader(consumer_config({}, group="billing", instance="billing.w1")), Listener()
    reader.subscribe(["orders"], listener)
    reader.close()
    return listener


def test_rebalances_are_answered_before_the_client_ends_the_group(client: Client) -> None:
    """The second of two callbacks within the close could wait for its answer for ever."""
    client.records = 3
    client.queued.extend(["on_revoke", "on_assign", "on_lost"])
    assert closed().gone == [Partition("orders", 0)] * 2
    assert client.left == 0


def test_a_close_without_a_rebalance_waits_for_nothing(client: Client, clock: Clock) -> None:
    """What was fetched is dropped."""
    client.records = 3
    began_s = clock()
    closed()
    assert (client.left, clock()) == (0, began_s)


def test_a_group_that_does_not_settle_is_waited_for_a_second(client: Client, clock: Clock) -> None:
    """The shutdown has a limit."""
    client.endless = "on_assign"
    began_s = clock()
    closed()
    assert client.left == 0
    assert clock() - began_s == pytest.approx(1.0, abs=0.11)


def test_a_client_that_has_failed_is_closed(client: Client) -> None:
    """It answers nothing any more."""
    client.fails = True
    closed()
    assert client.left == 0
