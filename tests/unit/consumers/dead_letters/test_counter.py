"""The counter counts each dead letter once, by the source topic and the reason in its headers."""

import json
from collections.abc import Mapping

import pytest

from kafka_redelivery.consumers.dead_letters.monitor import UNKNOWN_REASON, DeadLetterCounter
from kafka_redelivery.consumers.routes import UNKNOWN_SOURCE
from kafka_redelivery.consumers.telemetry.observers import DeadLetterCount, DeadLetterLabel, DeadLetterTopic
from kafka_redelivery.topology.cluster.facts import Bounds, TopicFacts
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.wire.headers import (
    FAILURE_CAUSE,
    ORIG_ADDRESS,
    HeaderList,
    Headers,
    dead_letter_headers,
    failure_cause,
)
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.records import NOW, Fetched, lineage

DLQ = Partition("DLQ.orders", 0)
OTHER = Partition("DLQ.orders", 1)
ORDERS: HeaderList = [(ORIG_ADDRESS, b"orders")]
REJECTED = DeadLetterLabel("orders", "rejected")


def topics(*bounds: tuple[int, int], retention: str = "-1", mark: str = "") -> dict[str, TopicFacts]:
    """The dead-letter topic, with these partition bounds."""
    found = {number: Bounds(*each) for number, each in enumerate(bounds)}
    configs = {"retention.ms": retention}
    return {
        "DLQ.orders": TopicFacts(
            name="DLQ.orders", partitions=len(bounds), replication_factor=1, configs=configs, bounds=found, mark=mark
        )
    }


def counting(*more: str, sources: str = "sources: [{topic: orders}]") -> DeadLetterCounter:
    """A counter of group ``billing`` with the source ``orders``; ``more`` are lines of its configuration."""
    lines = ["group: billing", 'kafka: {bootstrap.servers: "localhost:9092"}', sources, *more]
    return DeadLetterCounter(load_settings("\n".join(lines)))


def headers(reason: Reason = Reason.REJECTED, *, group: str = "billing", expires_ms: int = 0) -> Headers:
    """Headers of a dead letter."""
    decision = DeadLetter(reason, Failure(FailureKind.REJECTED, "Reject", "no"), expires_ms)
    return dead_letter_headers(lineage(), group, (), decision, NOW)


def dead(offset: int, pairs: Headers | None = None, place: Partition = DLQ) -> Fetched:
    """A record of the dead-letter topic, written ``offset`` ms after :data:`NOW`."""
    return Fetched(*place, offset, None, b"v", list(headers() if pairs is None else pairs), NOW + offset)


def kinds(counter: DeadLetterCounter, now_ms: int = NOW) -> Mapping[DeadLetterLabel, DeadLetterCount]:
    """The counts by kind."""
    return counter.counts(now_ms, {}).kinds


def test_counts_by_source_and_reason_over_all_partitions() -> None:
    """Each kind has its number and its oldest dead letter."""
    counter = counting()
    assert counter.assign(topics((0, 9), (5, 9)), [DLQ, OTHER]) == {DLQ: 0, OTHER: 5}
    counter.add([dead(3), dead(4, headers(Reason.EXPIRED)), dead(7), dead(6, place=OTHER)])
    assert kinds(counter) == {
        REJECTED: DeadLetterCount(3, 0, NOW + 3),
        DeadLetterLabel("orders", "expired"): DeadLetterCount(1, 0, NOW + 4),
    }


def test_each_record_counts_once() -> None:
    """A record that is fetched again is skipped, and reading goes on behind it."""
    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    counter.add([dead(0), dead(1)])
    counter.add([dead(0), dead(1), dead(2)])
    assert kinds(counter)[REJECTED].depth == 3
    assert counter.assign(topics((0, 9)), [DLQ]) == {DLQ: 3}


def test_deleted_dead_letters_are_dropped() -> None:
    """Deleted by retention or by hand, before or after they were read."""
    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    counter.add([dead(offset) for offset in range(5)])
    assert counter.assign(topics((3, 9)), [DLQ]) == {DLQ: 5}
    assert kinds(counter) == {REJECTED: DeadLetterCount(2, 0, NOW + 3)}
    assert counter.assign(topics((8, 9)), [DLQ]) == {DLQ: 8}
    assert kinds(counter) == {}


def test_a_topic_that_was_created_again_is_read_from_its_start() -> None:
    """Its id is another one; of a broker without ids, its end is before the position."""
    for older, present, end in (("", "", 2), ("aaaa11111111", "aaaa22222222", 20)):
        counter = counting()
        counter.assign(topics((0, 9), mark=older), [DLQ])
        counter.add([dead(offset) for offset in range(9)])
        assert counter.assign(topics((0, 9)), [DLQ]) == {DLQ: 9}
        assert counter.assign(topics((0, end), mark=present), [DLQ]) == {DLQ: 0}
        counter.add([dead(0)])
        assert kinds(counter)[REJECTED].depth == 1


def test_a_partition_that_another_scheduler_counts_is_dropped() -> None:
    """Records that still arrive from it are skipped."""
    counter = counting()
    counter.assign(topics((0, 9), (0, 9)), [DLQ, OTHER])
    counter.add([dead(0), dead(1, place=OTHER)])
    assert counter.assign(topics((0, 9), (0, 9)), [OTHER]) == {OTHER: 2}
    counter.add([dead(1)])
    assert kinds(counter) == {REJECTED: DeadLetterCount(1, 0, NOW + 1)}


def test_a_partition_with_unknown_bounds_stays_as_it_is() -> None:
    """It has no leader at the moment."""
    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    counter.add([dead(0)])
    facts = topics((0, 9))["DLQ.orders"]
    without = TopicFacts(name=facts.name, partitions=1, replication_factor=1)
    assert counter.assign({facts.name: without}, [DLQ]) == {DLQ: 1}
    assert kinds(counter)[REJECTED].depth == 1


def test_dead_letters_of_other_groups_are_skipped() -> None:
    """By default all groups of a source share one dead-letter topic."""
    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    counter.add([dead(0, headers(group="shipping"))])
    assert kinds(counter) == {}


@pytest.mark.parametrize(
    ("pairs", "topic"), [([], UNKNOWN_SOURCE), ([(ORIG_ADDRESS, b"bills")], UNKNOWN_SOURCE), (ORDERS, "orders")]
)
@pytest.mark.parametrize(
    "cause", [None, b"", b"\xff", b"{", b"7", b"{}", b'{"reason": "mine"}', b'{"reason": ["rejected"]}']
)
def test_labels_are_bounded_for_any_headers(pairs: HeaderList, topic: str, cause: bytes | None) -> None:
    """A source or reason that is not known is labelled unknown."""
    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    counter.add([dead(0, [*pairs, (FAILURE_CAUSE, cause)])])
    assert list(kinds(counter)) == [DeadLetterLabel(topic, UNKNOWN_REASON)]


@pytest.mark.parametrize("length", [2_000, 4_800, 100_000])
@pytest.mark.parametrize("repeated", [b"[", b'{"reason":', b'{"reason":"rejected" ,"cause":'])
def test_a_deeply_nested_cause_is_labelled_unknown(repeated: bytes, length: int) -> None:
    """Any program can write to the topic; the records behind such a one are counted as well."""
    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    counter.add([dead(0, [*ORDERS, (FAILURE_CAUSE, (repeated * length)[:length])]), dead(1)])
    assert set(kinds(counter)) == {DeadLetterLabel("orders", UNKNOWN_REASON), REJECTED}


def test_a_long_cause_is_not_parsed() -> None:
    """The cause of another program is read up to six times the size that the wire format allows."""
    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    causes = [json.dumps({"message": "x" * length, "reason": "rejected"}).encode() for length in (4_700, 10_000_000)]
    counter.add([dead(offset, [*ORDERS, (FAILURE_CAUSE, cause)]) for offset, cause in enumerate(causes)])
    assert {label.reason: count.depth for label, count in kinds(counter).items()} == {
        "rejected": 1,
        UNKNOWN_REASON: 1,
    }


def test_a_record_with_unreadable_headers_counts_as_unknown() -> None:
    """Such a record of another program does not stop the count."""

    class Unreadable(Fetched):
        def headers(self) -> list[tuple[str, bytes | None]] | None:
            raise SystemError("null pointers")

    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    assert issubclass(UnreadableHeadersError, TransportError)
    counter.add([Unreadable(*DLQ, 0), dead(1)])
    assert {label.topic for label in kinds(counter)} == {UNKNOWN_SOURCE, "orders"}


def test_expired_dead_letters_are_counted_separately() -> None:
    """A dead letter expires by its own header."""
    counter = counting()
    counter.assign(topics((0, 9)), [DLQ])
    counter.add([dead(0, headers(expires_ms=NOW + 50)), dead(1, headers(expires_ms=NOW + 90)), dead(2)])
    assert kinds(counter, NOW + 60) == {REJECTED: DeadLetterCount(2, 1, NOW + 1)}


def test_each_topic_has_its_unread_records_and_its_retention() -> None:
    """Summed over its partitions; retention deletes the oldest dead letter of any kind first."""
    counter = counting()
    counter.assign(topics((0, 9), (0, 9), retention="60000"), [DLQ, OTHER])
    counter.add([dead(4), dead(2, headers(Reason.EXPIRED), place=OTHER)])
    counts = counter.counts(NOW, {DLQ: 3, OTHER: 4})
    assert counts.topics == {"DLQ.orders": DeadLetterTopic(7, 60_000, NOW + 60_002)}


@pytest.mark.parametrize(("retention_ms", "loss_ms"), [(60_000, None), (59_999, NOW + 1 + 59_999)])
def test_expiring_before_retention_is_no_loss(retention_ms: int, loss_ms: int | None) -> None:
    """A dead letter that should live longer than the retention time is a loss until it has expired."""
    counter = counting()
    counter.assign(topics((0, 9), retention=str(retention_ms)), [DLQ])
    counter.add([dead(0, headers(expires_ms=NOW + 10)), dead(1, headers(expires_ms=NOW + 1 + 60_000))])
    assert counter.counts(NOW, {}).topics["DLQ.orders"].loss_ms == loss_ms
    assert counter.counts(NOW + 60_001, {}).topics["DLQ.orders"].loss_ms is None


def test_a_dead_letter_that_will_be_moved_must_outlive_its_expiration() -> None:
    """Retention that deletes it at that very moment deletes it before the sweeper can move it."""
    counter = counting("policyEntry: {deadLetterStrategy: {expiration: 60000, expiryAddress: EXP}}")
    counter.assign(topics((0, 9), retention="60000"), [DLQ])
    counter.add([dead(0, headers(expires_ms=NOW + 60_000))])
    assert counter.counts(NOW, {}).topics["DLQ.orders"].loss_ms == NOW + 60_000


def test_a_negative_retention_is_unlimited() -> None:
    """Kafka accepts any negative number."""
    counter = counting()
    counter.assign(topics((0, 0)), [DLQ])
    assert counter.counts(NOW, {}).topics == {"DLQ.orders": DeadLetterTopic(0, None, None)}


def test_every_reason_is_read_from_the_failure_cause() -> None:
    """Whatever the message says, and in JSON of another program that orders keys or spaces differently."""
    counter = counting()
    counter.assign(topics((0, 99)), [DLQ])
    failure = Failure(FailureKind.REJECTED, "Reject", 'no,"reason":"expired"')
    causes = [failure_cause(reason, failure) for reason in Reason]
    causes += [json.dumps({"message": "no", "reason": reason}).encode() for reason in Reason]
    counter.add([dead(offset, [*ORDERS, (FAILURE_CAUSE, cause)]) for offset, cause in enumerate(causes)])
    assert {label.reason: count.depth for label, count in kinds(counter).items()} == dict.fromkeys(map(str, Reason), 2)


def test_many_kinds_share_the_memory() -> None:
    """With more than two thousand kinds each summary has fewer than the 128 segments that one alone may have."""
    number = 2500
    sources = ", ".join(f"{{topic: s{index}}}" for index in range(number))
    counter = counting(sources=f"sources: [{sources}]")
    counter.assign(topics((0, 10**6)), [DLQ])
    name = [(ORIG_ADDRESS, b"s%d" % index) for index in range(number)]
    counter.add([dead(offset, [name[0]]) for offset in range(128)])
    assert counter.segments == 128
    counter.add([dead(128 + offset, [each]) for offset, each in enumerate([*name, name[0]])])
    assert counter.segments < 128 + number - 20
