"""Rows of a DataFrame become outcomes: a failure of one row is that of its record, and so is the lack of any row."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.computed import FILTERED, ComputedOutcomes, Computing
from kafka_redelivery.pipeline.handler.items import Handled
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import Partition

FAILURE = pa.struct(
    [("kind", pa.string()), ("exception", pa.string()), ("message", pa.string()), ("after_ms", pa.int64())]
)
ENTRY = pa.struct([("failure", FAILURE), ("sent", pa.bool_()), ("key", pa.binary()), ("value", pa.binary())])
COLUMNS = SCHEMA.append(pa.field("outcomes", pa.list_(ENTRY)))

GOOD: dict[str, object] = {"sent": True, "value": b"good"}
RETRY: dict[str, object] = {"failure": {"kind": "redeliver", "exception": "Redeliver", "message": "m", "after_ms": 7}}


def handled(*records: dict[str, Any], topic: str = "t", computing: Computing = Computing("out")) -> Handled:  # noqa: B008
    """The outcomes of records from offset 5 on."""
    document = {"group": "g", "kafka": {"bootstrap.servers": "nowhere"}, "sources": [{"topic": "t"}]}
    config = HandlerConfig(load_settings(json.dumps(document)), Path(), (), 30, "")
    base = {"topic": topic, "partition": 0, "timestamp": 1, "value": b"v", "headers": []}
    found = [base | {"offset": 5 + n} | each for n, each in enumerate(records)]
    # Rows are often a part of a batch.
    whole = pa.RecordBatch.from_pylist([base | {"offset": 4, "outcomes": [RETRY]}, *found], COLUMNS)
    rows = Rows(Partition(topic, 0), whole.slice(1))
    (one,) = ComputedOutcomes(computing, config.routes()).handle(rows)
    return one


def sent(found: Handled) -> list[tuple[int, bytes | None]]:
    """The outputs, each with the index of its record."""
    (emitted,) = found.outcomes.emitted
    assert emitted.topic == "out"
    return [(row["row"], row["value"]) for row in emitted.table.to_pylist()]


def test_rows_are_outputs_failures_or_missing() -> None:
    """A record with two rows, of which one has failed, sends nothing."""
    no_row: dict[str, Any] = {"outcomes": []}
    found = handled(
        {"outcomes": [GOOD]}, {"outcomes": [GOOD, RETRY]}, no_row, {"outcomes": [GOOD, GOOD | {"value": b"two"}]}
    )

    assert found.outcomes.number == 4
    assert dict(found.outcomes.failures) == {
        1: Failure(FailureKind.REDELIVER, "Redeliver", "m", 7),
        2: Failure(FailureKind.RAISED, "NoRow", "the DataFrame has no row for this record"),
    }
    assert sent(found) == [(0, b"good"), (3, b"good"), (3, b"two")]


def test_a_row_that_is_not_sent_is_a_success() -> None:
    """One with a null value that is sent is a tombstone."""
    kept: dict[str, object] = {"sent": False}
    tombstone: dict[str, object] = {"sent": True}
    found = handled({"outcomes": [kept]}, {"outcomes": [kept, GOOD]}, {"outcomes": [tombstone]})

    assert not found.outcomes.failures
    assert sent(found) == [(1, b"good"), (2, None)]


def test_a_record_without_a_row_may_be_discarded() -> None:
    """It is counted, and is no failure of the policy."""
    no_row: dict[str, Any] = {"outcomes": []}
    found = handled(no_row, {"outcomes": [GOOD]}, computing=Computing("out", FILTERED))
    assert [(index, each.kind) for index, each in found.outcomes.failures] == [(0, FailureKind.FILTERED)]


def test_rows_of_a_record_that_has_expired_do_not_count() -> None:
    """No handler would have got it."""
    expired = {"headers": [{"key": "JMSExpiration", "value": b"1"}], "outcomes": [GOOD]}
    found = handled(expired, {"outcomes": [GOOD]})

    assert [(index, each.kind) for index, each in found.outcomes.failures] == [(0, FailureKind.EXPIRED)]
    assert sent(found) == [(1, b"good")]


def test_redeliveries_keep_their_lineage() -> None:
    """Each has one; that of damaged headers is made of what is there."""
    names = {
        "_AMQ_ORIG_ADDRESS": b"t",
        "_AMQ_ORIG_QUEUE": b"g",
        "_AMQ_ORIG_MESSAGE_ID": b"t-0@3",
        "JMSTimestamp": b"1",
        "JMSXDeliveryCount": b"2",
        "_AMQ_SCHED_DELIVERY": b"9",
    }
    headers = [{"key": name, "value": value} for name, value in names.items()]
    found = handled({"headers": headers, "outcomes": [GOOD]}, {"outcomes": [GOOD]}, topic="g.ready.t")

    assert found.outcomes.lineages[0].deliveries == 2
    assert [(index, each.kind) for index, each in found.outcomes.failures] == [(1, FailureKind.BAD_HEADERS)]
    assert sent(found) == [(0, b"good")]


def test_nothing_is_sent_without_a_target() -> None:
    """As with a handler that emits nothing."""
    assert not handled({"outcomes": [GOOD]}, computing=Computing(None)).outcomes.emitted


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"timestamp": None, "outcomes": [GOOD]}, "t-0@5, which is not in this micro-batch"),
        ({"outcomes": [{"failure": {"kind": "critical"}}]}, "_failure of t-0@5 is no reject"),
        ({"outcomes": [{"failure": {"kind": None}}]}, "_failure of t-0@5 is no reject"),
    ],
)
def test_what_no_transformation_should_return_halts(record: dict[str, Any], text: str) -> None:
    """Nothing is decided about such a record."""
    with pytest.raises(HaltedError, match=text):
        handled(record)
