import pytest

from kafka_redelivery.transport.activemq.broker_message import _murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_as_java(key: bytes, expected: int) -> None:
    """The values of Kafka's own test, ``UtilsTest.testMurmur2``."""
    assert _murmur2(key) == expected % 2**32
    assert partition_of_key(key, 7) == (expected & 0x7FFFFFFF) % 7
