"""What has expired is decided in one place, and removed by a stricter rule than hidden."""

import pytest

from kafka_redelivery.topology.wire.headers import (
    Fate,
    expired_dead_letter_headers,
    fate_of,
    has_expired,
    read_letter_expiration,
)

NOW = 1_780_000_000_000
GROUP = "billing"


def letter(expiration: bytes | None, group: bytes | None = b"billing") -> list[tuple[str, bytes | None]]:
    """Headers of a dead letter."""
    headers: list[tuple[str, bytes | None]] = [("_AMQ_ORIG_ADDRESS", b"orders")]
    if group is not None:
        headers.append(("_AMQ_ORIG_QUEUE", group))
    if expiration is not None:
        headers.append(("JMSExpiration", expiration))
    return headers


@pytest.mark.parametrize(
    ("expiration_ms", "expired"),
    [(0, False), (-1, False), (NOW + 1, False), (NOW, True), (NOW - 1, True), (1, True)],
)
def test_it_has_expired_from_that_time_on(expiration_ms: int, expired: bool) -> None:  # noqa: FBT001 - a table
    """0 and below stand for never, whatever the time."""
    assert has_expired(expiration_ms, NOW) is expired


def test_a_dead_letter_may_be_removed_when_it_has_expired() -> None:
    """Neither earlier nor later, where the clocks agree."""
    assert fate_of(letter(b"%d" % NOW), GROUP, NOW - 1000, NOW - 2000) == Fate(NOW, own_group=True, source="orders")


@pytest.mark.parametrize("expiration", [None, b"0", b"-5", b"tomorrow", b"", b"9" * 20])
def test_what_has_no_expiration_that_can_be_read_is_never_removed(expiration: bytes | None) -> None:
    """A malformed expiration removes no record."""
    assert fate_of(letter(expiration), GROUP, NOW - 1000, NOW).expires_ms == 0


@pytest.mark.parametrize("group", [None, b"", b"invoicing", b"billing "])
def test_what_is_not_of_this_group_is_not_ours(group: bytes | None) -> None:
    """Another group may want to keep what expires of its own."""
    assert not fate_of(letter(b"1", group), GROUP, NOW, 0).own_group


def test_a_slow_clock_of_the_worker_removes_nothing_early() -> None:
    """It appended an hour before a record that stands before it, so its expiration is an hour too early, too."""
    hour = 3_600_000
    assert fate_of(letter(b"%d" % (NOW - hour + 5000)), GROUP, NOW - hour, NOW).expires_ms == NOW + 5000


def test_a_source_that_is_no_text_is_taken_as_it_is() -> None:
    """A malformed header must not stop the sweep."""
    assert fate_of([("_AMQ_ORIG_ADDRESS", b"\xff")], GROUP, NOW, 0).source == "\ufffd"
    assert fate_of([("_AMQ_ORIG_ADDRESS", None)], GROUP, NOW, 0).source == ""


def test_a_dead_letter_that_was_moved_has_expired() -> None:
    """Whatever was sent before it was moved is not sent again; a record that expired itself waits."""
    assert read_letter_expiration(letter(b"%d" % NOW), "rejected") == NOW
    moved = expired_dead_letter_headers(letter(b"5"), NOW)
    assert read_letter_expiration(moved, "rejected") == NOW
    expired = [("_AMQ_ACTUAL_EXPIRY", b"3")]
    assert read_letter_expiration(expired, "expired") == 0
    assert read_letter_expiration(expired_dead_letter_headers([*expired, *letter(b"5")], NOW), "expired") == NOW
    assert read_letter_expiration([("_AMQ_ACTUAL_EXPIRY", b"soon")], "rejected") == 0
