"""The values of the client protocols."""

from kafka_redelivery.transport.protocols import Partition


def test_a_partition_reads_like_in_tools_of_kafka() -> None:
    """In logs and messages it is the topic and the number, with a dash."""
    assert f"{Partition('orders.eu', 3)}@7" == "orders.eu-3@7"
