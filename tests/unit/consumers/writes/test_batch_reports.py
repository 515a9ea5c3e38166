"""The reports of a write: every record is one outcome for the observer and for the journal."""

import json
from typing import Any

from kafka_redelivery.consumers.telemetry.observers import OutcomeLabel
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.policy.decision import AckType
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy
from kafka_redelivery.topology.wire.headers import redriven_headers
from tests.unit.consumers.batches import (
    EXPIRED,
    JOURNAL,
    POISON,
    RAISED,
    REJECTED,
    batch_of,
    handled,
    shared,
)
from tests.unit.consumers.records import entry, lineage, ready, record, redelivery, route, source

DISCARDING = DeadLetterStrategy(kind=DeadLetterKind.DISCARDING)
TWICE = RedeliveryPolicy(maximum_redeliveries=1)
NEVER_AGAIN = RedeliveryPolicy(maximum_redeliveries=0)


class TestCounts:
    def test_every_record_is_one_outcome(self) -> None:
        """By topic, outcome and acknowledgement type; redeliveries by attempt, dead letters by reason."""
        way = route(entry(TWICE))
        batch = batch_of(
            handled(
                source(way),
                *map(record, range(6)),
                failures={1: RAISED, 2: REJECTED, 3: POISON, 4: EXPIRED},
            ),
            handled(
                ready(way, 5),
                redelivery(0, lineage(90, deliveries=1)),
                redelivery(1, lineage(91, deliveries=1)),
                failures={1: RAISED},
                late={0: 12, 1: -1},
            ),
        )
        report = batch.tally.report(0.5)
        assert report.outcomes == {
            OutcomeLabel("orders", "acked", AckType.STANDARD): 2,
            OutcomeLabel("orders", "recovered", AckType.STANDARD): 1,
            OutcomeLabel("orders", "retried", AckType.REDELIVERED): 1,
            OutcomeLabel("orders", "dead_lettered", AckType.POISON): 3,
            OutcomeLabel("orders", "dead_lettered", AckType.EXPIRED): 1,
        }
        assert sum(report.outcomes.values()) == batch.size == 8
        assert report.redeliveries == {("orders", 1): 1}
        assert report.recoveries == {("orders", 2): 1}
        assert report.dead_letters == {
            ("orders", "rejected"): 1,
            ("orders", "undecodable"): 1,
            ("orders", "expired"): 1,
            ("orders", "redeliveries_exceeded"): 1,
        }
        assert report.lateness_ms == [12, -1]
        assert report.handler_seconds == [0.25] * 8
        assert report.seconds == 0.5

    def test_delays_of_an_outage_are_told_apart(self) -> None:
        """Those that are at least as late as what was due when it ended."""
        late = handled(
            ready(route(entry(TWICE)), 5),
            *(redelivery(n, lineage(90 + n, deliveries=1)) for n in range(3)),
            late={0: 90_000, 1: 1_500, 2: 1_499},
        )
        late.delayed_ms = 1_500
        report = batch_of(late).tally.report(0.5)
        assert report.lateness_ms == [1_499]
        assert report.outage_lateness_ms == [90_000, 1_500]

    def test_records_that_were_sent_again_are_counted_when_they_end(self) -> None:
        """By source and outcome; not while they are retried, and no others."""
        again = [lineage(90 + n, deliveries=0)._replace(redrive=f"0a/0@{n}/1") for n in range(4)]
        messages = [redelivery(n, each) for n, each in enumerate([*again, lineage(99)])]
        failures = {1: REJECTED, 2: EXPIRED, 3: RAISED}
        batch = batch_of(handled(ready(route(entry(TWICE)), 5), *messages, failures=failures))
        report = batch.tally.report(0.5)
        assert report.redriven == {
            ("orders", "recovered"): 1,
            ("orders", "dead_again"): 1,
            ("orders", "expired"): 1,
        }
        assert report.redriven_arrived == {"orders": 0}, "each has a due time, so it is a retry"

    def test_records_that_were_sent_again_are_counted_when_they_arrive(self) -> None:
        """By source, with those that are retried next; their retries, which have a due time, are no arrivals."""
        again = lineage(90, deliveries=0)._replace(redrive="0a/0@1/1")
        copies = [(n, redriven_headers([], again, "billing")) for n in range(3)]
        messages = [record(n, headers=headers) for n, headers in copies]
        messages += [redelivery(3, again), redelivery(4, lineage(99))]
        batch = batch_of(handled(ready(route(entry(TWICE)), 5), *messages, failures={1: RAISED, 2: REJECTED}))
        assert batch.tally.report(0.5).redriven_arrived == {"orders": 3}

    def test_partitions_of_a_write_are_not_dirty(self) -> None:
        """Outcomes that arrive during the write belong to the next batch."""
        assigned = source()
        batch = Batch(shared())
        batch.add(handled(assigned, record(0)))
        assert assigned.dirty
        batch.close()
        assert not assigned.dirty


class TestJournal:
    def read(self, batch: Batch) -> dict[str, dict[str, Any]]:
        """Read the journal records by key, without the fields that are the same in all."""
        records = [each for each in batch.produced if each.topic == JOURNAL]
        entries = {(each.key or b"").decode(): json.loads(each.value or b"") for each in records}
        for found in entries.values():
            for name in ("v", "group", "topic", "partition"):
                del found[name]
        return entries

    def test_every_origin_offset_has_its_outcome(self) -> None:
        """A redelivery is noted under the offset of its origin."""
        way = route(entry(TWICE))
        batch = batch_of(
            handled(source(way, 1), *(record(n, partition=1) for n in range(6)), failures={2: RAISED, 4: REJECTED}),
            handled(
                ready(way, 1),
                redelivery(70, lineage(20, partition=1)),
                redelivery(71, lineage(21, partition=1)),
                redelivery(72, lineage(22, partition=1)),
                failures={1: RAISED},
                late={0: 5, 1: 6, 2: 7},
            ),
            common=shared(journal=True),
        )
        assert self.read(batch) == {
            "orders-1": {
                "acked": [[0, 1], [3, 3], [5, 5]],
                "retried": [[2, 2]],
                "dead_lettered": [[4, 4], [21, 21]],
                "recovered": [[20, 20], [22, 22]],
                "lateness_ms": [5, 6, 7],
            }
        }

    def test_an_item_that_returned_early_notes_only_handled_records(self) -> None:
        batch = batch_of(
            handled(ready(partition=5), *(redelivery(n, lineage(40 + n)) for n in range(3)), position=1),
            common=shared(journal=True),
        )
        assert self.read(batch) == {"orders-5": {"recovered": [[40, 40]]}}

    def test_discarded_records_are_noted(self) -> None:
        way = route(entry(NEVER_AGAIN, DISCARDING))
        batch = batch_of(handled(source(way), record(0), failures={0: RAISED}), common=shared(journal=True))
        assert self.read(batch) == {"orders-0": {"discarded": [[0, 0]]}}

    def test_journal_records_are_assigned_to_no_record(self) -> None:
        batch = batch_of(handled(source(), record(0)), common=shared(journal=True))
        assert batch.produced_for == [None]

    def test_it_is_off_by_default(self) -> None:
        assert batch_of(handled(source(), record(0))).produced == []
