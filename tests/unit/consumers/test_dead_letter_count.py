"""What the dead-letter topics hold, from the headers of each record, seen once."""

import json
from collections.abc import Mapping

import pytest

from consumers.dead_letter_count import UNKNOWN_REASON, DeadLetterCount
from consumers.observer import DeadLetterLabel, DeadLetterStanding, DeadLetterTopic
from consumers.release import UNKNOWN_SOURCE
from tests.unit.consumers.records import NOW, Fetched, lineage
from topology.configuration import load_settings
from topology.decision import DeadLetter, Failure, FailureKind, Reason
from topology.facts import Bounds, TopicFacts
from topology.headers import FAILURE_CAUSE, ORIG_ADDRESS, HeaderList, Headers, dead_letter_headers, failure_cause
from transport.errors import TransportError
from transport.message_headers import UnreadableHeadersError
from transport.protocols import Partition

DLQ = Partition("DLQ.orders", 0)
OTHER = Partition("DLQ.orders", 1)
ORDERS: HeaderList = [(ORIG_ADDRESS, b"orders")]
REJECTED = DeadLetterLabel("orders", "rejected")


def topics(*bounds: tuple[int, int], retention: str = "-1") -> dict[str, TopicFacts]:
    """The dead-letter topic, with these bounds of its partitions."""
    found = {number: Bounds(*each) for number, each in enumerate(bounds)}
    configs = {"retention.ms": retention}
    facts = TopicFacts(name="DLQ.orders", partitions=len(bounds), replication_factor=1, configs=configs, bounds=found)
    return {"DLQ.orders": facts}


def counting(*more: str, sources: str = "sources: [{topic: orders}]") -> DeadLetterCount:
    """Of the group ``billing`` with the source ``orders``; ``more`` are lines of its configuration."""
    lines = ["group: billing", 'kafka: {bootstrap.servers: "localhost:9092"}', sources, *more]
    return DeadLetterCount(load_settings("\n".join(lines)))


def headers(reason: Reason = Reason.REJECTED, *, group: str = "billing", expires_ms: int = 0) -> Headers:
    """Of a dead letter."""
    decision = DeadLetter(reason, Failure(FailureKind.REJECTED, "Reject", "no"), expires_ms)
    return dead_letter_headers(lineage(), group, (), decision, NOW)


def dead(offset: int, pairs: Headers | None = None, place: Partition = DLQ) -> Fetched:
    """A record of the dead-letter topic, written ``offset`` ms after :data:`NOW`."""
    return Fetched(*place, offset, None, b"v", list(headers() if pairs is None else pairs), NOW + offset)


def kinds(count: DeadLetterCount, now_ms: int = NOW) -> Mapping[DeadLetterLabel, DeadLetterStanding]:
    """What it tells by kind."""
    return count.kept(now_ms, {}).kinds


def test_by_origin_and_reason_over_all_partitions() -> None:
    """With the oldest of each."""
    count = counting()
    assert count.watch(topics((0, 9), (5, 9)), [DLQ, OTHER]) == {DLQ: 0, OTHER: 5}
    count.take([dead(3), dead(4, headers(Reason.EXPIRED)), dead(7), dead(6, place=OTHER)])
    assert kinds(count) == {
        REJECTED: DeadLetterStanding(3, 0, NOW + 3),
        DeadLetterLabel("orders", "expired"): DeadLetterStanding(1, 0, NOW + 4),
    }


def test_each_record_counts_once() -> None:
    """Whatever is fetched again; the look goes on behind it."""
    count = counting()
    count.watch(topics((0, 9)), [DLQ])
    count.take([dead(0), dead(1)])
    count.take([dead(0), dead(1), dead(2)])
    assert kinds(count)[REJECTED].depth == 3
    assert count.watch(topics((0, 9)), [DLQ]) == {DLQ: 3}


def test_what_was_deleted_is_forgotten() -> None:
    """By retention or by hand; also what was deleted before it was read."""
    count = counting()
    count.watch(topics((0, 9)), [DLQ])
    count.take([dead(offset) for offset in range(5)])
    assert count.watch(topics((3, 9)), [DLQ]) == {DLQ: 5}
    assert kinds(count) == {REJECTED: DeadLetterStanding(2, 0, NOW + 3)}
    assert count.watch(topics((8, 9)), [DLQ]) == {DLQ: 8}
    assert kinds(count) == {}


def test_a_topic_that_was_made_again_is_read_from_its_start() -> None:
    """Its end is before where we were."""
    count = counting()
    count.watch(topics((0, 9)), [DLQ])
    count.take([dead(offset) for offset in range(9)])
    assert count.watch(topics((0, 2)), [DLQ]) == {DLQ: 0}
    count.take([dead(0)])
    assert kinds(count)[REJECTED].depth == 1


def test_a_partition_that_another_scheduler_watches_is_not_counted() -> None:
    """Nor what still comes of it."""
    count = counting()
    count.watch(topics((0, 9), (0, 9)), [DLQ, OTHER])
    count.take([dead(0), dead(1, place=OTHER)])
    assert count.watch(topics((0, 9), (0, 9)), [OTHER]) == {OTHER: 2}
    count.take([dead(1)])
    assert kinds(count) == {REJECTED: DeadLetterStanding(1, 0, NOW + 1)}


def test_one_whose_bounds_are_not_known_stays_as_it_is() -> None:
    """It has no leader just now."""
    count = counting()
    count.watch(topics((0, 9)), [DLQ])
    count.take([dead(0)])
    facts = topics((0, 9))["DLQ.orders"]
    without = TopicFacts(name=facts.name, partitions=1, replication_factor=1)
    assert count.watch({facts.name: without}, [DLQ]) == {DLQ: 1}
    assert kinds(count)[REJECTED].depth == 1


def test_dead_letters_of_other_groups_are_theirs() -> None:
    """The default name of the topic is the same for all groups of a source."""
    count = counting()
    count.watch(topics((0, 9)), [DLQ])
    count.take([dead(0, headers(group="shipping"))])
    assert kinds(count) == {}


@pytest.mark.parametrize(
    ("pairs", "topic"), [([], UNKNOWN_SOURCE), ([(ORIG_ADDRESS, b"bills")], UNKNOWN_SOURCE), (ORDERS, "orders")]
)
@pytest.mark.parametrize(
    "cause", [None, b"", b"\xff", b"{", b"7", b"{}", b'{"reason": "mine"}', b'{"reason": ["rejected"]}']
)
def test_labels_are_bounded_whatever_the_headers_say(pairs: HeaderList, topic: str, cause: bytes | None) -> None:
    """What is none of ours is unknown."""
    count = counting()
    count.watch(topics((0, 9)), [DLQ])
    count.take([dead(0, [*pairs, (FAILURE_CAUSE, cause)])])
    assert list(kinds(count)) == [DeadLetterLabel(topic, UNKNOWN_REASON)]


def test_headers_that_cannot_be_read_are_no_headers() -> None:
    """Somebody else's record in our topic stops nothing."""

    class Unreadable(Fetched):
        def headers(self) -> list[tuple[str, bytes | None]] | None:
            raise SystemError("null pointers")

    count = counting()
    count.watch(topics((0, 9)), [DLQ])
    assert issubclass(UnreadableHeadersError, TransportError)
    count.take([Unreadable(*DLQ, 0), dead(1)])
    assert {label.topic for label in kinds(count)} == {UNKNOWN_SOURCE, "orders"}


def test_expired_ones_are_counted_apart() -> None:
    """By the dead letter's own expiration."""
    count = counting()
    count.watch(topics((0, 9)), [DLQ])
    count.take([dead(0, headers(expires_ms=NOW + 50)), dead(1, headers(expires_ms=NOW + 90)), dead(2)])
    assert kinds(count, NOW + 60) == {REJECTED: DeadLetterStanding(2, 1, NOW + 1)}


def test_each_topic_tells_what_is_unread_and_how_long_it_keeps() -> None:
    """Over its partitions; the oldest of all kinds is the first that is lost."""
    count = counting()
    count.watch(topics((0, 9), (0, 9), retention="60000"), [DLQ, OTHER])
    count.take([dead(4), dead(2, headers(Reason.EXPIRED), place=OTHER)])
    kept = count.kept(NOW, {DLQ: 3, OTHER: 4})
    assert kept.topics == {"DLQ.orders": DeadLetterTopic(7, 60_000, NOW + 60_002)}


@pytest.mark.parametrize(("retention_ms", "loss_ms"), [(60_000, None), (59_999, NOW + 1 + 59_999)])
def test_what_expires_by_itself_before_retention_is_no_loss(retention_ms: int, loss_ms: int | None) -> None:
    """It is meant to go then; one that lives longer than retention keeps it is lost, until it has expired."""
    count = counting()
    count.watch(topics((0, 9), retention=str(retention_ms)), [DLQ])
    count.take([dead(0, headers(expires_ms=NOW + 10)), dead(1, headers(expires_ms=NOW + 1 + 60_000))])
    assert count.kept(NOW, {}).topics["DLQ.orders"].loss_ms == loss_ms
    assert count.kept(NOW + 60_001, {}).topics["DLQ.orders"].loss_ms is None


def test_what_is_to_be_moved_when_it_has_expired_must_outlive_it() -> None:
    """Retention that takes it at that very moment takes it before the sweeper."""
    count = counting("policyEntry: {deadLetterStrategy: {expiration: 60000, expiryAddress: EXP}}")
    count.watch(topics((0, 9), retention="60000"), [DLQ])
    count.take([dead(0, headers(expires_ms=NOW + 60_000))])
    assert count.kept(NOW, {}).topics["DLQ.orders"].loss_ms == NOW + 60_000


def test_one_that_keeps_for_ever_has_no_retention() -> None:
    """Any negative number means so."""
    count = counting()
    count.watch(topics((0, 0)), [DLQ])
    assert count.kept(NOW, {}).topics == {"DLQ.orders": DeadLetterTopic(0, None, None)}


def test_how_our_own_causes_are_read() -> None:
    """Each of our reasons, whatever the message says, and the same from whoever writes JSON another way."""
    count = counting()
    count.watch(topics((0, 99)), [DLQ])
    failure = Failure(FailureKind.REJECTED, "Reject", 'no,"reason":"expired"')
    causes = [failure_cause(reason, failure) for reason in Reason]
    causes += [json.dumps({"message": "no", "reason": reason}).encode() for reason in Reason]
    count.take([dead(offset, [*ORDERS, (FAILURE_CAUSE, cause)]) for offset, cause in enumerate(causes)])
    assert {label.reason: kept.depth for label, kept in kinds(count).items()} == dict.fromkeys(map(str, Reason), 2)


def test_many_kinds_share_the_memory() -> None:
    """With more than two thousand, each has fewer than the 128 runs that one alone may have."""
    number = 2500
    sources = ", ".join(f"{{topic: s{index}}}" for index in range(number))
    count = counting(sources=f"sources: [{sources}]")
    count.watch(topics((0, 10**6)), [DLQ])
    name = [(ORIG_ADDRESS, b"s%d" % index) for index in range(number)]
    count.take([dead(offset, [name[0]]) for offset in range(128)])
    assert count.runs == 128
    count.take([dead(128 + offset, [each]) for offset, each in enumerate([*name, name[0]])])
    assert count.runs < 128 + number - 20
