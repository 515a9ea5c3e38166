"""What is written down about a failure."""

import pytest

from kafka_redelivery.topology.policy.decision import Failure, FailureDetails, FailureKind


@pytest.mark.parametrize(
    "kind",
    [
        FailureKind.RAISED,
        FailureKind.REDELIVER,
        FailureKind.REJECTED,
        FailureKind.UNDECODABLE,
        FailureKind.BAD_HEADERS,
        FailureKind.CRITICAL,
    ],
)
def test_only_the_class_of_an_exception_is_left(kind: FailureKind) -> None:
    """Text that may quote a record goes; what else decides about the record stays."""
    failure = Failure(kind, "ValueError", "card 4711", 5)
    assert FailureDetails.CLASS_ONLY.of(failure) == Failure(kind, "ValueError", "", 5)
    assert FailureDetails.FULL.of(failure) is failure


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (FailureKind.DEADLINE, "the handler took longer than 3.0 s"),
        (FailureKind.INVALID_VALUE, "$.amount: int_parsing"),
    ],
)
def test_text_of_this_project_stays(kind: FailureKind, message: str) -> None:
    """It is made of numbers, names of topics and names of the user's types."""
    failure = Failure(kind, "DeadlineExceeded", message)
    assert FailureDetails.CLASS_ONLY.of(failure) is failure


def test_a_cause_without_text_is_the_class() -> None:
    """Without a colon that announces a text."""
    assert Failure(FailureKind.RAISED, "ValueError", "x").cause == "ValueError: x"
    assert Failure(FailureKind.RAISED, "ValueError").cause == "ValueError"


def test_only_class_only_leaves_texts_out() -> None:
    """Readers of dead letters leave out texts and keys by it, too."""
    assert [each.class_only for each in (FailureDetails.FULL, FailureDetails.CLASS_ONLY)] == [False, True]
