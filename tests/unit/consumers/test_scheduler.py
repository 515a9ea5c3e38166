"""The scheduler between its reader and its writer: what it writes, and where it goes on after a refusal."""

import time
from collections.abc import Iterable

import pytest

from consumers.errors import HaltedError
from consumers.lead import Lead
from consumers.observer import Released
from consumers.patience import GIVE_UP_S
from consumers.scheduler import Scheduler, Share
from tests.unit.consumers.doubles import Clock, Noting, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers
from topology.configuration import load_settings
from topology.progress import Checkpoint
from transport.errors import MissingOffsetError, Refusal, WriteRefusedError, WriteUndoneError
from transport.protocols import Message, Partition

QUICK = Partition("billing.retry.1s", 0)
SLOW = Partition("billing.retry.2s", 0)
MIXED = Partition("billing.retry.mixed", 0)
COUNTS = {
    "billing.retry.1s": 1,
    "billing.retry.2s": 1,
    "billing.retry.mixed": 1,
    "billing.ready.orders": 1,
    "DLQ.orders": 1,
}


def due(place: Partition, *offsets: int, due_ms: int = NOW) -> list[Message]:
    """Records of a tier that are due, as its delay has it."""
    appended_ms = due_ms - (2000 if place == SLOW else 1000)
    headers = [waiting_headers(lineage(offset, partition=0), due_ms=due_ms) for offset in offsets]
    return [
        Fetched(*place, offset, None, b"%d" % offset, pairs, appended_ms)
        for offset, pairs in zip(offsets, headers, strict=True)
    ]


class NotingReleases(Noting):
    """Keeps what a scheduler tells."""

    def __init__(self) -> None:
        super().__init__()
        self.releases: list[Released] = []

    def released(self, details: Released) -> None:
        """Keep it."""
        self.releases.append(details)


class Running:
    """A scheduler that owns three partitions, all read from their start, and is turned by hand."""

    def __init__(self, *script: Exception, limit: str = "batch: 1000", lead_s: float = 0.0) -> None:
        settings = load_settings(
            f"""
            group: billing
            kafka: {{bootstrap.servers: "localhost:9092"}}
            sources: [{{topic: orders}}]
            limits: {{{limit}}}
            """
        )
        self.reader = StoredOffsets({place: Checkpoint(0, "") for place in (QUICK, SLOW, MIXED)}, counts=COUNTS)
        self.writer = ScriptedWriter(list(script))
        self.observer = NotingReleases()
        self.now_ms = NOW
        self.scheduler = Scheduler(settings, self.reader, self.writer, self.observer, lambda: self.now_ms, Lead(lead_s))
        self.scheduler._refresh()
        self.scheduler.assigned([QUICK, SLOW, MIXED])

    def turn(self, *fetches: Iterable[Message]) -> None:
        """As many turns as fetches, one to begin to write what the last one brought, and one to see how that ended."""
        for fetched in [*fetches, (), ()]:
            self.reader.fetches = [list(fetched)]
            self.scheduler._turn()

    def topics(self) -> list[list[str]]:
        """Where the copies of each confirmed write went."""
        return [[copy.topic for copy in copies] for copies, _ in self.writer.confirmed]

    def values(self) -> list[list[bytes | None]]:
        """What the copies of each confirmed write were."""
        return [[copy.value for copy in copies] for copies, _ in self.writer.confirmed]


def refused(*indexes: int) -> WriteRefusedError:
    """The broker refuses these copies."""
    return WriteRefusedError([Refusal(index, "too large") for index in indexes])


def test_what_is_due_is_released_with_its_offset() -> None:
    """In one write; what is not stays."""
    running = Running()
    running.turn([*due(QUICK, 0, 1), *due(SLOW, 5), *due(QUICK, 2, due_ms=NOW + 1)])
    assert running.topics() == [["billing.ready.orders"] * 3]
    [(_, checkpoints)] = running.writer.confirmed
    assert checkpoints == {QUICK: Checkpoint(2, ""), SLOW: Checkpoint(6, "")}
    running.now_ms += 1
    running.turn()
    assert running.values()[1:] == [[b"2"]]


def test_the_mixed_topic_remembers_what_it_released_out_of_order() -> None:
    """In the metadata of the same commit."""
    running = Running()
    running.turn([*due(MIXED, 0, due_ms=NOW + 500), *due(MIXED, 1)])
    [(_, checkpoints)] = running.writer.confirmed
    assert checkpoints[MIXED].offset == 0
    running.reader.commits |= checkpoints
    running.scheduler.assigned([MIXED])
    running.now_ms += 500
    running.turn([*due(MIXED, 0, 1)])
    assert running.values() == [[b"1"], [b"0"]]


def test_the_observer_is_told_of_what_was_confirmed() -> None:
    """How late, by the clock after the write."""
    running = Running()
    running.turn(due(QUICK, 0, 1, due_ms=NOW - 40))
    [told] = running.observer.releases
    assert list(told.lateness_ms) == [40, 40]


def test_a_refused_record_is_dead_lettered_and_the_rest_released() -> None:
    """The write is repeated from what is committed."""
    running = Running(refused(1))
    records = due(QUICK, 0, 1, 2)
    running.turn(records, (), records)
    assert running.reader.sought == [(QUICK, 0), (SLOW, 0), (MIXED, 0)]
    assert running.topics() == [["billing.ready.orders", "DLQ.orders", "billing.ready.orders"]]
    assert running.observer.releases[0].dead_letters == {("orders", "undeliverable"): 1}


def test_a_refusal_is_remembered_until_its_record_is_done() -> None:
    """After going back another tier may be fetched and written first."""
    running = Running(refused(0))
    running.turn(due(QUICK, 0), (), due(SLOW, 0), due(QUICK, 0))
    assert running.topics() == [["billing.ready.orders"], ["DLQ.orders"]]


def test_a_refused_dead_letter_halts() -> None:
    """There is nowhere left to put the record."""
    running = Running(refused(0), refused(0))
    with pytest.raises(HaltedError, match=r"even the dead letter of billing\.retry\.1s-0@0 is refused: too large"):
        running.turn(due(QUICK, 0), (), due(QUICK, 0))


def test_an_undone_write_is_done_again() -> None:
    """From what is committed, whatever that is: perhaps it had happened."""
    running = Running(WriteUndoneError("timed out"))
    running.reader.commits[QUICK] = Checkpoint(1, "")
    records = due(QUICK, 0, 1)
    running.turn(records, (), records)
    assert running.values() == [[b"1"]]
    assert running.observer.causes_undone == ["timed out"]


def test_writes_that_are_always_undone_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, not after a number."""
    clock = Clock()
    monkeypatch.setattr("consumers.patience.monotonic_s", clock)
    running = Running(*[WriteUndoneError("no") for _ in range(20)])
    for _ in range(4):
        running.turn(due(QUICK, 0))
        clock.advance(GIVE_UP_S / 4 + 1)
    with pytest.raises(HaltedError, match="every write of the last 60 s was undone, the last: no"):
        running.turn(due(QUICK, 0))


def test_a_backlog_in_one_tier_does_not_keep_another_from_its_turn() -> None:
    """A write has only so much room; partitions with more than that take turns."""
    running = Running(limit="batch: 2")
    backlog = [due(QUICK, n, n + 1) for n in range(0, 8, 2)]
    running.now_ms = NOW - 1
    running.turn(*backlog, due(SLOW, 0))
    running.now_ms = NOW
    running.turn((), ())
    assert any(SLOW in checkpoints for _, checkpoints in running.writer.confirmed[:2])


def test_a_clock_that_is_set_back_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour: what was due in a moment leaves after its tier's delay at the latest, and is counted."""
    clock = Clock()
    monkeypatch.setattr("consumers.scheduler.monotonic_s", clock)
    running = Running()
    running.turn(due(QUICK, 0, due_ms=NOW + 700))
    running.now_ms -= 3_600_000
    running.turn()
    for _ in range(2):
        clock.advance(0.5)
        assert running.writer.confirmed == []
        running.now_ms += 500
        running.turn()
    assert running.topics() == [["billing.ready.orders"]]
    assert running.observer.releases[0].clock_faults == 1


@pytest.mark.parametrize("limit", ["batch: 2, bufferRecords: 6", "bufferBytes: 196608"])
def test_a_full_tier_is_paused_until_it_is_half_empty(limit: str) -> None:
    """In records or in bytes, of which each partition has its share; the others are read on."""
    running = Running(limit=limit)
    records = [
        Fetched(*QUICK, offset, None, b"x" * 32768, waiting_headers(lineage(offset), due_ms=NOW + 100 + offset), NOW)
        for offset in range(2)
    ]
    running.turn(records)
    assert running.reader.paused == {QUICK}
    running.now_ms += 100
    running.turn()
    assert running.reader.paused == {QUICK}
    running.now_ms += 1
    running.turn()
    assert running.reader.paused == set()


def test_a_write_begins_before_its_records_leave() -> None:
    """By the lead, and is held until the last of them does; what leaves later is in the next one."""
    running = Running(lead_s=0.02)
    running.turn(due(QUICK, 0, due_ms=NOW + 21))
    assert running.writer.tried == []
    running.now_ms += 1
    running.turn(due(QUICK, 1, due_ms=NOW + 22))
    assert running.values() == [[b"0"]]
    [at] = running.writer.dues
    assert at is not None
    assert at.epoch_ms == NOW + 21


def test_what_is_overdue_is_not_held() -> None:
    """Together with nothing that is not due, it is visible as soon as it is written."""
    running = Running(lead_s=0.02)
    running.turn(due(QUICK, 0, due_ms=NOW - 5))
    assert running.writer.dues == [None]


def test_a_backlog_does_not_teach_to_begin_late() -> None:
    """Nothing of its writes could have been done before they were due, so they say nothing of how long that takes."""
    running = Running(lead_s=0.02)
    for offset in range(50):
        running.turn(due(QUICK, offset, due_ms=NOW - 5))
    running.turn(due(QUICK, 50, due_ms=NOW + 20))
    [at] = running.writer.dues[50:]
    assert at is not None


def test_a_clock_set_back_while_copies_are_made_does_not_hold_them_for_so_long() -> None:
    """They are held for the lead at most, as they were taken for."""
    running = Running(lead_s=0.02)
    running.scheduler._take(due(QUICK, 0, due_ms=NOW + 20))
    times = iter([NOW, NOW - 3_600_000])
    running.scheduler._clock = lambda: next(times)
    running.scheduler._release_due()
    [at] = running.writer.dues
    assert at is not None
    assert at.monotonic_s < time.monotonic() + 10


def test_nothing_is_begun_while_a_write_is_under_way() -> None:
    """What becomes due meanwhile is in the next one."""
    running = Running()
    running.writer.slow = True
    running.turn(due(QUICK, 0), due(QUICK, 1), ())
    assert running.values() == []
    assert len(running.writer.tried) == 1
    running.writer.slow = False
    running.turn()
    assert running.values() == [[b"0"], [b"1"]]


@pytest.mark.parametrize("event", ["revoked", "lost"])
def test_a_partition_does_not_leave_during_a_write(event: str) -> None:
    """Its next owner reads the commit, so that must not change any more."""
    running = Running()
    running.writer.slow = True
    running.turn(due(QUICK, 0))
    getattr(running.scheduler, event)([QUICK])
    assert running.values() == [[b"0"]]
    assert not running.writer.busy


def test_a_partition_that_leaves_during_an_undone_write_is_not_opened_again() -> None:
    """The others go back to what is committed."""
    running = Running(WriteUndoneError("no"))
    running.writer.slow = True
    running.turn(due(QUICK, 0))
    running.scheduler.revoked([QUICK])
    assert running.reader.sought == [(SLOW, 0), (MIXED, 0)]


def test_a_tier_without_an_offset_is_a_fault() -> None:
    """Starting anywhere else could lose or repeat what waits there."""
    running = Running()
    running.reader.commits.clear()
    with pytest.raises(
        MissingOffsetError, match=r"billing\.retry\.1s-0 has no committed offset for billing\.scheduler"
    ):
        running.scheduler.assigned([QUICK])


def test_a_partition_that_left_is_not_released() -> None:
    """It is somebody else's."""
    running = Running()
    running.turn(due(QUICK, 0, due_ms=NOW + 900))
    running.scheduler.revoked([QUICK])
    running.now_ms += 1000
    running.turn(due(QUICK, 1))
    assert running.writer.tried == []


def test_its_share_is_what_it_owns_of_the_first_tier() -> None:
    """So what is done once for the group is divided as Kafka divides that tier, among any number of schedulers."""
    running = Running()
    assert running.scheduler.share() == Share(frozenset({0}), 1)
    running.scheduler.revoked([SLOW, MIXED])
    assert running.scheduler.share().has(0)
    running.scheduler.revoked([QUICK])
    assert not running.scheduler.share().has(0)


def test_shares_divide_any_number_of_partitions() -> None:
    """Those beyond the tier's count, too."""
    shares = [Share(frozenset({0, 2}), 3), Share(frozenset({1}), 3)]
    assert [[share.has(number) for share in shares].count(True) for number in range(7)] == [1] * 7


def test_a_group_without_tiers_has_nothing_to_share() -> None:
    """Its only scheduler does it all."""
    running = Running()
    running.reader.counts = {"DLQ.orders": 4}
    running.scheduler._refresh()
    assert all(running.scheduler.share().has(number) for number in range(4))


def test_the_backlog_tells_delay_and_partitions_of_each_tier() -> None:
    """For what is late, and for who owns what."""
    running = Running()
    assert [(told.tier, told.delay_ms, told.partitions) for told in running.scheduler._backlog()] == [
        ("billing.retry.1s", 1000, 1),
        ("billing.retry.2s", 2000, 1),
        ("billing.retry.mixed", 1000, 1),
    ]
