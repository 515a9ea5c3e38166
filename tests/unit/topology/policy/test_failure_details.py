"""What is written down about a failure."""

import pytest

from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.failure_details import FailureDetails


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


def test_text_of_this_project_stays() -> None:
    """It is made of numbers and names of topics."""
    failure = Failure(FailureKind.DEADLINE, "DeadlineExceeded", "the handler took longer than 3.0 s")
    assert FailureDetails.CLASS_ONLY.of(failure) is failure


def test_a_cause_without_text_is_the_class() -> None:
    """Without a colon that announces a text."""
    assert Failure(FailureKind.RAISED, "ValueError", "x").cause == "ValueError: x"
    assert Failure(FailureKind.RAISED, "ValueError").cause == "ValueError"
