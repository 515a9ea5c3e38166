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
    ],
)
def test_partition_of_a_group_is_that_of_kafka(group: str, code: int) -> None:
    """Hash codes of Java, including a negative one: 2**31 becomes 0, not an error."""
    assert partition_of(group, 2**31) == code
    assert partition_of(group, 50) == code % 50
