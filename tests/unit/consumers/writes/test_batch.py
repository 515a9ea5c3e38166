"""A batch turns each decision into the right produced records and offsets, and counts it."""

import json
from dataclasses import replace
from itertools import repeat

import pytest

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.telemetry.observers import OutcomeLabel
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.policy.decision import AckType, Failure, FailureDetails, FailureKind
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import read_expiration, read_lineage
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.protocols import Partition, ProducerRecord
from tests.unit.consumers.batches import (
    DEAD,
    EXPIRED,
    JOURNAL,
    OUT_OF_MEMORY,
    POISON,
    RAISED,
    READY,
    REJECTED,
    TIER,
    batch_of,
    handled,
    output,
    shared,
)
from tests.unit.consumers.records import BORN, NOW, entry, lineage, ready, record, redelivery, route, source

DISCARDING = DeadLetterStrategy(kind=DeadLetterKind.DISCARDING)
TWICE = RedeliveryPolicy(maximum_redeliveries=1)
AT_ONCE = RedeliveryPolicy(initial_redelivery_delay=0, redelivery_delay=0)
NEVER_AGAIN = RedeliveryPolicy(maximum_redeliveries=0)


def headers_by_name(produced: ProducerRecord) -> dict[str, bytes | None]:
    """The headers of a produced record by name; no name occurs twice."""
    headers = produced.headers or []
    assert len(dict(headers)) == len(headers)
    return dict(headers)


def checkpoint(batch: Batch, assigned: AssignedPartition) -> Checkpoint:
    """The checkpoint that the batch commits for a partition."""
    return batch.checkpoints[assigned.partition]


class TestAck:
    def test_a_success_writes_its_outputs_and_its_offset(self) -> None:
        assigned = source(next_offset=7)
        batch = batch_of(handled(assigned, record(7), record(8), outputs={1: [output(b"a"), output(b"b")]}))
        assert batch.produced == [output(b"a"), output(b"b")]
        assert batch.checkpoints == {Partition("orders", 0): Checkpoint(9, "")}
        assert batch.size == 2

    def test_outputs_are_assigned_to_their_record(self) -> None:
        batch = batch_of(handled(source(), record(0), record(1), outputs={0: [output(b"a")], 1: [output(b"b")]}))
        assert [(owner.offset, owner.role) for owner in batch.produced_for if owner] == [(0, "output"), (1, "output")]

    def test_records_that_the_slot_has_not_handled_are_not_committed(self) -> None:
        assigned = source()
        assert checkpoint(batch_of(handled(assigned, *map(record, range(5)), position=2)), assigned).offset == 2

    def test_items_of_several_partitions_are_one_write(self) -> None:
        """Each commits its own offset."""
        one, other = source(partition=0), source(partition=1)
        batch = batch_of(handled(one, record(0)), handled(other, record(5, partition=1)))
        assert {partition.number: point.offset for partition, point in batch.checkpoints.items()} == {0: 1, 1: 6}

    def test_a_faster_item_does_not_commit_for_a_slower_one(self) -> None:
        """The committed offset waits for the slower item; the metadata holds what is finished above it."""
        assigned = source()
        slow, quick = handled(assigned, record(0)), handled(assigned, record(1))
        ahead = checkpoint(batch_of(quick), assigned)
        assert ahead.offset == 0
        assert ahead.metadata
        assert checkpoint(batch_of(slow), assigned) == Checkpoint(2, "")


class TestRetry:
    def test_the_retry_record_waits_in_the_tier_of_its_delay(self) -> None:
        """Key and value are unchanged. Its partition is that of its origin, modulo the partition count of the tier."""
        assigned = source(partition=6)
        batch = batch_of(handled(assigned, record(3, b"\x00raw", key=b"k", partition=6), failures={0: RAISED}))
        [produced] = batch.produced
        assert produced[:4] == (TIER, 6 % 4, b"k", b"\x00raw")
        assert read_lineage(produced.headers or ()) == Lineage("orders", 6, 3, BORN, deliveries=1)
        assert checkpoint(batch, assigned).offset == 4

    def test_the_headers_of_a_retry_record(self) -> None:
        """The user's headers come first and unchanged."""
        own = [("traceparent", b"00-1"), ("empty", None), ("JMSXDeliveryCount", b"a lie")]
        [produced] = batch_of(handled(source(), record(3, headers=own), failures={0: RAISED})).produced
        assert produced.headers == [
            ("traceparent", b"00-1"),
            ("empty", None),
            ("_AMQ_ORIG_ADDRESS", b"orders"),
            ("_AMQ_ORIG_QUEUE", b"billing"),
            ("_AMQ_ORIG_MESSAGE_ID", b"orders-0@3"),
            ("JMSTimestamp", b"%d" % BORN),
            ("JMSXDeliveryCount", b"1"),
            ("AMQ_SCHEDULED_DELAY", b"1000"),
            ("_AMQ_SCHED_DELIVERY", b"%d" % (NOW + 1000)),
            ("dlqDeliveryFailureCause", b'{"exception":"ValueError","message":"no"}'),
        ]

    def test_with_class_only_a_retry_record_has_no_text_of_the_exception(self) -> None:
        """As a dead letter."""
        common = replace(shared(), details=FailureDetails.CLASS_ONLY)
        [produced] = batch_of(handled(source(), record(3), failures={0: RAISED}), common=common).produced
        cause = headers_by_name(produced)["dlqDeliveryFailureCause"]
        assert cause == b'{"exception":"ValueError","message":""}'

    @pytest.mark.parametrize(("key", "value"), [(None, None), (b"", b""), (None, b""), (b"", None)])
    def test_null_stays_null_and_empty_stays_empty(self, key: bytes | None, value: bytes | None) -> None:
        """A tombstone stays one."""
        [produced] = batch_of(handled(source(), record(0, value, key=key), failures={0: RAISED})).produced
        assert (produced.key, produced.value) == (key, value)

    def test_a_redelivery_continues_its_lineage(self) -> None:
        """Its offset is in the ready topic; its identity is that of the origin."""
        origin = lineage(42, partition=5, deliveries=2)
        assigned = ready(partition=5)
        batch = batch_of(handled(assigned, redelivery(9, origin), failures={0: RAISED}))
        [produced] = batch.produced
        assert read_lineage(produced.headers or ()) == lineage(42, partition=5, deliveries=3)
        assert produced.partition == 5 % 4
        assert batch.checkpoints == {Partition(READY, 5): Checkpoint(10, "")}

    def test_without_a_delay_the_retry_record_goes_to_the_ready_topic(self) -> None:
        way = route(entry(AT_ONCE))
        [produced] = batch_of(
            handled(source(way, partition=13), record(0, partition=13), failures={0: RAISED})
        ).produced
        assert (produced.topic, produced.partition) == (READY, 13 % 8)
        assert headers_by_name(produced)["_AMQ_SCHED_DELIVERY"] == b"%d" % NOW

    @pytest.mark.parametrize(
        ("asked_ms", "topic", "delay"),
        [
            (0, READY, b"0"),
            (1, "billing.retry.mixed", b"1"),
            (250, "billing.retry.mixed", b"250"),
            (1500, TIER, b"1500"),
            (99_000, "billing.retry.2s", b"5000"),
            (-5, READY, b"0"),
        ],
    )
    def test_a_delay_that_the_handler_chose(self, asked_ms: int, topic: str, delay: bytes) -> None:
        """The record waits in the largest tier that is not above the delay, which maximumHandlerDelay limits."""
        way = route(entry(longest_own_delay_ms=5000))
        asked = Failure(FailureKind.REDELIVER, "Redeliver", "", asked_ms)
        batch = batch_of(
            handled(source(way), record(0), failures={0: asked}), common=shared(tiers=(1000, 2000), mixed=True)
        )
        [produced] = batch.produced
        assert (produced.topic, headers_by_name(produced)["AMQ_SCHEDULED_DELAY"]) == (topic, delay)

    def test_each_decision_draws_its_own_jitter(self) -> None:
        """A draw of 0.5 adds half of 15 % to one second, from the second redelivery on."""
        way, draws = route(entry(RedeliveryPolicy(use_collision_avoidance=True))), iter([0.5, -0.5])
        batch = batch_of(
            handled(
                ready(way, 5), redelivery(0, lineage(1)), redelivery(1, lineage(2)), failures={0: RAISED, 1: RAISED}
            ),
            common=replace(shared(tiers=(250, 1000, 2000), mixed=True), jitter=lambda: repeat(next(draws))),
        )
        assert [headers_by_name(produced)["AMQ_SCHEDULED_DELAY"] for produced in batch.produced] == [b"1075", b"925"]

    def test_each_record_of_an_item_waits_as_its_own_deliveries_and_failure_say(self) -> None:
        """Delays of 250, 500 and 1,000 ms; the fourth failure is the last."""
        doubling = RedeliveryPolicy(
            maximum_redeliveries=3,
            initial_redelivery_delay=250,
            redelivery_delay=250,
            use_exponential_back_off=True,
            back_off_multiplier=2,
        )
        way, asked = (
            route(entry(doubling, longest_own_delay_ms=5000)),
            [Failure(FailureKind.REDELIVER, "Redeliver", "", after_ms) for after_ms in (0, 1000)],
        )
        deliveries, causes = (0, 1, 3, 0, 1, 0, 2, 0), dict.fromkeys(range(7), RAISED) | {5: asked[0], 7: asked[1]}
        messages = [redelivery(n, lineage(n, deliveries=each)) for n, each in enumerate(deliveries)]
        batch = batch_of(
            handled(ready(way, 5), *messages, failures=causes), common=shared(tiers=(250, 1000), mixed=True)
        )
        assert [headers_by_name(each).get("AMQ_SCHEDULED_DELAY") for each in batch.produced] == [
            *(b"250", b"500", None, b"250", b"500", b"0", b"1000", b"1000")
        ]


class TestDeadLetter:
    def test_after_the_last_redelivery(self) -> None:
        """Key and value are unchanged, and the cause is a header."""
        way = route(entry(TWICE))
        origin = lineage(42, partition=5, deliveries=1)
        message = redelivery(9, origin, b"\x00raw", own=[("traceparent", b"00-1")])
        assigned = ready(way, partition=5)
        batch = batch_of(handled(assigned, message, failures={0: RAISED}))
        [produced] = batch.produced
        assert produced[:4] == (DEAD, 5 % 3, None, b"\x00raw")
        headers = headers_by_name(produced)
        assert headers["traceparent"] == b"00-1"
        assert read_lineage(produced.headers or ()) == lineage(42, partition=5, deliveries=2)
        assert json.loads(headers["dlqDeliveryFailureCause"] or b"") == {
            "reason": "redeliveries_exceeded",
            "exception": "ValueError",
            "message": "no",
            "frames": [],
        }
        assert "_AMQ_SCHED_DELIVERY" not in headers
        assert checkpoint(batch, assigned).offset == 10

    def test_a_rejected_record(self) -> None:
        """It is dead-lettered without a redelivery; its one delivery counts."""
        [produced] = batch_of(handled(source(), record(0), failures={0: REJECTED})).produced
        assert produced.topic == DEAD
        assert headers_by_name(produced)["JMSXDeliveryCount"] == b"1"

    @pytest.mark.parametrize("failure", [POISON, EXPIRED, Failure(FailureKind.EXHAUSTED)], ids=lambda f: str(f.kind))
    def test_without_a_handler_call_the_delivery_count_is_unchanged(self, failure: Failure) -> None:
        first, redelivered = source(), ready(partition=5)
        batch = batch_of(
            handled(first, record(0), failures={0: failure}),
            handled(redelivered, redelivery(0, lineage(deliveries=3)), failures={0: failure}),
        )
        assert [headers_by_name(produced)["JMSXDeliveryCount"] for produced in batch.produced] == [b"0", b"3"]

    def test_an_expired_record_keeps_its_expiration_in_a_header(self) -> None:
        """The dead letter itself does not expire."""
        own = [("JMSExpiration", b"%d" % (NOW - 5))]
        batch = batch_of(
            handled(source(), record(0, headers=own), failures={0: EXPIRED}),
            handled(ready(partition=5), redelivery(0, lineage(), own=own), failures={0: EXPIRED}),
        )
        for produced in batch.produced:
            headers = headers_by_name(produced)
            assert headers["originalExpiration"] == b"%d" % (NOW - 5)
            assert headers["_AMQ_ACTUAL_EXPIRY"] == b"%d" % NOW
            assert "JMSExpiration" not in headers

    def test_the_strategy_sets_the_expiration_of_the_dead_letter(self) -> None:
        """It counts from the decision."""
        way = route(entry(strategy=DeadLetterStrategy(expiration=60_000)))
        [produced] = batch_of(handled(source(way), record(0), failures={0: REJECTED})).produced
        assert read_expiration(produced.headers or ()) == NOW + 60_000


class TestDiscard:
    def test_only_the_offset_is_written(self) -> None:
        way = route(entry(NEVER_AGAIN, DISCARDING))
        assigned = source(way)
        batch = batch_of(handled(assigned, record(0), record(1), failures={0: RAISED, 1: POISON}))
        assert batch.produced == []
        assert checkpoint(batch, assigned) == Checkpoint(2, "")
        report = batch.tally.report(0)
        assert report.outcomes == {OutcomeLabel("orders", "discarded", AckType.POISON): 2}
        assert report.dead_letters == {}

    def test_only_expired_records_are_discarded(self) -> None:
        """``processExpired: false``."""
        way = route(entry(strategy=DeadLetterStrategy(process_expired=False)))
        batch = batch_of(handled(source(way), record(0), record(1), failures={0: EXPIRED, 1: REJECTED}))
        assert [produced.topic for produced in batch.produced] == [DEAD]
        assert OutcomeLabel("orders", "discarded", AckType.EXPIRED) in batch.tally.report(0).outcomes


class TestHalt:
    def test_the_offset_stops_at_the_record(self) -> None:
        """Records before it are committed. It is handled again after a restart."""
        assigned = source()
        batch = batch_of(
            handled(assigned, *map(record, range(5)), failures={0: REJECTED, 2: OUT_OF_MEMORY}, position=3)
        )
        assert checkpoint(batch, assigned).offset == 2
        assert batch.halts == [(assigned, 2, OUT_OF_MEMORY)]
        assert [produced.topic for produced in batch.produced] == [DEAD]

    def test_it_is_not_counted_as_an_outcome(self) -> None:
        batch = batch_of(handled(source(), record(0), failures={0: OUT_OF_MEMORY}), common=shared(journal=True))
        assert batch.tally.report(0).outcomes == {}
        assert batch.produced == []


class TestAddFailure:
    """A record that is in no work item, because the broker refused what was produced for it."""

    def test_a_refused_retry_record_is_dead_lettered(self) -> None:
        """The cause is the broker's reason."""
        assigned = source()
        assigned.progress.track(0)
        batch = Batch(shared())
        batch.add_failure(
            assigned,
            record(0),
            Lineage("orders", 0, 0, BORN),
            Failure(FailureKind.UNDELIVERABLE, "WriteRefused", "big"),
        )
        [produced] = batch.produced
        assert produced.topic == DEAD
        assert json.loads(headers_by_name(produced)["dlqDeliveryFailureCause"] or b"")["message"] == "big"
        batch.close()
        assert checkpoint(batch, assigned).offset == 1
        assert batch.size == 1

    def test_a_refused_output_is_a_failed_delivery(self) -> None:
        assigned = source()
        assigned.progress.track(0)
        batch = Batch(shared())
        batch.add_failure(assigned, record(0), Lineage("orders", 0, 0, BORN), RAISED)
        [produced] = batch.produced
        assert (produced.topic, headers_by_name(produced)["JMSXDeliveryCount"]) == (TIER, b"1")


def test_a_closed_partition_is_not_committed() -> None:
    """Another worker commits its offsets now."""
    assigned = source()
    batch = Batch(shared())
    batch.add(handled(assigned, record(0)))
    assigned.closed = True
    batch.close()
    assert batch.checkpoints == {}


def test_a_position_is_committed_without_an_outcome() -> None:
    """A source is read for the first time."""
    assigned = source(next_offset=17)
    batch = Batch(shared())
    batch.close([assigned])
    assert batch.checkpoints == {assigned.partition: Checkpoint(17, "")}
    assert batch.size == 0


def test_every_produced_record_is_assigned_to_a_consumed_one() -> None:
    """They are in the same order, because the writer names a refused record by its index."""
    batch = batch_of(
        handled(source(), *map(record, range(4)), failures={1: RAISED, 2: REJECTED}, outputs={0: [output(b"")] * 2}),
        common=shared(journal=True),
    )
    found = [
        (produced.topic, owner and (owner.offset, owner.role))
        for produced, owner in zip(batch.produced, batch.produced_for, strict=True)
    ]
    assert sorted(found, key=str) == sorted(
        [
            ("totals", (0, "output")),
            ("totals", (0, "output")),
            (TIER, (1, "retry")),
            (DEAD, (2, "dead letter")),
            (JOURNAL, None),
        ],
        key=str,
    )
