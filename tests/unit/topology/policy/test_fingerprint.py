import re
import string
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_redelivery.topology.policy.fingerprint import fingerprint, normalise

_WORDS = st.text(string.ascii_letters + " ", min_size=1)
_KINDS = (
    st.integers(min_value=0).map(str),
    st.floats(min_value=0, allow_infinity=False, allow_nan=False).map("{:.3f}".format),
    st.uuids().map(str),
    st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    # With a digit and a letter: otherwise it is a number, or a word that may be anything.
    st.binary(min_size=8, max_size=20)
    .map(bytes.hex)
    .filter(lambda text: any(map(str.isdigit, text)) and not text.isdigit()),
    st.text(string.ascii_letters + string.digits + " ").map(repr),
    st.text(string.ascii_letters + string.digits + " ").map('"{}"'.format),
)


@pytest.mark.parametrize(
    ("message", "normal"),
    [
        ("no plane N515MQ", "no plane <id>"),
        ("line 12, column 7", "line <number>, column <number>"),
        ("took 1,250.5 ms", "took <number> ms"),
        ("branch -7 of 2-3", "branch <number> of <number>-<number>"),
        ("order 6f1c8a52-0b0e-4a39-93f1-cc2b8f2f6d11 is gone", "order <uuid> is gone"),
        ("at 2026-03-01T12:00:00.123Z and 2026-03-01", "at <time> and <time>"),
        ("at 2026-03-01 12:00:00,123 +02:00", "at <time>"),
        ("after 12:00:01", "after <time>"),
        ("<Order object at 0x7f3a2c1b>", "<Order object at <id>>"),
        ("commit deadbeef1", "commit <id>"),
        ("column 'a b' and \"c\"", "column <text> and <text>"),
        ("it can't be, isn't it", "it can't be, isn't it"),
        ('cut off at "the mid', "cut off at <text>"),
        ("two\n  lines\t", "two lines"),
        ("", ""),
    ],
)
def test_variable_parts_become_placeholders(message: str, normal: str) -> None:
    """Each kind of variable part has its placeholder; other words stay."""
    assert normalise(message) == normal


_PAIR = st.sampled_from(_KINDS).flatmap(lambda kind: st.tuples(kind, kind))


@given(_WORDS, _PAIR, _WORDS)
def test_the_variable_part_does_not_change_the_fingerprint(before: str, pair: tuple[str, str], after: str) -> None:
    """Messages that differ only in a variable part have the same fingerprint."""
    one, other = (fingerprint("E", normalise(f"{before} {part} {after}")) for part in pair)

    assert one == other


@given(st.text())
@example("''0")
def test_a_normal_form_has_no_variable_part(message: str) -> None:
    """The normal form of any text has no digit and no line break."""
    normal = normalise(message)

    assert not re.search(r"\d|\n", normal)


def test_unbalanced_quotes_do_not_merge_failures() -> None:
    """A lone quote does not hide the text after the next quoted part."""
    assert normalise("unexpected ' in 'x': missing column") == "unexpected ' in <text>: missing column"


@given(st.text(), st.text(), st.text())
def test_the_class_is_part_of_the_fingerprint(one: str, other: str, message: str) -> None:
    """Failures of different classes have different fingerprints."""
    assert (fingerprint(one, message) == fingerprint(other, message)) == (
        one.encode(errors="replace") == other.encode(errors="replace")
    )


def test_fingerprints_are_stable() -> None:
    """Archives contain fingerprints, so the same failure must always have the same one."""
    assert fingerprint("UnknownPlaneError", normalise("no plane N515MQ")) == "ce9a881322cafbcb"
