"""The process that ends a record that was sent again says what became of it; other records cost nothing."""

import json
from dataclasses import replace

import pytest

from kafka_redelivery.consumers.flow.session import Sessions
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
from tests.unit.consumers.batches import RAISED, REJECTED, batch_of, handled, shared
from tests.unit.consumers.records import lineage, ready, redelivery

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
    """A record that was never sent again has no outcome, and nothing is looked up for it."""
    assert OUTCOMES.record(SENT_AGAIN._replace(redrive=""), None, 9) is None
    assert RedriveOutcomes("billing.dlq.actions", {}, _never).record(SENT_AGAIN._replace(redrive=""), None, 9) is None


def _never(_topics: list[str]) -> dict[str, int]:
    raise AssertionError


def test_the_topic_is_created_later(caplog: pytest.LogCaptureFixture) -> None:
    """It is looked up at most once a second, and only until it is there; each outcome that is lost is in the log."""
    cluster: dict[str, int] = {}
    asked: list[float] = []
    now_s = 100.0

    def look_up(_topics: list[str]) -> dict[str, int]:
        asked.append(now_s)
        return cluster

    outcomes = RedriveOutcomes("billing.dlq.actions", {}, look_up, lambda: now_s)
    for _ in range(3):
        assert outcomes.record(SENT_AGAIN, None, 9) is None
    assert asked == [100.0]
    now_s = 161.0
    assert outcomes.record(SENT_AGAIN, None, 9) is None
    said = [record.getMessage() for record in caplog.records]
    assert [text.split(" records")[0] for text in said] == ["the outcome of 1", "the outcome of 3"]
    assert "there is no topic billing.dlq.actions" in said[0]
    now_s = 162.0
    cluster["billing.dlq.actions"] = 4
    for _ in range(2):
        record = outcomes.record(SENT_AGAIN, None, 9)
        assert record is not None
        assert record.partition == 1
    assert asked == [100.0, 161.0, 162.0]


def test_each_record_that_ends_has_its_outcome_in_the_write() -> None:
    """Produced for the record that it is about. One that is retried has none yet."""
    again = [lineage(90 + n, deliveries=0)._replace(redrive=f"0a/0@{n}/1") for n in range(3)]
    messages = [redelivery(n, each) for n, each in enumerate([lineage(99), *again])]
    known = replace(shared(), look_up_topics=lambda topics: dict.fromkeys(topics, 4))
    batch = batch_of(handled(ready(), *messages, failures={2: RAISED, 3: REJECTED}), common=known)
    noted = [
        (consumed and consumed.offset, json.loads(record.value or b"")["outcome"])
        for record, consumed in zip(batch.produced, batch.produced_for, strict=True)
        if record.topic == "billing.dlq.actions"
    ]
    assert noted == [(1, "recovered"), (3, "dead_again")]


def test_a_record_that_is_not_acknowledged_has_no_outcome_yet() -> None:
    """Its handler has returned, and may still reject it."""
    messages = [redelivery(n, lineage(90 + n, deliveries=0)._replace(redrive=f"0a/0@{n}/1")) for n in range(2)]
    item = handled(ready(), *messages)
    item.unacknowledged = [(1, Sessions().open().deliver(item.lane, messages[1]))]
    known = replace(shared(), look_up_topics=lambda topics: dict.fromkeys(topics, 4))
    batch = batch_of(item, common=known)
    assert [consumed and consumed.offset for consumed in batch.produced_for] == [0]
    assert batch.tally.report(0.5).redriven == {("orders", "recovered"): 1}
