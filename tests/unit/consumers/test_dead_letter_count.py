"""What the dead-letter topics hold, from the headers of each record, seen once."""

from collections.abc import Mapping

import pytest

from consumers.dead_letter_count import UNKNOWN_REASON, DeadLetterCount
from consumers.observer import DeadLetterLabel, DeadLetterStanding, DeadLetterTopic
from consumers.release import UNKNOWN_SOURCE
from tests.unit.consumers.records import NOW, Fetched, lineage
from topology.configuration import load_settings
from topology.decision import DeadLetter, Failure, FailureKind, Reason
from topology.facts import Bounds, TopicFacts
from topology.headers import FAILURE_CAUSE, ORIG_ADDRESS, HeaderList, Headers, dead_letter_headers
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


def counting() -> DeadLetterCount:
    """Of the group ``billing`` with the source ``orders``."""
    return DeadLetterCount(
        load_settings("""
        group: billing
        kafka: {bootstrap.servers: "localhost:9092"}
        sources: [{topic: orders}]
        """)
    )


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
    """Over its partitions; the oldest of all kinds counts."""
    count = counting()
    count.watch(topics((0, 9), (0, 9), retention="60000"), [DLQ, OTHER])
    count.take([dead(4), dead(2, headers(Reason.EXPIRED), place=OTHER)])
    kept = count.kept(NOW, {DLQ: 3, OTHER: 4})
    assert kept.topics == {"DLQ.orders": DeadLetterTopic(7, 60_000, NOW + 2)}


def test_one_that_keeps_for_ever_has_no_retention() -> None:
    """Any negative number means so."""
    count = counting()
    count.watch(topics((0, 0)), [DLQ])
    assert count.kept(NOW, {}).topics == {"DLQ.orders": DeadLetterTopic(0, None, None)}
