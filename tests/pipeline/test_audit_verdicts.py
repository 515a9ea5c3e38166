"""What an audit says of a record, for each way in which what is left of it can fit together."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest
from pyspark.sql import SparkSession

from pipeline.audit_journal import JournalFrames
from pipeline.audit_snapshot import Kind, Snapshot, SourceRange, Span
from pipeline.audit_verdicts import RANGE, by_origin, verdicts
from pipeline.kafka_frames import Frames
from topology.sweep_plan import SweepPlan
from transport.protocols import Partition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

_NOW_MS: Final = 10_000
_LIFE_MS: Final = 1000
_FIRST, _TOLD = 10, 20
"""The first offset that is audited, and from where on the journal must tell of every record."""

_SINCE_MS: Final = 9000
"""The journal's first entry."""

_TIERS, _READY, _LETTERS = "g.retry.1s", "g.ready.in", "DLQ.in"


class Told(NamedTuple):
    """An entry of the journal."""

    outcome: str
    at_ms: int = 9500
    late: bool = False


class Copy(NamedTuple):
    """A copy in a topic of ours."""

    kind: Kind
    finished: bool = False
    deliveries: int = 1
    at_ms: int = 9500
    late: bool = False
    expired: bool = False
    redriven: bool = False


class Case(NamedTuple):
    """What is left of a record, and what has become of it: its state, and where it is or why it is a finding."""

    state: str | None
    detail: str | None = None
    stands: str | None = "done"
    told: Sequence[Told] = ()
    copies: Sequence[Copy] = ()
    topic: str = "in"


_ACKED, _BURIED, _RETRIED = Told("acked"), Told("dead_lettered"), Told("retried")
_TIER, _GIVEN, _LETTER = Copy(Kind.TIER), Copy(Kind.TIER, finished=True), Copy(Kind.LETTER)
_WAITS, _HANDLED = Copy(Kind.READY), Copy(Kind.READY, finished=True)
_AGAIN = Copy(Kind.READY, deliveries=0, redriven=True)

_CASES: Final = (
    Case("acked", told=[_ACKED]),
    Case("pending", "unread", "unread"),
    Case("pending", "in_hand", "in_hand"),
    Case("pending", "in_place", "in_place", [_RETRIED]),
    Case("pending", "tier", told=[_RETRIED], copies=[_TIER]),
    Case("pending", "ready", told=[_RETRIED], copies=[_GIVEN, _WAITS]),
    Case("recovered", told=[_RETRIED, Told("recovered")], copies=[_GIVEN, _HANDLED]),
    Case("discarded", told=[Told("discarded")]),
    # Dead letters: one that is there, has expired, has expired and gone, has gone before, comes at this moment.
    Case("dead_lettered", told=[_BURIED], copies=[_LETTER]),
    Case("dead_lettered", copies=[_LETTER]),
    Case("expired", told=[_BURIED], copies=[_LETTER._replace(expired=True)]),
    Case("expired", told=[_BURIED._replace(at_ms=_NOW_MS - _LIFE_MS)]),
    Case("missing", "letter_gone", told=[_BURIED._replace(at_ms=_NOW_MS - _LIFE_MS + 1)]),
    Case("missing", "letter_gone", told=[_BURIED._replace(at_ms=1)], topic="kept"),
    Case("dead_lettered", told=[_BURIED._replace(late=True)]),
    # Nothing is left of it, or only what somebody has read.
    Case("missing", "no_outcome"),
    Case("missing", "left_its_tier", told=[_RETRIED], copies=[_GIVEN]),
    Case("missing", "no_outcome", told=[_RETRIED], copies=[_GIVEN._replace(at_ms=_NOW_MS - _LIFE_MS)]),
    Case("untraced", told=[_RETRIED], copies=[_GIVEN], topic="dropped"),
    # Twice: in fact, or because it moves while it is looked at.
    Case("doubled", "ended_twice", told=[_ACKED, _ACKED]),
    Case("acked", told=[_ACKED, _ACKED._replace(late=True)]),
    Case("doubled", "two_letters", copies=[_LETTER, _LETTER]),
    Case("doubled", "two_copies", copies=[_TIER, _TIER]),
    Case("doubled", "two_copies", told=[_RETRIED, Told("recovered")], copies=[_GIVEN, _HANDLED, _HANDLED]),
    Case("pending", "ready", copies=[_GIVEN, _WAITS, _HANDLED._replace(deliveries=0)]),
    Case("doubled", "two_places", "unread", copies=[_LETTER]),
    Case("pending", "unread", "unread", copies=[_LETTER._replace(late=True)]),
    Case("doubled", "two_places", "unread", [_ACKED], [_LETTER._replace(late=True)]),
    Case("pending", "tier", copies=[_TIER, _WAITS._replace(late=True)]),
    # Redriven: the letter stays where it was.
    Case("pending", "ready", told=[_BURIED], copies=[_LETTER, _AGAIN]),
    Case("acked", told=[_BURIED, _ACKED], copies=[_LETTER, _AGAIN._replace(finished=True)]),
    Case("dead_lettered", told=[_BURIED, _BURIED], copies=[_LETTER, _LETTER, _AGAIN._replace(finished=True)]),
    Case(
        "recovered",
        told=[_RETRIED, _BURIED, _RETRIED, Told("recovered")],
        copies=[_GIVEN, _HANDLED, _LETTER, _AGAIN._replace(finished=True), _GIVEN, _HANDLED],
    ),
    # What is no record of the source.
    Case(None, None, None, copies=[_TIER], topic="compacted"),
    Case("doubled", "no_source", None, copies=[_TIER]),
)


def test_what_becomes_of_a_record(spark: SparkSession) -> None:
    """Each has the one state that all that is left of it fits; the range ends where it ends, to the offset."""
    frames = Frames(spark, {})
    # The first offset in front of the range, the last one behind it; two that the journal need not tell of.
    cases = {_TOLD + number: case for number, case in enumerate(_CASES)}
    end = max(cases) + 1
    cases |= {_FIRST - 1: Case(None), _FIRST: Case("untraced"), _TOLD - 1: Case("untraced"), end: Case(None)}
    old = Case("missing", "no_outcome", copies=[_HANDLED._replace(at_ms=_SINCE_MS)])
    older = [each._replace(at_ms=_SINCE_MS - 1) for each in (_GIVEN, _HANDLED)]
    cases |= {_FIRST + 1: old, _FIRST + 2: Case("untraced", copies=older, topic="kept")}
    snapshot = _snapshot(end)

    found = verdicts(
        frames.local(
            [(case.topic, 0, offset, case.stands) for offset, case in cases.items() if case.stands is not None],
            "topic string, partition int, offset bigint, stands string",
        ),
        JournalFrames(frames, snapshot).outcomes(
            frames.local(
                [
                    (case.topic, 0, told.outcome, offset, offset, told.at_ms, told.late)
                    for offset, case in cases.items()
                    for told in case.told
                ],
                "topic string, partition int, outcome string, first bigint, last bigint, at_ms bigint, late boolean",
            )
        ),
        by_origin(
            frames.local(
                [(*copy, case.topic, 0, offset) for offset, case in cases.items() for copy in case.copies],
                "kind string, finished boolean, deliveries bigint, at_ms bigint, late boolean, expired boolean, "
                "redriven boolean, origin_topic string, origin_partition int, origin_offset bigint",
            ),
            snapshot,
        ),
        frames.local([(*each.place, _FIRST, end, _TOLD, _SINCE_MS) for each in snapshot.sources], RANGE),
        snapshot,
    )

    rows = {row["offset"]: (row["state"], row["place"] or row["why"]) for row in found.collect()}
    assert rows == {offset: case[:2] for offset, case in cases.items() if case.state is not None}


def test_a_range_of_the_journal_tells_of_its_last_offset(spark: SparkSession) -> None:
    """Each offset from its first to its last that is audited, no other."""
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

    found = JournalFrames(frames, _snapshot(16)).outcomes(ranges).collect()

    assert {row["offset"]: (row["acked"], row["retried"]) for row in found} == {
        10: (1, 0),
        11: (1, 0),
        13: (1, 0),
        14: (0, 1),
        15: (0, 1),
    }


def _snapshot(end: int) -> Snapshot:
    topics = ("in", "kept", "dropped", "compacted")
    places = {Kind.TIER: _TIERS, Kind.READY: _READY, Kind.LETTER: _LETTERS, Kind.JOURNAL: "g.journal"}
    return Snapshot(
        group="g",
        taken_ms=_NOW_MS,
        journal=True,
        sources=tuple(SourceRange(Partition(topic, 0), _FIRST, end, 0, None) for topic in topics),
        spans={kind: (Span(Partition(topic, 0), 0, 100, 100),) for kind, topic in places.items()},
        standings={},
        removed=(),
        horizon_ms=0,
        lives={"in": _LIFE_MS, "kept": 0, "dropped": 0, "compacted": 0},
        discarding=frozenset({"dropped"}),
        compacted=frozenset({"compacted"}),
        sweeps=SweepPlan(group="g", topics=(), expiring=False, expiries={}),
        damaged=(),
    )
