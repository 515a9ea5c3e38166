"""Values on a terminal: in a stable order, folded, and without a character that does something."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kafka_redelivery.cli.views.letter import print_diff, tree_of
from kafka_redelivery.dead_letters.decoding import decode
from kafka_redelivery.dead_letters.differences import changes
from kafka_redelivery.serdes.codec import JsonCodec, RawCodec
from kafka_redelivery.serdes.plain import hex_dump, plain


def printed(value: object, *, full: bool = False) -> str:
    """A value as the command prints it into a file."""
    console = Console(file=io.StringIO(), width=100_000, highlight=False, markup=False, emoji=False)
    console.print(tree_of("value", value, full=full))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_tree() -> None:
    """Fields stand in their order, and each type can be told from a text that looks like it."""
    value: dict[str, object] = {
        "z": None,
        "a": [1, 2.5, {"x": "null"}],
        "empty": {},
        "none": [],
        "bytes": b"\0\xff",
        "at": datetime(2026, 11, 23, 2, tzinfo=UTC),
        "of day": time(2),
        "amount": Decimal("12.30"),
        "id": UUID(int=7),
        "nan": float("nan"),
        "[red]": ":bank:",
        "yes": True,
    }
    assert printed(value).splitlines() == [
        "value:",
        "├── z: null",
        "├── a:",
        "│   ├── 0: 1",
        "│   ├── 1: 2.5",
        "│   └── 2:",
        '│       └── x: "null"',
        "├── empty: {}",
        "├── none: []",
        "├── bytes: base64 AP8=",
        "├── at: 2026-11-23T02:00:00+00:00",
        "├── of day: 02:00:00",
        "├── amount: 12.30",
        "├── id: 00000000-0000-0000-0000-000000000007",
        "├── nan: nan",
        '├── [red]: ":bank:"',
        "└── yes: true",
    ]
    assert json.loads(json.dumps(plain(value), allow_nan=False))["bytes"] == {"base64": "AP8="}
    assert plain({"took": timedelta(minutes=1, seconds=2.5)}) == {"took": "PT1M2.5S"}


def test_long_values_are_folded() -> None:
    """The tree of a value of megabytes has some hundred lines, unless all are asked for."""
    value = {"text": "x" * 1_000_000, "bytes": b"y" * 1000, "list": [[[n] * 100] * 100 for n in range(100)]}
    folded = printed(value)
    assert len(folded) < 60_000
    assert "... (1000000 characters, --full)" in folded
    assert "... (1000 bytes, --full)" in folded
    assert "more (--full)" in folded
    small = {"text": "x" * 1000, "list": list(range(100))}
    assert "--full" not in printed(small, full=True)
    assert "99: 99" in printed(small, full=True)


@given(
    value=st.recursive(
        st.text() | st.binary() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_no_character_does_anything(value: object) -> None:
    """Neither an escape sequence nor a bidirectional control reaches the terminal, from names and values."""
    for full in (False, True):
        text = printed(value, full=full)
        assert all(each.isprintable() or each == "\n" for each in text)


def test_deceiving_texts() -> None:
    """Line breaks cannot forge a line, and a text cannot run backwards."""
    text = printed({"a\x1b[2J\nb": "\u202ered\n├── state: recovered\x9b"})
    assert len(text.splitlines()) == 2
    assert r"a\x1b[2J\nb" in text
    assert r"\u202ered\n" in text


def test_a_hex_dump() -> None:
    """Offset, two groups of eight bytes, and ASCII."""
    data = b"\0\0\0\0\7 Hello\x1b\xff|" + bytes(600)
    lines = list(hex_dump(data, full=False))
    assert lines[0] == "00000000  00 00 00 00 07 20 48 65  6c 6c 6f 1b ff 7c 00 00  |..... Hello..|..|"
    assert lines[-1] == "... 102 more bytes (--full)"
    assert len(list(hex_dump(data, full=True))) == 39
    assert list(hex_dump(b"", full=True)) == []


def test_what_a_person_reads_of_raw_bytes() -> None:
    """JSON is JSON, other text is text, and numbers are not taken for JSON."""
    assert decode(RawCodec(), b'{"a": 1}').value == {"a": 1}
    assert decode(RawCodec(), b"17").value == "17"
    assert decode(RawCodec(), b"\xff").value == b"\xff"
    assert decode(RawCodec(), None).value is None


def test_a_value_without_end_is_shown_as_bytes() -> None:
    """Deep nesting neither ends the command nor fills the screen."""
    for codec in (RawCodec(), JsonCodec()):
        for levels in (300, 100_000):
            found = decode(codec, b"[" * levels + b"]" * levels)
            assert isinstance(found.value, str | bytes)
            assert found.problem or isinstance(codec, RawCodec)
    assert decode(JsonCodec(), b"[" * 150 + b"]" * 150).problem == ""


def test_changes_by_path() -> None:
    """What is missing on a side lacks its field, and true is not 1."""
    before = {"a": [1, 2], "b": {"c": "x"}, "gone": None, "t": 1}
    after = {"a": [1, 3, 4], "b": {"c": "x"}, "new": None, "t": True}
    assert list(changes(before, after)) == [
        {"path": "$.a[1]", "before": 2, "after": 3},
        {"path": "$.a[2]", "after": 4},
        {"path": "$.gone", "before": None},
        {"path": "$.t", "before": 1, "after": True},
        {"path": "$.new", "after": None},
    ]


def test_a_diff_of_deceiving_lines() -> None:
    """A line of a diff is one line."""
    console = Console(file=io.StringIO(), width=100, highlight=False, markup=False, emoji=False)
    print_diff(console, "a\nb", "a\nc\x1b[2J", ("old", "new"))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == ["--- old", "+++ new", "@@ -1,2 +1,2 @@", " a", "-b", r"+c\x1b[2J"]
