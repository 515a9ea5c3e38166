"""What one write consists of: each decision becomes the right copies and offsets, and all of it is counted."""

import json

import pytest

from consumers.batch import Batch
from consumers.observer import OutcomeLabel
from consumers.unit import Assigned
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
from topology.decision import AckType, Failure, FailureKind
from topology.headers import read_expiration, read_lineage
from topology.lineage import Lineage
from topology.policy import DeadLetterKind, DeadLetterStrategy, RedeliveryPolicy
from topology.progress import Checkpoint
from transport.protocols import Copy, Partition

DISCARDING = DeadLetterStrategy(kind=DeadLetterKind.DISCARDING)
TWICE = RedeliveryPolicy(maximum_redeliveries=1)
AT_ONCE = RedeliveryPolicy(initial_redelivery_delay=0, redelivery_delay=0)
NEVER_AGAIN = RedeliveryPolicy(maximum_redeliveries=0)


def named(copy: Copy) -> dict[str, bytes | None]:
    """The headers of a copy by name; none is there twice."""
    headers = copy.headers or []
    assert len(dict(headers)) == len(headers)
    return dict(headers)


def checkpoint(batch: Batch, assigned: Assigned) -> Checkpoint:
    """What it commits for a partition."""
    return batch.checkpoints()[assigned.partition]


class TestAck:
    def test_a_success_is_an_offset_and_its_outputs(self) -> None:
        """Nothing else is written."""
        assigned = source(next_offset=7)
        batch = batch_of(handled(assigned, record(7), record(8), outputs={1: [output(b"a"), output(b"b")]}))
        assert batch.copies == [output(b"a"), output(b"b")]
        assert batch.checkpoints() == {Partition("orders", 0): Checkpoint(9, "")}
        assert batch.size == 2

    def test_outputs_are_owned_by_their_record(self) -> None:
        """So that a refused one can be told from the rest."""
        batch = batch_of(handled(source(), record(0), record(1), outputs={0: [output(b"a")], 1: [output(b"b")]}))
        assert [(owner.offset, owner.role) for owner in batch.owners if owner] == [(0, "output"), (1, "output")]

    def test_what_the_slot_did_not_get_to_is_not_done(self) -> None:
        """The offset stops there."""
        assigned = source()
        assert checkpoint(batch_of(handled(assigned, *map(record, range(5)), position=2)), assigned).offset == 2

    def test_units_of_several_partitions_are_one_write(self) -> None:
        """Each commits its own offset."""
        one, other = source(partition=0), source(partition=1)
        batch = batch_of(handled(one, record(0)), handled(other, record(5, partition=1)))
        assert {place.number: point.offset for place, point in batch.checkpoints().items()} == {0: 1, 1: 6}

    def test_a_unit_that_overtook_another_does_not_commit_for_it(self) -> None:
        """The offset waits for the slower one; the metadata knows what is done above it."""
        assigned = source()
        slow, quick = handled(assigned, record(0)), handled(assigned, record(1))
        ahead = checkpoint(batch_of(quick), assigned)
        assert ahead.offset == 0
        assert ahead.metadata
        assert checkpoint(batch_of(slow), assigned) == Checkpoint(2, "")


class TestRetry:
    def test_the_copy_waits_in_the_tier_of_its_delay(self) -> None:
        """Key and value as they were, the partition explicit: the origin's, modulo the tier's own count."""
        assigned = source(partition=6)
        batch = batch_of(handled(assigned, record(3, b"\x00raw", key=b"k", partition=6), failures={0: RAISED}))
        [copy] = batch.copies
        assert copy[:4] == (TIER, 6 % 4, b"k", b"\x00raw")
        assert read_lineage(copy.headers or ()) == Lineage("orders", 6, 3, BORN, deliveries=1)
        assert checkpoint(batch, assigned).offset == 4

    def test_its_headers_are_the_contract(self) -> None:
        """Built fresh; the user's own come first and untouched."""
        own = [("traceparent", b"00-1"), ("empty", None), ("JMSXDeliveryCount", b"a lie")]
        [copy] = batch_of(handled(source(), record(3, headers=own), failures={0: RAISED})).copies
        assert copy.headers == [
            ("traceparent", b"00-1"),
            ("empty", None),
            ("_AMQ_ORIG_ADDRESS", b"orders"),
            ("_AMQ_ORIG_QUEUE", b"billing"),
            ("_AMQ_ORIG_MESSAGE_ID", b"orders-0@3"),
            ("JMSTimestamp", b"%d" % BORN),
            ("JMSXDeliveryCount", b"1"),
            ("AMQ_SCHEDULED_DELAY", b"1000"),
            ("_AMQ_SCHED_DELIVERY", b"%d" % (NOW + 1000)),
        ]

    @pytest.mark.parametrize(("key", "value"), [(None, None), (b"", b""), (None, b""), (b"", None)])
    def test_null_stays_null_and_empty_stays_empty(self, key: bytes | None, value: bytes | None) -> None:
        """A tombstone is one after any number of retries."""
        [copy] = batch_of(handled(source(), record(0, value, key=key), failures={0: RAISED})).copies
        assert (copy.key, copy.value) == (key, value)

    def test_a_redelivery_counts_on_from_its_lineage(self) -> None:
        """Its own offset is the ready topic's, its identity the origin's."""
        origin = lineage(42, partition=5, deliveries=2)
        assigned = ready(partition=5)
        batch = batch_of(handled(assigned, redelivery(9, origin), failures={0: RAISED}))
        [copy] = batch.copies
        assert read_lineage(copy.headers or ()) == lineage(42, partition=5, deliveries=3)
        assert copy.partition == 5 % 4
        assert batch.checkpoints() == {Partition(READY, 5): Checkpoint(10, "")}

    def test_without_a_delay_it_is_ready_at_once(self) -> None:
        """No scheduler is needed for that; it is still behind what is being handled."""
        way = route(entry(AT_ONCE))
        [copy] = batch_of(handled(source(way, partition=13), record(0, partition=13), failures={0: RAISED})).copies
        assert (copy.topic, copy.partition) == (READY, 13 % 8)
        assert named(copy)["_AMQ_SCHED_DELIVERY"] == b"%d" % NOW

    @pytest.mark.parametrize(
        ("asked_ms", "topic", "delay"),
        [
            (0, READY, b"0"),
            (250, "billing.retry.mixed", b"250"),
            (1500, TIER, b"1500"),
            (99_000, "billing.retry.2s", b"5000"),
            (-5, READY, b"0"),
        ],
    )
    def test_a_delay_of_the_handlers_own(self, asked_ms: int, topic: str, delay: bytes) -> None:
        """Into the largest tier not above it, cut to what the configuration allows."""
        way = route(entry(longest_own_delay_ms=5000))
        asked = Failure(FailureKind.REDELIVER, "Redeliver", "", asked_ms)
        batch = batch_of(
            handled(source(way), record(0), failures={0: asked}), common=shared(tiers=(1000, 2000), mixed=True)
        )
        [copy] = batch.copies
        assert (copy.topic, named(copy)["AMQ_SCHEDULED_DELAY"]) == (topic, delay)

    def test_each_decision_draws_its_own_jitter(self) -> None:
        """Half of 15 % above the one second of the chain, from the second redelivery on."""
        way = route(entry(RedeliveryPolicy(use_collision_avoidance=True)))
        batch = batch_of(
            handled(
                ready(way, 5), redelivery(0, lineage(1)), redelivery(1, lineage(2)), failures={0: RAISED, 1: RAISED}
            ),
            common=shared(tiers=(1000, 2000), mixed=True),
        )
        assert [named(copy)["AMQ_SCHEDULED_DELAY"] for copy in batch.copies] == [b"1075", b"1075"]


class TestDeadLetter:
    def test_after_the_last_attempt(self) -> None:
        """The bytes unchanged, with the cause, in the origin's partition modulo the topic's count."""
        way = route(entry(TWICE))
        origin = lineage(42, partition=5, deliveries=1)
        message = redelivery(9, origin, b"\x00raw", own=[("traceparent", b"00-1")])
        assigned = ready(way, partition=5)
        batch = batch_of(handled(assigned, message, failures={0: RAISED}))
        [copy] = batch.copies
        assert copy[:4] == (DEAD, 5 % 3, None, b"\x00raw")
        headers = named(copy)
        assert headers["traceparent"] == b"00-1"
        assert read_lineage(copy.headers or ()) == lineage(42, partition=5, deliveries=2)
        assert json.loads(headers["dlqDeliveryFailureCause"] or b"") == {
            "reason": "redeliveries_exceeded",
            "exception": "ValueError",
            "message": "no",
        }
        assert "_AMQ_SCHED_DELIVERY" not in headers
        assert checkpoint(batch, assigned).offset == 10

    def test_rejected_at_once(self) -> None:
        """However many attempts are left; the one that was made counts."""
        [copy] = batch_of(handled(source(), record(0), failures={0: REJECTED})).copies
        assert copy.topic == DEAD
        assert named(copy)["JMSXDeliveryCount"] == b"1"

    @pytest.mark.parametrize("failure", [POISON, EXPIRED, Failure(FailureKind.EXHAUSTED)], ids=lambda f: str(f.kind))
    def test_what_no_handler_saw_is_no_delivery(self, failure: Failure) -> None:
        """The count stays what it was."""
        fresh, again = source(), ready(partition=5)
        batch = batch_of(
            handled(fresh, record(0), failures={0: failure}),
            handled(again, redelivery(0, lineage(deliveries=3)), failures={0: failure}),
        )
        assert [named(copy)["JMSXDeliveryCount"] for copy in batch.copies] == [b"0", b"3"]

    def test_an_expired_one_tells_when_it_had_expired(self) -> None:
        """Of a first delivery as of a later one; its own expiration does not go on."""
        own = [("JMSExpiration", b"%d" % (NOW - 5))]
        batch = batch_of(
            handled(source(), record(0, headers=own), failures={0: EXPIRED}),
            handled(ready(partition=5), redelivery(0, lineage(), own=own), failures={0: EXPIRED}),
        )
        for copy in batch.copies:
            headers = named(copy)
            assert headers["originalExpiration"] == b"%d" % (NOW - 5)
            assert headers["_AMQ_ACTUAL_EXPIRY"] == b"%d" % NOW
            assert "JMSExpiration" not in headers

    def test_it_lives_as_long_as_the_strategy_says(self) -> None:
        """From the decision on."""
        way = route(entry(strategy=DeadLetterStrategy(expiration=60_000)))
        [copy] = batch_of(handled(source(way), record(0), failures={0: REJECTED})).copies
        assert read_expiration(copy.headers or ()) == NOW + 60_000


class TestDiscard:
    def test_nothing_is_written_but_the_offset(self) -> None:
        """It is counted."""
        way = route(entry(NEVER_AGAIN, DISCARDING))
        assigned = source(way)
        batch = batch_of(handled(assigned, record(0), record(1), failures={0: RAISED, 1: POISON}))
        assert batch.copies == []
        assert checkpoint(batch, assigned) == Checkpoint(2, "")
        told = batch.committed(0)
        assert told.outcomes == {OutcomeLabel("orders", "discarded", AckType.POISON): 2}
        assert told.dead_letters == {}

    def test_expired_ones_may_be_discarded_alone(self) -> None:
        """``processExpired: false``."""
        way = route(entry(strategy=DeadLetterStrategy(process_expired=False)))
        batch = batch_of(handled(source(way), record(0), record(1), failures={0: EXPIRED, 1: REJECTED}))
        assert [copy.topic for copy in batch.copies] == [DEAD]
        assert OutcomeLabel("orders", "discarded", AckType.EXPIRED) in batch.committed(0).outcomes


class TestHalt:
    def test_the_record_is_not_finished(self) -> None:
        """What was done before it is committed, it comes again after a restart."""
        assigned = source()
        batch = batch_of(
            handled(assigned, *map(record, range(5)), failures={0: REJECTED, 2: OUT_OF_MEMORY}, position=3)
        )
        assert checkpoint(batch, assigned).offset == 2
        assert batch.halts == [(assigned, 2, OUT_OF_MEMORY)]
        assert [copy.topic for copy in batch.copies] == [DEAD]

    def test_it_is_no_outcome(self) -> None:
        """Nothing happened to the record."""
        batch = batch_of(handled(source(), record(0), failures={0: OUT_OF_MEMORY}), common=shared(journal=True))
        assert batch.committed(0).outcomes == {}
        assert batch.copies == []


class TestSettle:
    """A record decided about outside any unit: its copy was refused."""

    def test_a_refused_retry_is_dead_lettered(self) -> None:
        """With the broker's reason."""
        assigned = source()
        assigned.progress.see(0)
        batch = Batch(shared())
        batch.settle(
            assigned,
            record(0),
            Lineage("orders", 0, 0, BORN),
            Failure(FailureKind.UNDELIVERABLE, "WriteRefused", "big"),
        )
        [copy] = batch.copies
        assert copy.topic == DEAD
        assert json.loads(named(copy)["dlqDeliveryFailureCause"] or b"")["message"] == "big"
        assert checkpoint(batch, assigned).offset == 1
        assert batch.size == 1

    def test_a_refused_output_is_a_failed_delivery(self) -> None:
        """It counts, and is tried again."""
        assigned = source()
        assigned.progress.see(0)
        batch = Batch(shared())
        batch.settle(assigned, record(0), Lineage("orders", 0, 0, BORN), RAISED)
        [copy] = batch.copies
        assert (copy.topic, named(copy)["JMSXDeliveryCount"]) == (TIER, b"1")


def test_a_partition_that_was_lost_commits_nothing() -> None:
    """Its offset is somebody else's."""
    assigned = source()
    batch = batch_of(handled(assigned, record(0)))
    assigned.closed = True
    assert batch.checkpoints() == {}


def test_a_touched_partition_commits_its_position() -> None:
    """Where a source is read for the first time, though nothing of it ended yet."""
    assigned = source(next_offset=17)
    batch = Batch(shared())
    batch.touch(assigned)
    assert batch.checkpoints() == {assigned.partition: Checkpoint(17, "")}
    assert batch.size == 0


def test_every_copy_has_an_owner() -> None:
    """One for one, in order: the writer names a refused copy by its index."""
    batch = batch_of(
        handled(source(), *map(record, range(4)), failures={1: RAISED, 2: REJECTED}, outputs={0: [output(b"")] * 2}),
        common=shared(journal=True),
    )
    found = [
        (copy.topic, owner and (owner.offset, owner.role))
        for copy, owner in zip(batch.copies, batch.owners, strict=True)
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
