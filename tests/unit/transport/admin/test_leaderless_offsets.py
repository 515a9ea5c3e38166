"""Offsets of partitions of which one has no leader."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import NoReturn, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.errors import AdminError, NoLeaderError
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.errors import BrokerUnavailableError, TransportError
from kafka_redelivery.transport.protocols import Partition

_LED, _LEADERLESS = Partition("DLQ.orders", 0), Partition("DLQ.orders", 1)


class _Failing(AdminCalls):
    """Gets no offsets."""

    def __init__(self, error: TransportError, listed: Callable[..., object]) -> None:
        super().__init__({"bootstrap.servers": "localhost:1"}, timeout_s=0.1)
        self._error = error
        self.client = cast("AdminClient", SimpleNamespace(list_topics=listed))

    def each(self, *_: object, **__: object) -> NoReturn:
        """Fail, as when the time is over."""
        raise self._error


def _listed(*, timeout: float) -> SimpleNamespace:
    assert timeout < 5
    leaders = {0: SimpleNamespace(id=0, leader=1), 1: SimpleNamespace(id=1, leader=-1)}
    return SimpleNamespace(topics={"DLQ.orders": SimpleNamespace(partitions=leaders)})


@pytest.mark.parametrize(
    "error", [AdminError("read offsets", "Broker: Leader not available"), BrokerUnavailableError("timed out")]
)
def test_the_error_names_the_partition_and_what_to_do(error: TransportError) -> None:
    """Kafka's own names none."""
    offsets = PartitionOffsets({}, calls=_Failing(error, _listed))
    with pytest.raises(NoLeaderError, match=r"DLQ\.orders-1 has no leader; start a broker") as raised:
        offsets.last_stable_offsets([_LED, _LEADERLESS])
    assert raised.value.partitions == (_LEADERLESS,)
    with pytest.raises(type(error), match=str(error)):
        offsets.last_stable_offsets([_LED])


def test_another_error_stays_if_kafka_does_not_say_who_leads() -> None:
    """Nothing is known of leaders."""

    def silent(**_: object) -> NoReturn:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    error = BrokerUnavailableError("no Kafka broker answers")
    with pytest.raises(BrokerUnavailableError, match="no Kafka broker answers"):
        PartitionOffsets({}, calls=_Failing(error, silent)).high_watermarks([_LEADERLESS])
