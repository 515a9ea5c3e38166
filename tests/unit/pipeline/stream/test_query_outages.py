"""A query waits as a whole while a dependency is away: nothing is lost, doubled, counted or dead-lettered."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.flow.outages import Outages
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.pipeline.handler.child import Attempt, HandlerConfig
from kafka_redelivery.pipeline.handler.items import Emitted, Handled, Outcomes
from kafka_redelivery.pipeline.handler.rows import HEADERS, Rows
from kafka_redelivery.pipeline.stream.query_outages import QueryOutages
from kafka_redelivery.pipeline.task.contract import TaskPlan, TaskResult
from kafka_redelivery.pipeline.task.task import run_task
from kafka_redelivery.topology.config.settings import DependencySection, Settings
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.outages import OutageNote, OutageState
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.protocols import Partition
from tests.unit.pipeline.task.test_task_run import SETTINGS, FakeRunner, Kafka, emitted, rows

PLACES = [Partition("t", 0), Partition("t", 1)]
OFFSETS = [*range(5, 31), *range(40, 62)]


def settings(**dependency: object) -> Settings:
    """The configuration of a source that depends on the bank."""
    plain = SETTINGS.model_dump(by_alias=True, exclude_unset=True)
    source = {"topic": "t", "dependencies": ["bank"]}
    return Settings.model_validate({**plain, "sources": [source], "dependencies": {"bank": dependency}})


class Control:
    """The control topic."""

    def __init__(self) -> None:
        self.outages: dict[str, OutageNote] = {}
        self.closings: dict[str, OutageNote] = {}
        self.decided: dict[str, OutageNote] = {}
        self.published: list[ControlRecord] = []

    def publish(self, records: list[ControlRecord]) -> None:
        self.published += records


class Handler:
    """Calls the bank for each record, in order, and leaves what it cannot handle as the handler's process does."""

    def __init__(self, call: Callable[[Partition, int], str]) -> None:
        self.call, self.attempt = call, Attempt()
        self.apart = False
        """Whether each partition has a child of its own, which finds out by itself that the bank is away."""

        self._away_in: set[tuple[int, Partition | None]] = set()

    full = False

    def handle(self, given: Rows) -> Iterator[Handled]:
        for index, offset in enumerate(given.offsets()):
            row = given[index : index + 1]
            here = (self.attempt.number, given.partition if self.apart else None)
            if here in self._away_in:
                yield Handled(row, Outcomes(1, waits="bank"))
                continue
            answer = self.call(given.partition, offset)
            failure = Failure(FailureKind.UNAVAILABLE, "Down", "the bank is down", dependency="bank")
            if answer == "away" and "bank" in self.attempt.failing:
                yield Handled(row, Outcomes(1, [(0, failure._replace(kind=FailureKind.RAISED))]))
            elif answer == "away":
                self._away_in.add(here)
                yield Handled(row, Outcomes(1, waits="bank", met=failure))
            elif answer == "raise":
                yield Handled(row, Outcomes(1, [(0, Failure(FailureKind.RAISED, "ValueError"))]))
            else:
                columns = [pa.array([0], pa.int32()), pa.nulls(1, pa.binary())]
                columns += [pa.array([b"%d-%d" % (given.partition.number, offset)], pa.binary()), pa.nulls(1, HEADERS)]
                table = pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"])
                yield Handled(row, Outcomes(1, emitted=[Emitted("out", None, table)]))

    def collect(self, timeout_s: float) -> Iterator[Handled]:
        del timeout_s
        yield from ()

    def abandon(self) -> None:
        """Nothing is left."""


@dataclass
class Query:
    """The driver's loop over one micro-batch, with tasks of one partition each, on a simulated clock."""

    section: dict[str, object] = field(default_factory=dict)
    away: Sequence[tuple[float, float]] = ()
    """From when to when the bank is away (s)."""

    raising: frozenset[int] = frozenset()
    apart: bool = False
    known: dict[str, OutageNote] = field(default_factory=dict)
    """What the control topic says when the query starts."""

    idle: int = 0
    """How many attempts have called nothing."""

    now_s: float = 0.0
    calls: list[tuple[float, Partition, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kafka, self.control = Kafka(), Control()
        self.control.outages = self.known
        self.kafka.points |= {each: Checkpoint(OFFSETS[0], "") for each in PLACES}
        self.config = HandlerConfig(settings(**self.section), Path(), (), 0, "")
        handler = Handler(self._call)
        handler.apart = self.apart
        runner: Any = FakeRunner(self.kafka, handler)  # type: ignore[arg-type]
        self._runner = runner
        random = Random(7)  # noqa: S311 - a jitter
        outages = Outages(
            sections={"bank": DependencySection.model_validate(self.section)},
            full={"bank": 4},
            probes={},
            view=self.control,
            health=Health(),
            instance="spark",
            draw=random.random,
            new_id=lambda: "opening",
            clock_s=lambda: self.now_s,
            clock_ms=lambda: round(self.now_s * 1000),
        )
        self.outages = QueryOutages(outages, self.config.routes(), self.config.settings.handlers)

    def _call(self, partition: Partition, offset: int) -> str:
        self.now_s += 0.01
        self.calls.append((self.now_s, partition, offset))
        if any(first <= self.now_s < end for first, end in self.away):
            return "away"
        return "raise" if offset in self.raising else "ok"

    def attempt(self, offsets: Sequence[int] = OFFSETS) -> bool:
        """Run the tasks once. Return whether the micro-batch is done."""
        attempt, began_s = self.outages.begin(), self.now_s
        results: list[TaskResult] = []
        calls = len(self.calls)
        for number, place in enumerate(PLACES):
            if attempt.only is None or attempt.only[0] == place:
                plan = TaskPlan("q", self.config, None, {}, {}, attempt=attempt)
                results.append(run_task(self._runner, plan, number, iter([rows(place, offsets).batch])))
        self.idle += len(self.calls) == calls
        return not self.outages.end(attempt, results, began_s)

    def run(self, offsets: Sequence[int] = OFFSETS, limit_s: float = 10_000.0) -> None:
        """Run the micro-batch until it is done."""
        while self.now_s < limit_s:
            if self.outages.away:
                self.now_s += 0.2
            elif self.attempt(offsets):
                return
        raise AssertionError("it is not done")

    @property
    def pauses(self) -> list[float]:
        """The times between the calls that found the bank away."""
        tries = [at_s for at_s, *_ in self.calls if any(first <= at_s < end for first, end in self.away)]
        return [later - sooner for sooner, later in pairwise(tries)]

    def written(self, topic: str) -> int:
        """How many records a topic has."""
        return sum(record.topic == topic for record in self.kafka.records)


def test_an_outage_loses_doubles_and_counts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A task meets it; then one record is tried after pauses that grow from 5 s to 60 s."""
    caplog.set_level(logging.WARNING)
    query = Query(away=[(0.1, 600)])

    query.run()

    assert [emitted(query.kafka, place) for place in PLACES] == [OFFSETS, OFFSETS]
    assert {record.topic for record in query.kafka.records} == {"out"}
    assert all(place in query.kafka.points for place in PLACES)
    assert query.pauses[:4] == pytest.approx([5, 10, 20, 40], rel=0.12)
    assert max(query.pauses) <= 61
    assert len(query.calls) == 2 * len(OFFSETS) + len(query.pauses) + 1
    lines = [record.message for record in caplog.records if record.name.endswith("outages")]
    assert len(lines) == 2
    assert lines[0] == "bank is away: Down: the bank is down; the records that need it wait, uncounted"
    assert lines[1].startswith("bank is back after 6")
    assert "a record that had waited was handled; 86 records wait" in lines[1]


def test_the_order_of_each_partition_is_kept() -> None:
    """The record that met the outage is the first one that is handled after it."""
    query = Query(away=[(0.1, 30), (31, 60)])

    query.run()

    for place in PLACES:
        found = [offset for _, partition, offset in query.calls if partition == place]
        assert sorted(found) == found
        assert sorted(set(found)) == OFFSETS


def test_what_met_an_earlier_outage_and_was_handled_is_not_tried_again() -> None:
    """The next one may begin before the load has risen, and a try of what is done would be an empty job of Spark."""
    query = Query(away=[(0, 4)], apart=True)
    query.run(range(5, 10))
    assert query.outages.begin().open  # the load rises
    query.away = [(query.now_s, query.now_s + 20)]

    query.run(range(1000, 1010))

    assert [emitted(query.kafka, place) for place in PLACES] == 2 * [[*range(5, 10), *range(1000, 1010)]]
    assert query.idle == 0


def test_another_failure_of_the_tried_record_ends_no_outage() -> None:
    """Its policy decides about it. Another record that met the outage is tried, or all are."""
    query = Query(away=[(0.1, 20)], raising=frozenset(OFFSETS))
    query.attempt()
    while query.outages.away or query.calls[-1][0] < 20:
        query.now_s += 0.2
        if not query.outages.away:
            query.attempt()
    assert query.outages.states == {"bank": True}
    assert OutageState.CLOSED not in {json.loads(each.value or b"{}").get("state") for each in query.control.published}

    query.run()

    assert not query.written("out")
    assert query.written("g.retry.1s") == 2 * len(OFFSETS)


def test_after_the_longest_outage_the_policy_decides() -> None:
    """Then failures count. A minute without one and with a success arms the outage again."""
    query = Query({"maxOutage": "1m"}, away=[(0.1, 100)])

    query.run()

    assert 60 < query.now_s < 70
    assert query.written("out") + query.written("g.retry.1s") == 2 * len(OFFSETS)
    assert query.written("g.retry.1s") > 80
    assert query.outages.begin().failing == {"bank"}
    query.now_s += 61
    assert not query.outages.away
    assert query.outages.begin().failing == {"bank"}
    assert query.attempt(range(1000, 1010))
    assert not query.outages.away
    assert not query.outages.begin().failing


def test_an_operator_opens_and_closes() -> None:
    """While it is open nothing is tried. After the end all records are handled, the load rising from one."""
    query = Query()
    opened = OutageNote("a", OutageState.OPEN, "ann", 0, None, operator=True, offset=1)
    query.control.decided = {"bank": opened}
    assert query.outages.away == ["bank"]
    query.now_s += 3600
    assert query.outages.away == ["bank"]
    assert query.outages.states == {"bank": True}

    query.control.decided = {"bank": opened._replace(state=OutageState.CLOSED, offset=2)}
    assert query.outages.away == []
    attempt = query.outages.begin()
    assert attempt.only is None
    assert attempt.open == {"bank": pytest.approx(0, abs=0.5)}
    query.run()
    assert [emitted(query.kafka, place) for place in PLACES] == [OFFSETS, OFFSETS]


def test_a_query_that_starts_in_an_outage_tries_before_it_waits() -> None:
    """An earlier one has published it."""
    known = {"bank": OutageNote("a", OutageState.OPEN, "spark", 0, 60_000, offset=1)}
    query = Query(away=[(0, 20)], known=known)
    assert query.outages.away == []
    assert query.outages.states == {"bank": True}
    query.run()
    assert [emitted(query.kafka, place) for place in PLACES] == [OFFSETS, OFFSETS]


def test_redeliveries_that_an_outage_has_delayed_say_so() -> None:
    """What was due before its end is late because of it."""
    query = Query(away=[(0.1, 20)])
    assert query.outages.begin().over_ms == {}
    query.run()
    query.now_s += 10
    assert not query.outages.away  # the load has risen
    ended_ms = query.now_s * 1000
    query.now_s += 10
    assert query.outages.begin().over_ms == {"t": round(ended_ms)}
