"""The partitions of a worker start at their committed offsets, and no record is accepted twice."""

import pytest

from kafka_redelivery.consumers.flow.assigned_partition import lineage_of
from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.first_offsets import KEEP_EVERY_S, FirstOffsets
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.stops import LostPosition
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord
from tests.unit.consumers.doubles import Clock, StoredOffsets, no_stops
from tests.unit.consumers.records import BORN, NOW, Fetched, lineage, record, redelivery, route

ORDERS = Partition("orders", 0)
READY = Partition("billing.ready.orders", 0)


def assignment(reader: StoredOffsets | None = None, start: str = "earliest") -> Assignment:
    """An assignment of the group ``billing``, without partitions."""
    reader = StoredOffsets() if reader is None else reader
    return Assignment(
        [route()], reader, FirstOffsets(reader, start), no_stops(), {"orders": Lanes(Ordering.PARTITION, 1)}
    )


def committed(**offsets: int) -> StoredOffsets:
    """A reader of a group with these committed offsets."""
    known = {"orders": ORDERS, "ready": READY}
    return StoredOffsets({known[name]: Checkpoint(offset, "") for name, offset in offsets.items()})


def accepted(assigned: Assignment, *messages: Message) -> dict[Partition, list[int]]:
    """The offsets of the accepted records, by partition."""
    found = assigned.accept(messages)
    return {one.partition: [message.offset() for message in records] for one, records in found}


def halt(owned: Assignment) -> None:
    """Halt the partition of the source."""
    owned.stops.refuse(
        ORDERS, 0, ProducerRecord("DLQ.orders", 0, None, None), RefusedRecord(0, "too large", RefusalCause.TOO_LARGE)
    )


def test_source_and_ready_topic_are_subscribed() -> None:
    """The same group reads both."""
    assert assignment().topics == ["orders", "billing.ready.orders"]


class TestOpen:
    def test_a_partition_starts_at_its_committed_offset(self) -> None:
        """Source and ready topic alike, and there is nothing to commit yet."""
        owned = assignment(committed(orders=17, ready=4))
        [source, ready] = owned.open([ORDERS, READY])
        assert (source.progress.next_offset, source.redelivered, source.dirty) == (17, False, False)
        assert (ready.progress.next_offset, ready.redelivered, ready.dirty) == (4, True, False)
        assert ready.route is source.route

    @pytest.mark.parametrize(("start", "expected"), [("earliest", 3), ("latest", 90)])
    def test_a_new_source_starts_at_its_beginning_or_end(self, start: str, expected: int) -> None:
        """Its start offset must be committed, so that the next owner starts there too."""
        owned = assignment(StoredOffsets(ends={ORDERS: (3, 90)}), start)
        [source] = owned.open([ORDERS])
        assert source.progress.next_offset == expected
        assert owned.dirty() == [source]

    def test_a_start_at_the_end_stays_where_it_was_until_it_is_committed(self) -> None:
        """If its first commit is aborted, the records that came in the meantime are not skipped."""
        reader = StoredOffsets(ends={ORDERS: (3, 90)})
        owned = assignment(reader, "latest")
        owned.open([ORDERS])
        reader.ends[ORDERS] = (3, 95)
        [source] = owned.reopen()
        assert source.progress.next_offset == 90
        assert owned.starting == {ORDERS}

        reader.commits[ORDERS] = Checkpoint(92, "")
        [source] = owned.reopen()
        assert source.progress.next_offset == 92
        assert owned.starting == set()

    def test_only_a_start_at_the_end_waits_for_its_commit(self) -> None:
        """A successor that starts at the beginning gets the same records."""
        owned = assignment(StoredOffsets(ends={ORDERS: (3, 90)}))
        owned.open([ORDERS])
        assert owned.starting == set()

    def test_idle_partitions_are_committed_again_now_and_then(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Otherwise their offsets would expire earlier than those of the others."""
        clock = Clock()
        monkeypatch.setattr("kafka_redelivery.consumers.flow.assignment.monotonic_s", clock)
        owned = assignment(committed(orders=0, ready=0))
        opened = owned.open([ORDERS, READY])
        owned.report()
        assert owned.dirty() == []
        clock.advance(KEEP_EVERY_S + 1)
        owned.report()
        assert owned.dirty() == opened
        assert owned.commit_due()

    def test_what_may_not_be_read_is_not_committed(self) -> None:
        """Kafka would refuse the offset, and with it the whole write, also those of other topics."""
        reader = committed(ready=0)
        reader.ends[ORDERS] = (4, 4)
        owned = assignment(reader, "latest")
        [source, _] = owned.open([ORDERS, READY])
        assert owned.commit_due(only_starts=True)
        reader.forbid([ORDERS.topic])
        assert (owned.dirty(), owned.commit_due(), owned.commit_due(only_starts=True)) == ([], False, False)
        assert owned.starting == {ORDERS}
        reader.forbidden.clear()
        assert owned.dirty() == [source]
        assert owned.commit_due(only_starts=True)

    def test_a_committed_offset_of_zero_counts(self) -> None:
        """It is not mistaken for a missing one."""
        reader = committed(orders=0, ready=0)
        [source, ready] = assignment(reader, "latest").open([ORDERS, READY])
        assert (source.progress.next_offset, ready.progress.next_offset) == (0, 0)

    def test_an_empty_ready_partition_without_a_committed_offset_starts_at_its_log_start(self) -> None:
        """A partition that was added; its first offset is committed with the next write."""
        reader = committed(orders=17)
        reader.ends[READY] = (4, 4)
        owned = assignment(reader, "latest")
        [_, ready] = owned.open([ORDERS, READY])
        assert ready.progress.next_offset == 4
        assert owned.dirty() == [ready]
        assert owned.commit_due()

    def test_a_ready_partition_with_records_and_without_a_committed_offset_halts_alone(self) -> None:
        """Any start could lose or repeat waiting records, because there is no control topic."""
        reader = committed(orders=17)
        reader.ends[READY] = (0, 4)
        owned = assignment(reader)
        owned.open([ORDERS, READY])
        assert owned.stops.unread == {READY}
        assert owned.dirty() == []
        assert "up to 4 records would be handled again" in owned.stops.problem
        assert "redelivery topology apply --accept-repeats" in owned.stops.problem

    def test_metadata_of_another_tool_halts_its_partition(self) -> None:
        """Nothing of it is committed. The text says that another tool may have changed the group."""
        owned = assignment(StoredOffsets({ORDERS: Checkpoint(5, "hello"), READY: Checkpoint(0, "")}))
        owned.open([ORDERS, READY])
        assert owned.stops.unread == {ORDERS}
        assert owned.dirty() == []
        assert "changed by another tool?" in owned.stops.problem
        assert "--reset-offsets --to-offset" in owned.stops.problem

    def test_metadata_of_a_newer_version_is_not_to_be_dropped(self) -> None:
        """It says what is finished. The fix is that version."""
        owned = assignment(StoredOffsets({ORDERS: Checkpoint(5, "p9:of the future")}))
        owned.open([ORDERS])
        assert "start that version and stop it gracefully" in owned.stops.problem
        assert owned.stops.problem.endswith("; it goes on by itself when the commit has changed")


class TestAccept:
    def test_records_are_grouped_by_partition_in_order(self) -> None:
        """The order of the fetch does not matter."""
        owned = assignment(committed(orders=0, ready=0))
        owned.open([ORDERS, READY])
        ready = [redelivery(offset, lineage(partition=0)) for offset in range(2)]
        fetched = [record(0), ready[0], record(1), ready[1], record(2)]
        assert accepted(owned, *fetched) == {ORDERS: [0, 1, 2], READY: [0, 1]}

    def test_records_finished_out_of_order_are_skipped(self) -> None:
        """The metadata of the commit names them."""
        before = Progress(0)
        for offset in range(4):
            before.track(offset)
        before.complete([1, 3])
        owned = assignment(StoredOffsets({ORDERS: before.checkpoint()}))
        owned.open([ORDERS])
        assert accepted(owned, *map(record, range(6))) == {ORDERS: [0, 2, 4, 5]}

    def test_records_fetched_again_are_skipped(self) -> None:
        """After a pause the client fetches again what it had buffered."""
        owned = assignment(committed(orders=0))
        owned.open([ORDERS])
        accepted(owned, record(0), record(1))
        assert accepted(owned, record(0), record(1), record(2)) == {ORDERS: [2]}

    def test_records_of_a_partition_that_is_not_owned_are_skipped(self) -> None:
        """They were fetched before the partition was revoked."""
        owned = assignment(committed(orders=0))
        [source] = owned.open([ORDERS])
        owned.close(source.partition)
        assert accepted(owned, record(0), record(0, partition=1)) == {}
        assert source.closed

    def test_a_halted_partition_is_skipped(self) -> None:
        """The other partitions go on."""
        owned = assignment(committed(orders=0, ready=0))
        owned.open([ORDERS, READY])
        halt(owned)
        assert accepted(owned, record(0), redelivery(0, lineage(partition=0))) == {READY: [0]}

    def test_an_empty_fetch_yields_nothing(self) -> None:
        """There is no partition to yield."""
        assert accepted(assignment()) == {}


class TestReachedEnds:
    """The offsets of transaction markers are committed, too, when a partition is idle."""

    def test_an_idle_partition_is_committed_after_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Later records may make that commit unnecessary."""
        clock = Clock()
        monkeypatch.setattr("kafka_redelivery.consumers.flow.assignment.monotonic_s", clock)
        owned = assignment(committed(orders=3))
        [source] = owned.open([ORDERS])
        owned.reach_ends({ORDERS: 4, READY: 9})
        assert source.progress.watermark == 4
        assert owned.dirty() == [source]
        assert not owned.commit_due()
        clock.advance(2)
        assert owned.commit_due()

    def test_a_start_offset_is_committed_immediately(self) -> None:
        """The next owner has to start there."""
        owned = assignment(StoredOffsets(ends={ORDERS: (3, 90)}))
        owned.open([ORDERS])
        assert owned.commit_due()

    def test_records_without_an_outcome_are_not_passed(self) -> None:
        """The commit of their outcome passes the end."""
        owned = assignment(committed(orders=3))
        [source] = owned.open([ORDERS])
        accepted(owned, record(3))
        owned.reach_ends({ORDERS: 5})
        assert owned.dirty() == []
        source.progress.complete([3])
        assert source.progress.watermark == 5

    def test_a_halted_partition_is_left_alone(self) -> None:
        """Its records were not accepted."""
        owned = assignment(committed(orders=3))
        [source] = owned.open([ORDERS])
        owned.stops.lose(LostPosition.deleted(ORDERS, 3))
        owned.reach_ends({ORDERS: 5})
        assert source.progress.watermark == 3


class TestReopen:
    def test_partitions_start_again_at_their_committed_offsets(self) -> None:
        """Later progress is dropped, and results still on their way are ignored."""
        reader = committed(orders=2)
        owned = assignment(reader)
        [before] = owned.open([ORDERS])
        accepted(owned, *map(record, range(2, 6)))
        before.progress.complete([2, 3])
        reader.commits[ORDERS] = Checkpoint(3, "")
        [after] = owned.reopen()
        assert before.closed
        assert not after.closed
        assert owned.find([ORDERS]) == [after]
        assert accepted(owned, *map(record, range(3, 6))) == {ORDERS: [3, 4, 5]}

    def test_leaving_partitions_are_not_opened_again(self) -> None:
        """Their next owner reads them."""
        owned = assignment(committed(orders=0, ready=0))
        [source, _] = owned.open([ORDERS, READY])
        assert [one.partition for one in owned.reopen(leaving=[ORDERS])] == [READY]
        assert source.closed
        assert owned.find([ORDERS]) == []

    def test_a_halted_partition_stays_halted(self) -> None:
        """Until its record is accepted, or it is assigned again."""
        owned = assignment(committed(orders=0))
        owned.open([ORDERS])
        halt(owned)
        owned.reopen()
        assert accepted(owned, record(0)) == {}
        owned.close(ORDERS)
        owned.open([ORDERS])
        assert accepted(owned, record(0)) == {ORDERS: [0]}

    def test_a_start_offset_is_dirty_again(self) -> None:
        """It was not committed."""
        owned = assignment(StoredOffsets(ends={ORDERS: (3, 90)}))
        owned.open([ORDERS])
        owned.reopen()
        assert [one.partition for one in owned.dirty()] == [ORDERS]


class TestLineage:
    """A record outside any work item: it is fetched again after its write was refused."""

    def owned(self) -> Assignment:
        """An assignment with one partition of the source and one of the ready topic."""
        owned = assignment(committed(orders=0, ready=0))
        owned.open([ORDERS, READY])
        return owned

    def test_of_a_first_delivery(self) -> None:
        """The record is its own origin, and its expiration is read."""
        owned = self.owned()
        [source] = owned.find([ORDERS])
        message = record(4, headers=[("JMSExpiration", b"%d" % NOW)])
        assert lineage_of(source, message) == Lineage("orders", 0, 4, BORN, 0, NOW)

    def test_of_a_redelivery(self) -> None:
        """It is read from the headers."""
        owned = self.owned()
        [ready] = owned.find([READY])
        assert lineage_of(ready, redelivery(4, lineage(42, deliveries=3))) == lineage(42, deliveries=3)

    def test_of_a_redelivery_with_damaged_headers(self) -> None:
        """Only its position in the ready topic is known."""
        owned = self.owned()
        [ready] = owned.find([READY])
        assert lineage_of(ready, Fetched(*READY, 4, stamp_ms=NOW)) == Lineage(*READY, 4, NOW)

    def test_of_a_redelivery_with_a_damaged_header(self) -> None:
        """What can be read is kept."""
        owned = self.owned()
        [ready] = owned.find([READY])
        message = redelivery(4, lineage(42, deliveries=3))
        message.pairs = [pair for pair in message.pairs or [] if pair[0] != "JMSXDeliveryCount"]
        assert lineage_of(ready, message) == lineage(42, deliveries=0)
