"""The partitions a worker owns: each begins where its commit says, and no record of them is taken twice."""

import pytest

from consumers.assignment import Assignment
from tests.unit.consumers.doubles import StoredOffsets
from tests.unit.consumers.records import BORN, NOW, Fetched, lineage, record, redelivery, route
from topology.errors import ProgressError
from topology.lineage import Lineage
from topology.progress import Checkpoint, Progress
from transport.errors import MissingOffsetError
from transport.protocols import Message, Partition

ORDERS = Partition("orders", 0)
READY = Partition("billing.ready.orders", 0)


def assignment(reader: StoredOffsets | None = None, start: str = "earliest") -> Assignment:
    """What a worker of the group ``billing`` owns: nothing yet."""
    return Assignment([route()], start, StoredOffsets() if reader is None else reader)


def committed(**places: int) -> StoredOffsets:
    """A group with these committed offsets."""
    known = {"orders": ORDERS, "ready": READY}
    return StoredOffsets({known[name]: Checkpoint(offset, "") for name, offset in places.items()})


def taken(assigned: Assignment, *messages: Message) -> dict[Partition, list[int]]:
    """The offsets that are to be handled, by partition."""
    found = assigned.take(messages)
    return {one.partition: [message.offset() for message in records] for one, records in found}


def test_source_and_ready_topic_are_read() -> None:
    """Both, by the same group."""
    assert assignment().topics == ["orders", "billing.ready.orders"]


class TestOpen:
    def test_it_begins_where_the_commit_says(self) -> None:
        """In the source as in the ready topic; nothing is to be committed yet."""
        owned = assignment(committed(orders=17, ready=4))
        [source, ready] = owned.open([ORDERS, READY])
        assert (source.progress.next_offset, source.redelivered, source.dirty) == (17, False, False)
        assert (ready.progress.next_offset, ready.redelivered, ready.dirty) == (4, True, False)
        assert ready.route is source.route

    @pytest.mark.parametrize(("start", "expected"), [("earliest", 3), ("latest", 90)])
    def test_a_source_read_for_the_first_time_begins_at_an_end(self, start: str, expected: int) -> None:
        """And has that position to commit, so that the next one begins there too."""
        owned = assignment(StoredOffsets(ends={ORDERS: (3, 90)}), start)
        [source] = owned.open([ORDERS])
        assert source.progress.next_offset == expected
        assert owned.dirty() == [source]

    def test_an_offset_of_zero_is_an_offset(self) -> None:
        """Not a missing one."""
        reader = committed(orders=0, ready=0)
        [source, ready] = assignment(reader, "latest").open([ORDERS, READY])
        assert (source.progress.next_offset, ready.progress.next_offset) == (0, 0)

    def test_a_ready_partition_without_an_offset_is_a_fault(self) -> None:
        """Starting anywhere else could lose or repeat what waits there; nothing is owned after it."""
        owned = assignment(committed(orders=17))
        with pytest.raises(MissingOffsetError, match=r"billing\.ready\.orders-0 has no committed offset .*apply"):
            owned.open([ORDERS, READY])
        assert owned.all() == []

    def test_metadata_of_somebody_else_is_a_fault(self) -> None:
        """Another tool has moved the group."""
        owned = assignment(StoredOffsets({ORDERS: Checkpoint(5, "hello")}))
        with pytest.raises(ProgressError, match="another tool"):
            owned.open([ORDERS])


class TestTake:
    def test_records_come_by_partition_in_order(self) -> None:
        """However they were mixed in the fetch."""
        owned = assignment(committed(orders=0, ready=0))
        owned.open([ORDERS, READY])
        ready = [redelivery(offset, lineage(partition=0)) for offset in range(2)]
        assert taken(owned, record(0), ready[0], record(1), ready[1], record(2)) == {ORDERS: [0, 1, 2], READY: [0, 1]}

    def test_what_was_finished_out_of_order_is_skipped(self) -> None:
        """The commit's metadata tells; the rest is taken."""
        before = Progress(0)
        for offset in range(4):
            before.see(offset)
        before.finish([1, 3])
        owned = assignment(StoredOffsets({ORDERS: before.checkpoint()}))
        owned.open([ORDERS])
        assert taken(owned, *map(record, range(6))) == {ORDERS: [0, 2, 4, 5]}

    def test_what_is_fetched_again_is_skipped(self) -> None:
        """A pause makes the client fetch again what it had."""
        owned = assignment(committed(orders=0))
        owned.open([ORDERS])
        taken(owned, record(0), record(1))
        assert taken(owned, record(0), record(1), record(2)) == {ORDERS: [2]}

    def test_what_belongs_to_nobody_is_skipped(self) -> None:
        """It was fetched before its partition left."""
        owned = assignment(committed(orders=0))
        [source] = owned.open([ORDERS])
        owned.close(source.partition)
        assert taken(owned, record(0), record(0, partition=1)) == {}
        assert source.closed

    def test_a_halted_partition_is_not_read(self) -> None:
        """Until a restart; the others go on."""
        owned = assignment(committed(orders=0, ready=0))
        owned.open([ORDERS, READY])
        owned.halt([ORDERS])
        assert taken(owned, record(0), redelivery(0, lineage(partition=0))) == {READY: [0]}
        assert owned.halted == {ORDERS}
        assert dict(owned.places()) == {ORDERS: False, READY: True}

    def test_nothing_is_nothing(self) -> None:
        """An empty fetch."""
        assert taken(assignment()) == {}


class TestReopen:
    def test_everything_is_as_committed(self) -> None:
        """What was seen and finished since then never happened; results still on their way are void."""
        reader = committed(orders=2)
        owned = assignment(reader)
        [before] = owned.open([ORDERS])
        taken(owned, *map(record, range(2, 6)))
        before.progress.finish([2, 3])
        reader.commits[ORDERS] = Checkpoint(3, "")
        [after] = owned.reopen()
        assert before.closed
        assert not after.closed
        assert owned.find([ORDERS]) == [after]
        assert taken(owned, *map(record, range(3, 6))) == {ORDERS: [3, 4, 5]}

    def test_what_is_about_to_leave_is_not_opened_again(self) -> None:
        """It is read by somebody else in a moment."""
        owned = assignment(committed(orders=0, ready=0))
        [source, _] = owned.open([ORDERS, READY])
        assert [one.partition for one in owned.reopen(leaving=[ORDERS])] == [READY]
        assert source.closed
        assert owned.find([ORDERS]) == []

    def test_a_halted_partition_stays_halted(self) -> None:
        """Until a restart."""
        owned = assignment(committed(orders=0))
        owned.open([ORDERS])
        owned.halt([ORDERS])
        owned.reopen()
        assert taken(owned, record(0)) == {}

    def test_a_first_position_is_dirty_again(self) -> None:
        """It was not committed."""
        owned = assignment(StoredOffsets(ends={ORDERS: (3, 90)}))
        owned.open([ORDERS])
        owned.reopen()
        assert [one.partition for one in owned.dirty()] == [ORDERS]


class TestLineage:
    """Of a record that no slot has seen: it comes again after its copy was refused."""

    def owned(self) -> Assignment:
        """Source and ready topic."""
        owned = assignment(committed(orders=0, ready=0))
        owned.open([ORDERS, READY])
        return owned

    def test_of_a_first_delivery(self) -> None:
        """It is its own origin; its expiration is known."""
        owned = self.owned()
        [source] = owned.find([ORDERS])
        message = record(4, headers=[("JMSExpiration", b"%d" % NOW)])
        assert owned.lineage(source, message) == Lineage("orders", 0, 4, BORN, 0, NOW)

    def test_of_a_redelivery(self) -> None:
        """From its headers."""
        owned = self.owned()
        [ready] = owned.find([READY])
        assert owned.lineage(ready, redelivery(4, lineage(42, deliveries=3))) == lineage(42, deliveries=3)

    def test_of_a_redelivery_with_damaged_headers(self) -> None:
        """What is known of it is where it lies."""
        owned = self.owned()
        [ready] = owned.find([READY])
        assert owned.lineage(ready, Fetched(*READY, 4, stamp_ms=NOW)) == Lineage(*READY, 4, NOW)
