import pytest

from kafka_redelivery.transport.admin.broker_time import partition_of


@pytest.mark.parametrize(
    ("group", "code"),
    [
        ("", 0),
        ("a", 97),
        ("abc", 96354),
        ("polygenelubricants", 0),
        ("hello world", 1794106052),
        ("\U0001f600", 1772899),
        ("orders", 1008770331),
    ],
)
def test_partition_of_a_group_is_that_of_kafka(group: str, code: int) -> None:
    """Hash codes of Java, negative ones as absolute values, the smallest as 0."""
    assert partition_of(group, 2**31) == code
    assert partition_of(group, 50) == code % 50
