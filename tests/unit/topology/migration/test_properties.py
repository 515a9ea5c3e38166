"""Java's format of properties."""

import pytest

from kafka_redelivery.topology.migration.placeholders import read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\r\nb: 2\rc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n! b=2\n\n  c = 3", {"c": "3"}),
        ("a=1 \nb=\n", {"a": "1 ", "b": ""}),
        ("a=1\\\n   2\\\\\nb=3\\\\\\\n4", {"a": "12\\", "b": "3\\4"}),
        (r"a\ b=1" + "\n" + r"c\:d\=e=f\tg\u00e4", {"a b": "1", "c:d=e": "f\tgä"}),
        ("Ã\x85=Ã\xa0\x0b\u2028", {"Ã\x85": "Ã\xa0\x0b\u2028"}),
        ("a=b=c:d # e", {"a": "b=c:d # e"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_properties(text: str, expected: dict[str, str]) -> None:
    """Only Java's blanks and line ends separate, and blanks at the end of a value belong to it."""
    assert read_properties(text) == expected


def test_a_value_of_many_lines() -> None:
    """It takes no longer than its length needs."""
    assert len(read_properties("a=" + "b\\\n" * 500_000)["a"]) == 500_000
