"""Values, numbers and texts as the pages show them."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from kafka_redelivery.cli.console.pages.letter import Node, tree_of
from kafka_redelivery.cli.console.rendering import ago, prose, share, short_number, size, span, sparkline


def test_a_tree_has_what_a_value_has() -> None:
    """Names and items in their order, bytes as base64, times and decimals as texts."""
    tree = tree_of({"a": [1, True, None], "b": b"\x00", "c": Decimal("1.50"), "d": datetime(2026, 3, 1, tzinfo=UTC)})
    assert (tree.kind, tree.text) == ("object", "4 fields")
    first, *rest = tree.children
    assert first == Node(
        "a", "array", "3 items", (Node("0", "number", "1"), Node("1", "boolean", "true"), Node("2", "null", "null"))
    )
    assert [each.text for each in rest] == ["AA==", "1.50", "2026-03-01T00:00:00+00:00"]


def test_a_large_or_deep_value_is_cut_and_says_so() -> None:
    """A page stays small, whatever a record has."""
    wide = tree_of(list(range(100_000)))
    assert wide.children[-1].kind == "more"
    assert len(wide.children) < 3000
    deep: object = "end"
    for _ in range(150):
        deep = [deep]
    node, levels = tree_of(deep), 0
    while node.children:
        node, levels = node.children[0], levels + 1
    assert levels < 100
    assert node.kind == "more"
    assert tree_of("x" * 50_000).text.endswith("(30000 more characters)")


def test_control_characters_do_nothing() -> None:
    """They are shown as escapes, in names, too."""
    tree = tree_of({"a\x1b": "b\u202e"})
    assert (tree.children[0].name, tree.children[0].text) == ("a\\x1b", "b\\u202e")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (span(90_000), "1.5 min"),
        (span(0), "0 s"),
        (span(86_400_000 * 12), "12 d"),
        (ago(1000, 61_000), "1.0 min ago"),
        (ago(61_000, 1000), "in 1.0 min"),
        (ago(1000, 1500), "now"),
        (share(1, 1000), "< 1 %"),
        (share(999, 1000), "> 99 %"),
        (share(0, 5), "0 %"),
        (share(0, 0), ""),
        (short_number(999), "999"),
        (short_number(1_234_567), "1.23 M"),
        (size(None), "null"),
        (size(2048), "2.0 KiB"),
    ],
)
def test_numbers(shown: str, expected: str) -> None:
    """In as few characters as say it."""
    assert shown == expected


def test_a_sparkline_is_a_picture_with_a_label() -> None:
    """Its label is escaped."""
    picture = sparkline([0, 1, 10], '"><script>')
    assert picture.count("<rect") == 2
    assert "<script>" not in picture


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run `redelivery topology apply`, then\nlook", "run <code>redelivery topology apply</code>, then<br>look"),
        ("<b> in `<i>`", "&lt;b&gt; in <code>&lt;i&gt;</code>"),
        ("one ` alone", "one ` alone"),
        ("\x1b`\u202e`", "\\x1b<code>\\u202e</code>"),
    ],
)
def test_a_message_has_commands_and_lines(text: str, expected: str) -> None:
    """And nothing in it is markup of its own."""
    assert prose(text) == expected
