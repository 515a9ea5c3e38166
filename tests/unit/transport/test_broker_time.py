import pytest

from transport.broker_time import partition_of


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
def test_a_groups_partition_is_found_as_kafka_finds_it(group: str, code: int) -> None:
    """Java's hash codes, among them one that is negative there: 2**31 becomes 0, not an error."""
    assert partition_of(group, 2**31) == code
    assert partition_of(group, 50) == code % 50
