"""Records made from columns are those that the processor makes of rows."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import Handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Row, Rows, records_of
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.protocols import Partition

_HEADER = [{"key": "trace", "value": b"1"}]
_EXPIRED = [{"key": "JMSExpiration", "value": b"1"}]
_RAW = {"topic": "t"}
_JSON = {"topic": "t", "value": {"format": "json"}}
_BODIES = st.none() | st.binary(max_size=3)
_HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": st.text("aé\ufffd"), "value": _BODIES}), max_size=2)
_SENT = st.lists(st.tuples(_BODIES, _BODIES, _HEADERS), max_size=5)


@pytest.mark.parametrize(
    ("headers", "source", "kind"),
    [
        ([None, None], _RAW, Record),
        ([[], None], _RAW, Record),
        ([None, _HEADER], _RAW, Row),
        ([None, _EXPIRED], _RAW, Row),
        ([None, None], _JSON, Row),
    ],
)
def test_records_are_the_same(headers: list[object], source: dict[str, object], kind: type) -> None:
    """With headers, or a value to be decoded, each row is prepared as in a worker."""
    config = _config(source)
    (route, redelivered), rows = config.routes()["t"], _rows(headers)
    processor = Processor(Handler(print, takes_context=False, asynchronous=False), {}, lambda: 5, None)
    item = WorkItem(Lane(AssignedPartition(rows.partition, route, redelivered, Progress(0)), exclusive=True), [])

    given = records_of(rows, route, redelivered=False)

    assert {type(each) for each in given} == {kind}
    assert [_prepared(processor, item, each) for each in given] == [processor.prepare(item, row) for row in rows]


def test_an_expired_record_is_refused_though_it_has_no_header() -> None:
    """The policy sets the expiration of all records."""
    settings = {"match": "#", "dead-letter-address": "DLQ", "expiry-delay": 1}
    config = _config(_RAW, artemis={"address-settings": [settings]})
    (route, redelivered), rows = config.routes()["t"], _rows([None, None])
    processor = Processor(Handler(print, takes_context=False, asynchronous=False), {}, lambda: 10**13, None)
    item = WorkItem(Lane(AssignedPartition(rows.partition, route, redelivered, Progress(0)), exclusive=True), [])
    prepared = [_prepared(processor, item, each) for each in records_of(rows, route, redelivered=False)]
    assert [each.kind for each in prepared if isinstance(each, Failure)] == [FailureKind.EXPIRED] * 2


def test_rows_are_made_together() -> None:
    """They are the rows that are created one by one, also in a slice."""
    rows = _rows([None, _HEADER])[1:]
    alone, together = _fields(rows[0]), _rows([None, _HEADER])[1:]
    together.prepare([0])
    assert _fields(together[0]) == alone
    assert together[0] is together[0]


@given(_SENT, st.integers(0, 5), st.integers(0, 5))
def test_any_slice_has_the_same_records(sent: list[tuple[object, ...]], first: int, end: int) -> None:
    """Only headers inside the slice matter. Its records and failures are those of a worker."""
    config = _config(_RAW)
    (route, redelivered), rows = config.routes()["t"], _rows_of(sent)[first:end]
    processor = Processor(Handler(print, takes_context=False, asynchronous=False), {}, lambda: 5, None)
    item = WorkItem(Lane(AssignedPartition(rows.partition, route, redelivered, Progress(0)), exclusive=True), [])

    prepared = records_of(rows, route, redelivered=False)

    made = {type(each) for each in prepared}
    assert made <= ({Row} if any(headers for _, _, headers in sent[first:end]) else {Record})
    assert [_prepared(processor, item, each) for each in prepared] == [processor.prepare(item, row) for row in rows]


@given(st.lists(st.integers(0, 5), min_size=1), st.integers(1, 5))
def test_records_are_found_by_their_offsets(indexes: list[int], cut: int) -> None:
    """Consecutive or not, in any order, and also in parts that are joined."""
    rows = _rows_of([(None, b"%d" % number, None) for number in range(6)])
    offsets = [rows.offsets()[index] for index in indexes]
    joined = Rows.joined([rows[:cut], rows[cut:]])
    for found in (rows.of(offsets), joined.of(offsets)):
        assert found.offsets() == offsets
        assert [row.value() for row in found] == [b"%d" % index for index in indexes]


@given(_SENT, st.integers(0, 5), st.data())
def test_any_rows_are_made_together(sent: list[tuple[object, ...]], first: int, data: st.DataObject) -> None:
    """Whichever of their fields are null, and whichever records failed."""
    rows, apart = _rows_of(sent)[first:], _rows_of(sent)[first:]
    failed = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True)) if len(rows) else []
    rows.prepare(failed)
    for index in failed:
        assert _parts(rows[index]) == _parts(apart[index])
        assert (rows[index].key(), rows[index].value(), rows[index]._headers) == sent[first + index]


def _prepared(processor: Processor, item: WorkItem, given: Row | Record) -> Record | Failure:
    return given if isinstance(given, Record) else processor.prepare(item, given)


def _fields(row: Row) -> tuple[object, ...]:
    return row.topic(), row.partition(), row.offset(), row.key(), row.value(), row.headers(), row.timestamp()


def _parts(row: Row) -> tuple[object, ...]:
    """As :func:`_fields`, also of a row whose headers cannot be read."""
    return row.topic(), row.partition(), row.offset(), row.key(), row.value(), row._headers, row.timestamp()


def _config(source: Mapping[str, object], **sections: object) -> HandlerConfig:
    text = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere"},
        "sources": [source],
        "handler": {"callable": "m:f"},
        "pipeline": {"checkpoint": "c"},
        **sections,
    }
    return HandlerConfig(load_settings(json.dumps(text)), Path(), (), 20, "text")


def _rows(headers: list[object]) -> Rows:
    return _rows_of([(None, b"1", headers[0]), (b"k", None, headers[1])])


def _rows_of(sent: list[tuple[object, ...]]) -> Rows:
    number = len(sent)
    keys, values, headers = zip(*sent, strict=True) if number else ((), (), ())
    columns = [keys, values, headers, ["t"] * number, [3] * number, range(7, 7 + 2 * number, 2), range(number)]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return Rows(Partition("t", 3), pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
