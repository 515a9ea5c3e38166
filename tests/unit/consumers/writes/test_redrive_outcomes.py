"""The process that ends a record that was sent again says what became of it; other records cost nothing."""

import json

import pytest

from kafka_redelivery.consumers.writes.redrive_outcomes import RedriveOutcomes
from kafka_redelivery.topology.policy.decision import (
    DeadLetter,
    Decision,
    Discard,
    Failure,
    FailureKind,
    Halt,
    Reason,
    Retry,
)
from kafka_redelivery.topology.policy.lineage import Lineage

FAILURE = Failure(FailureKind.RAISED)
SENT_AGAIN = Lineage("orders", 1, 7, 0, redrive="0123456789/5@42/2")
OUTCOMES = RedriveOutcomes("billing.dlq.actions", {"billing.dlq.actions": 4})


@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        (None, "recovered"),
        (DeadLetter(Reason.REJECTED, FAILURE), "dead_again"),
        (DeadLetter(Reason.EXPIRED, FAILURE), "expired"),
        (Discard(Reason.REJECTED, FAILURE), "discarded"),
        (Discard(Reason.EXPIRED, FAILURE), "expired"),
    ],
)
def test_what_ends_a_record(decision: Decision | None, outcome: str) -> None:
    """One record, for the letter that it was, in the partition of its slice."""
    record = OUTCOMES.record(SENT_AGAIN, decision, 9)
    assert record is not None
    assert (record.topic, record.partition, record.key) == ("billing.dlq.actions", 1, b"0123456789/5")
    assert json.loads(record.value or b"") == {
        "version": 1,
        "type": "outcome",
        "offset": 42,
        "number": 2,
        "outcome": outcome,
        "atMs": 9,
    }


@pytest.mark.parametrize("decision", [Retry(1, 2), Halt(FAILURE)])
def test_a_record_that_goes_on(decision: Decision) -> None:
    """It has no outcome yet."""
    assert OUTCOMES.record(SENT_AGAIN, decision, 9) is None


def test_any_other_record() -> None:
    """Neither one that was never sent again, nor one in a group without the topic."""
    assert OUTCOMES.record(SENT_AGAIN._replace(redrive=""), None, 9) is None
    assert RedriveOutcomes("billing.dlq.actions", {}).record(SENT_AGAIN, None, 9) is None
