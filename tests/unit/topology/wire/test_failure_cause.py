"""``dlqDeliveryFailureCause``: why a record failed, for people and programs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.policy.decision import Failure, FailureKind, Reason
from kafka_redelivery.topology.wire.headers import (
    CAUSE_LIMIT,
    FRAMES_LIMIT,
    FailureCause,
    failure_cause,
    read_failure_cause,
)
from tests.unit.topology.wire.test_headers import ANY_TEXT, FAILURES


@given(st.sampled_from(Reason), FAILURES)
def test_it_is_json_in_utf_8(reason: Reason, failure: Failure) -> None:
    """Any exception's text gives a cause that every JSON parser reads, with what can be said in UTF-8."""
    cause = json.loads(failure_cause(reason, failure).decode())
    assert cause.keys() == {"reason", "exception", "message", "frames"}
    assert cause["reason"] == reason.value
    assert failure.message.encode(errors="replace").decode().startswith(cause["message"])
    assert failure.exception.encode(errors="replace").decode().startswith(cause["exception"])


@given(ANY_TEXT.filter(bool), st.integers(0, 300), ANY_TEXT.filter(bool), st.integers(0, 10_000))
def test_it_is_never_longer_than_its_limit(exception: str, long_name: int, message: str, long_message: int) -> None:
    """However long and hostile the texts are: a traceback of megabytes must not stop a dead letter."""
    failure = Failure(FailureKind.RAISED, exception * (1 + long_name), message * (1 + long_message))
    assert len(failure_cause(Reason.REDELIVERIES_EXCEEDED, failure)) <= CAUSE_LIMIT


@pytest.mark.parametrize(
    "character",
    ["x", "\N{GREEK SMALL LETTER ALPHA}", "\N{GRINNING FACE}", "\n", '"', "\0", "\x1b", "\ud800"],
    ids=ascii,
)
def test_only_what_does_not_fit_is_cut(character: str) -> None:
    """The message is cut at a character, and uses the room there is: the longest one takes six bytes."""
    failure = Failure(FailureKind.RAISED, "ValueError", character * 10_000)
    assert CAUSE_LIMIT - 6 < len(failure_cause(Reason.REDELIVERIES_EXCEEDED, failure)) <= CAUSE_LIMIT


def test_the_name_of_the_class_is_kept_before_the_message() -> None:
    """A class name of up to 200 characters is there in full, however long the message is."""
    failure = Failure(FailureKind.RAISED, "E" * 200, "m" * 10_000)
    cause = json.loads(failure_cause(Reason.REDELIVERIES_EXCEEDED, failure))
    assert cause["exception"] == "E" * 200
    assert len(cause["message"]) > 500


def test_a_short_message_is_there_in_full() -> None:
    """Nothing is cut without need."""
    failure = Failure(FailureKind.RAISED, "ValueError", "sh\N{LATIN SMALL LETTER O WITH DIAERESIS}rt")
    assert json.loads(failure_cause(Reason.REJECTED, failure))["message"] == failure.message


@given(st.lists(ANY_TEXT, max_size=4), ANY_TEXT, st.integers(0, 10_000))
def test_frames_have_a_budget(frames: list[str], message: str, long: int) -> None:
    """Whatever names are, the header has its limit, the innermost frame is there, and the message gets the rest."""
    failure = Failure(FailureKind.RAISED, "ValueError", message * (1 + long), frames=tuple(frames))
    cause = failure_cause(Reason.REJECTED, failure)
    found = json.loads(cause)["frames"]
    assert len(cause) <= CAUSE_LIMIT
    assert len(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()) <= FRAMES_LIMIT
    assert bool(found) == bool(frames)


@given(st.integers(1, 300), st.integers(1, 9_999_999))
def test_the_place_does_not_depend_on_the_line(length: int, line: int) -> None:
    """The innermost frame stays the longest, and its start is cut if it is too long whatever the line is."""
    module = "m" * length
    frames = ("shop.run:1", "shop.run:2", f"{module}.call:{line}")
    cause, other = (
        read_failure_cause(failure_cause(Reason.REJECTED, Failure(FailureKind.RAISED, "E", "", frames=each)))
        for each in (frames, (f"{module}.call:1",))
    )
    assert cause.place is not None
    assert cause.place == other.place
    assert f"{module}.call".endswith(cause.place)
    assert cause.place.endswith(".call")


def test_a_cause_of_an_earlier_version_has_no_frames() -> None:
    """So its fingerprint stays that of the earlier version."""
    assert read_failure_cause(b'{"reason":"rejected","exception":"E","message":"m"}').place is None
    assert read_failure_cause(b'{"reason":"rejected","exception":"E","message":"m","frames":[]}').place == ""
    assert read_failure_cause(b'{"frames":17}') == FailureCause()
    shown = read_failure_cause(b'{"exception":"E","frames":["shop.run:7","shop.charge:12"]}')
    assert shown == FailureCause("", "E", "", ("shop.run:7", "shop.charge:12"))
    assert shown.place == "shop.charge"
