"""The size of writes after aborted and after fast ones."""

from kafka_redelivery.consumers.writes.engine import WriteLimits


def test_a_write_is_half_as_large_as_the_aborted_one() -> None:
    """Down to one record."""
    limits = WriteLimits(1000, 10_000)
    assert not limits.reduced
    limits.aborted(300, 9000)
    assert (limits.records, limits.bytes, limits.reduced) == (150, 4500, True)
    limits.aborted(200, 100)
    assert (limits.records, limits.bytes) == (75, 50)
    limits.aborted(75, 50)
    assert (limits.records, limits.bytes) == (37, 25)
    assert limits.full(37, 0)
    for _ in range(20):
        limits.aborted(1, 0)
    assert (limits.records, limits.bytes) == (1, 1)
    assert [limits.full(0, size) for size in (0, 1, 2)] == [False, True, True]


def test_fast_writes_double_the_limits() -> None:
    """Up to the configured ones. A slow write leaves them as they are."""
    limits = WriteLimits(1000, 10_000)
    limits.aborted(300, 9000)
    limits.committed(20.0)
    assert (limits.records, limits.bytes) == (150, 4500)
    limits.committed(0.1)
    assert (limits.records, limits.bytes) == (300, 9000)
    limits.committed(0.1)
    limits.committed(0.1)
    assert (limits.records, limits.bytes, limits.reduced) == (1000, 10_000, False)


def test_only_the_number_of_records() -> None:
    """The scheduler does not limit the size."""
    limits = WriteLimits(1000)
    limits.aborted(10)
    assert limits.full(5, 0)
    assert not limits.full(4, 2**40)
