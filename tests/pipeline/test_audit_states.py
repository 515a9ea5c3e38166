"""The state of a record for each combination of copies and journal entries."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.audit.evidence import Evidence, coverage
from kafka_redelivery.pipeline.audit.snapshot import Snapshot, SourceRange, Span, TopicKind
from kafka_redelivery.pipeline.audit.states import RANGE_SCHEMA, count_by_origin, record_states
from kafka_redelivery.pipeline.frames import Frames
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan
from kafka_redelivery.transport.protocols import Partition

pytestmark = [pytest.mark.spark]

_NOW_MS: Final = 10_000
_LIFE_MS: Final = 1000
_FIRST, _COVERED = 10, 20
"""The first audited offset, and the offset from which the journal must cover every record."""

_SINCE_MS: Final = 9000
"""The time of the first journal entry."""

_MARK, _OLDER = "AAAA22222222", "AAAA11111111"
"""The mark of each source, and that of an older topic of its name."""

_TIERS, _READY, _LETTERS = "g.retry.1s", "g.ready.in", "DLQ.in"


class Entry(NamedTuple):
    """An entry of the journal."""

    outcome: str
    at_ms: int = 9500
    late: bool = False


class Copy(NamedTuple):
    """A copy in a topic of the group."""

    kind: TopicKind
    finished: bool = False
    deliveries: int = 1
    at_ms: int = 9500
    late: bool = False
    expired: bool = False
    redriven: bool = False


class Case(NamedTuple):
    """The evidence of a record and its expected state: where it waits, or why it is a finding."""

    state: str | None
    detail: str | None = None
    status: str | None = "done"
    entries: Sequence[Entry] = ()
    copies: Sequence[Copy] = ()
    topic: str = "in"


_ACKED, _DEAD_LETTERED, _RETRIED = Entry("acked"), Entry("dead_lettered"), Entry("retried")
_TIER, _GIVEN, _LETTER = Copy(TopicKind.TIER), Copy(TopicKind.TIER, finished=True), Copy(TopicKind.LETTER)
_WAITS, _HANDLED = Copy(TopicKind.READY), Copy(TopicKind.READY, finished=True)
_AGAIN = Copy(TopicKind.READY, deliveries=0, redriven=True)

_CASES: Final = (
    Case("acked", entries=[_ACKED]),
    Case("pending", "unread", "unread"),
    Case("pending", "in_hand", "in_hand"),
    Case("pending", "in_place", "in_place", [_RETRIED]),
    Case("pending", "tier", entries=[_RETRIED], copies=[_TIER]),
    Case("pending", "ready", entries=[_RETRIED], copies=[_GIVEN, _WAITS]),
    Case("recovered", entries=[_RETRIED, Entry("recovered")], copies=[_GIVEN, _HANDLED]),
    Case("discarded", entries=[Entry("discarded")]),
    # Dead letters: present, expired, expired and removed, removed too early, and newer than the commits.
    Case("dead_lettered", entries=[_DEAD_LETTERED], copies=[_LETTER]),
    Case("dead_lettered", copies=[_LETTER]),
    Case("expired", entries=[_DEAD_LETTERED], copies=[_LETTER._replace(expired=True)]),
    Case("expired", entries=[_DEAD_LETTERED._replace(at_ms=_NOW_MS - _LIFE_MS)]),
    Case("missing", "letter_gone", entries=[_DEAD_LETTERED._replace(at_ms=_NOW_MS - _LIFE_MS + 1)]),
    Case("missing", "letter_gone", entries=[_DEAD_LETTERED._replace(at_ms=1)], topic="kept"),
    Case("dead_lettered", entries=[_DEAD_LETTERED._replace(late=True)]),
    # No evidence is left, or only copies that have been read.
    Case("missing", "no_outcome"),
    Case("missing", "left_its_tier", entries=[_RETRIED], copies=[_GIVEN]),
    Case("missing", "no_outcome", entries=[_RETRIED], copies=[_GIVEN._replace(at_ms=_NOW_MS - _LIFE_MS)]),
    Case("untraced", entries=[_RETRIED], copies=[_GIVEN], topic="dropped"),
    # Doubled, or seen twice because it moves during the snapshot.
    Case("doubled", "ended_twice", entries=[_ACKED, _ACKED]),
    Case("acked", entries=[_ACKED, _ACKED._replace(late=True)]),
    Case("doubled", "two_letters", copies=[_LETTER, _LETTER]),
    Case("doubled", "two_copies", copies=[_TIER, _TIER]),
    Case("doubled", "two_copies", entries=[_RETRIED, Entry("recovered")], copies=[_GIVEN, _HANDLED, _HANDLED]),
    Case("pending", "ready", copies=[_GIVEN, _WAITS, _HANDLED._replace(deliveries=0)]),
    Case("doubled", "two_places", "unread", copies=[_LETTER]),
    Case("pending", "unread", "unread", copies=[_LETTER._replace(late=True)]),
    Case("doubled", "two_places", "unread", [_ACKED], [_LETTER._replace(late=True)]),
    Case("pending", "tier", copies=[_TIER, _WAITS._replace(late=True)]),
    # Redriven: the dead letter stays in its topic.
    Case("pending", "ready", entries=[_DEAD_LETTERED], copies=[_LETTER, _AGAIN]),
    Case("acked", entries=[_DEAD_LETTERED, _ACKED], copies=[_LETTER, _AGAIN._replace(finished=True)]),
    Case(
        "dead_lettered",
        entries=[_DEAD_LETTERED, _DEAD_LETTERED],
        copies=[_LETTER, _LETTER, _AGAIN._replace(finished=True)],
    ),
    Case(
        "recovered",
        entries=[_RETRIED, _DEAD_LETTERED, _RETRIED, Entry("recovered")],
        copies=[_GIVEN, _HANDLED, _LETTER, _AGAIN._replace(finished=True), _GIVEN, _HANDLED],
    ),
    # Copies without a source record.
    Case(None, None, None, copies=[_TIER], topic="compacted"),
    Case("doubled", "no_source", None, copies=[_TIER]),
)


def test_each_record_has_one_state(spark: SparkSession) -> None:
    """Each combination has its state, and the bounds of the range are exact."""
    frames = Frames(spark, {})
    # One offset before and one after the range, and two that the journal need not cover.
    cases = {_COVERED + number: case for number, case in enumerate(_CASES)}
    end = max(cases) + 1
    cases |= {_FIRST - 1: Case(None), _FIRST: Case("untraced"), _COVERED - 1: Case("untraced"), end: Case(None)}
    old = Case("missing", "no_outcome", copies=[_HANDLED._replace(at_ms=_SINCE_MS)])
    older = [each._replace(at_ms=_SINCE_MS - 1) for each in (_GIVEN, _HANDLED)]
    cases |= {_FIRST + 1: old, _FIRST + 2: Case("untraced", copies=older, topic="kept")}
    snapshot = _snapshot(end)

    found = record_states(
        frames.local(
            [(case.topic, 0, offset, case.status) for offset, case in cases.items() if case.status is not None],
            "topic string, partition int, offset bigint, status string",
        ),
        Evidence(frames, snapshot).outcomes(
            frames.local(
                [
                    (case.topic, 0, entry.outcome, offset, offset, entry.at_ms, entry.late)
                    for offset, case in cases.items()
                    for entry in case.entries
                ],
                "topic string, partition int, outcome string, first bigint, last bigint, at_ms bigint, late boolean",
            )
        ),
        count_by_origin(
            frames.local(
                [(*copy, case.topic, 0, offset) for offset, case in cases.items() for copy in case.copies],
                "kind string, finished boolean, deliveries bigint, at_ms bigint, late boolean, expired boolean, "
                "redriven boolean, origin_topic string, origin_partition int, origin_offset bigint",
            ),
            snapshot,
        ),
        frames.local([(*each.partition, _FIRST, end, _COVERED, _SINCE_MS) for each in snapshot.sources], RANGE_SCHEMA),
        snapshot,
    )

    rows = {row["offset"]: (row["state"], row["place"] or row["why"]) for row in found.collect()}
    assert rows == {offset: case[:2] for offset, case in cases.items() if case.state is not None}


def test_a_journal_range_includes_its_last_offset(spark: SparkSession) -> None:
    """A range counts for each audited offset from its first to its last."""
    frames = Frames(spark, {})
    ranges = frames.local(
        [
            ("in", 0, "acked", 5, 11, 1, False),
            ("in", 0, "acked", 13, 13, 1, False),
            ("in", 0, "retried", 14, 99, 1, True),
            ("in", 0, "acked", 1, _FIRST - 1, 1, False),
            ("in", 0, "acked", 16, 20, 1, False),
        ],
        "topic string, partition int, outcome string, first bigint, last bigint, at_ms bigint, late boolean",
    )

    found = Evidence(frames, _snapshot(16)).outcomes(ranges).collect()

    assert {row["offset"]: (row["acked"], row["retried"]) for row in found} == {
        10: (1, 0),
        11: (1, 0),
        13: (1, 0),
        14: (0, 1),
        15: (0, 1),
    }


def test_entries_of_an_older_topic_do_not_count(spark: SparkSession) -> None:
    """Nor do redeliveries, which name none, before the present topic has retried a record at their offset."""
    frames = Frames(spark, {})
    ranges = frames.local(
        [
            ("in", 0, _OLDER, "acked", 10, 13, 1, False, 0),
            ("in", 0, _OLDER, "retried", 14, 15, 1, False, 0),
            ("in", 0, None, "recovered", 14, 15, 2, False, 1),
            ("in", 0, _MARK, "acked", 12, 13, 3, False, 2),
            ("in", 0, _MARK, "retried", 15, 15, 3, False, 2),
            ("in", 0, None, "recovered", 15, 15, 4, False, 3),
            ("kept", 0, None, "acked", 10, 11, 1, False, 0),
            ("kept", 0, _MARK, "acked", 12, 12, 2, False, 2),
        ],
        "topic string, partition int, mark string, outcome string, first bigint, last bigint, at_ms bigint, "
        "late boolean, written bigint",
    )
    snapshot = _snapshot(16)

    covered, again = coverage(ranges, snapshot, {each.partition.topic for each in snapshot.sources})
    found = Evidence(frames, snapshot).outcomes(ranges, again).collect()

    assert again == {"in"}
    assert covered == {Partition("in", 0): (12, 3), Partition("kept", 0): (10, 1)}
    assert {(row["topic"], row["offset"]): (row["acked"], row["retried"], row["recovered"]) for row in found} == {
        ("in", 12): (1, 0, 0),
        ("in", 13): (1, 0, 0),
        ("in", 15): (0, 1, 1),
        ("kept", 10): (1, 0, 0),
        ("kept", 11): (1, 0, 0),
        ("kept", 12): (1, 0, 0),
    }


def _snapshot(end: int) -> Snapshot:
    topics = ("in", "kept", "dropped", "compacted")
    places = {
        TopicKind.TIER: _TIERS,
        TopicKind.READY: _READY,
        TopicKind.LETTER: _LETTERS,
        TopicKind.JOURNAL: "g.journal",
    }
    return Snapshot(
        group="g",
        taken_ms=_NOW_MS,
        journal=True,
        sources=tuple(SourceRange(Partition(topic, 0), _FIRST, end, 0) for topic in topics),
        marks=dict.fromkeys(topics, _MARK),
        created_again=frozenset(),
        spans={kind: (Span(Partition(topic, 0), 0, 100, 100),) for kind, topic in places.items()},
        progress={},
        removed=(),
        horizon_ms=0,
        letter_lifetimes_ms={"in": _LIFE_MS, "kept": 0, "dropped": 0, "compacted": 0},
        discarding=frozenset({"dropped"}),
        compacted=frozenset({"compacted"}),
        sweeps=SweepPlan(group="g", topics=(), expiring=False, expiries={}),
        damaged=(),
    )
