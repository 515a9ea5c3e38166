"""The scheduler between a scripted reader and writer: what it writes, and how it goes on after refusals and aborts."""

import time
from collections.abc import Callable, Iterable, Mapping

import pytest

from kafka_redelivery.consumers.dead_letters.monitor import PartitionShare
from kafka_redelivery.consumers.scheduler.release import CommitLeadTime
from kafka_redelivery.consumers.scheduler.scheduler import Scheduler, backlog
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import Released, TierBacklog
from kafka_redelivery.consumers.writes.engine import GIVE_UP_AFTER_S
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import Message, Partition
from tests.unit.consumers.doubles import Clock, RecordingObserver, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers

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


def due(partition: Partition, *offsets: int, due_ms: int = NOW) -> list[Message]:
    """Records of a tier that leave when they are due."""
    appended_ms = due_ms - (2000 if partition == SLOW else 1000)
    headers = [waiting_headers(lineage(offset, partition=0), due_ms=due_ms) for offset in offsets]
    return [
        Fetched(*partition, offset, None, b"%d" % offset, pairs, appended_ms)
        for offset, pairs in zip(offsets, headers, strict=True)
    ]


class NotingReleases(RecordingObserver):
    """Keeps the releases of a scheduler."""

    def __init__(self) -> None:
        super().__init__()
        self.releases: list[Released] = []
        self.fences = 0
        self.after_release: Callable[[], None] = lambda: None

    def released(self, details: Released) -> None:
        self.releases.append(details)
        self.after_release()

    def fenced(self) -> None:
        self.fences += 1


class Running:
    """A scheduler with three assigned partitions, read from their start, whose turns the test makes."""

    def __init__(
        self,
        *script: Exception,
        limit: str = "batch: 1000",
        lead_s: float = 0.0,
        policy: str = "{}",
        counts: Mapping[str, int] = COUNTS,
        journal: bool = False,
    ) -> None:
        settings = load_settings(
            f"""
            group: billing
            kafka: {{bootstrap.servers: "localhost:9092"}}
            sources: [{{topic: orders, policy: {policy}}}]
            limits: {{{limit}}}
            journal: {str(journal).lower()}
            """
        )
        self.reader = StoredOffsets(
            {partition: Checkpoint(0, "") for partition in (QUICK, SLOW, MIXED)}, counts=dict(counts)
        )
        self.writer = ScriptedWriter(list(script))
        self.observer = NotingReleases()
        self.health = Health()
        self.now_ms = NOW
        self.scheduler = Scheduler(
            settings, self.reader, self.writer, self.observer, lambda: self.now_ms, CommitLeadTime(lead_s), self.health
        )
        self.find_topics()
        self.scheduler.assigned([QUICK, SLOW, MIXED])

    def find_topics(self) -> None:
        """The scheduler lists the topics."""
        self.scheduler.topics.list()
        self.scheduler._use_topics()

    def turn(self, *fetches: Iterable[Message]) -> None:
        """One turn per fetch, one to begin the write of the last one, and one to see its end."""
        for fetched in [*fetches, (), ()]:
            self.reader.fetches = [list(fetched)]
            self.scheduler._turn()

    def scheduler_backlog(self) -> list[TierBacklog]:
        """The backlog that the scheduler reports."""
        return backlog(self.scheduler._tiers, self.reader)

    def topics(self) -> list[list[str]]:
        """The topics of the records of each confirmed write."""
        return [[record.topic for record in records] for records, _ in self.writer.confirmed]

    def values(self) -> list[list[bytes | None]]:
        """The values of the records of each confirmed write."""
        return [[record.value for record in records] for records, _ in self.writer.confirmed]


def refused(*indexes: int) -> WriteRefusedError:
    """The broker refuses the records with these indexes."""
    return WriteRefusedError([RefusedRecord(index, "too large", RefusalCause.TOO_LARGE) for index in indexes])


def test_due_records_are_released_with_their_offsets() -> None:
    """In one write; records that are not due stay."""
    running = Running()
    running.turn([*due(QUICK, 0, 1), *due(SLOW, 5), *due(QUICK, 2, due_ms=NOW + 1)])
    assert running.topics() == [["billing.ready.orders"] * 3]
    [(_, checkpoints)] = running.writer.confirmed
    assert checkpoints == {QUICK: Checkpoint(2, ""), SLOW: Checkpoint(6, "")}
    running.now_ms += 1
    running.turn()
    assert running.values()[1:] == [[b"2"]]


def test_the_mixed_topic_commits_what_it_released_out_of_order() -> None:
    """The metadata of the commit has it."""
    running = Running()
    running.turn([*due(MIXED, 0, due_ms=NOW + 500), *due(MIXED, 1)])
    [(_, checkpoints)] = running.writer.confirmed
    assert checkpoints[MIXED].offset == 0
    running.reader.commits |= checkpoints
    running.scheduler.assigned([MIXED])
    running.now_ms += 500
    running.turn([*due(MIXED, 0, 1)])
    assert running.values() == [[b"1"], [b"0"]]


def test_what_the_metadata_has_no_space_for_is_fetched_again_with_all_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be space for the next record, but what is fetched again begins at one offset. Other tiers go on."""
    monkeypatch.setattr(Progress, "can_track_offset", lambda _, offset: offset != 1)
    running = Running()
    running.turn([*due(MIXED, 0, 1, 2), *due(QUICK, 7)])
    assert running.reader.sought == [(MIXED, 1)]
    assert running.values() == [[b"7", b"0"]]


def test_the_observer_receives_confirmed_writes() -> None:
    """Lateness is measured after the write."""
    running = Running()
    running.turn(due(QUICK, 0, 1, due_ms=NOW - 40))
    [release] = running.observer.releases
    assert list(release.lateness_ms) == [40, 40]


def test_a_refused_record_is_dead_lettered_and_the_rest_released() -> None:
    """The write is repeated from the committed offsets."""
    running = Running(refused(1))
    records = due(QUICK, 0, 1, 2)
    running.turn(records, (), records)
    assert running.reader.sought == [(QUICK, 0), (SLOW, 0), (MIXED, 0)]
    assert running.topics() == [["billing.ready.orders", "DLQ.orders", "billing.ready.orders"]]
    assert running.observer.releases[0].dead_letters == {("orders", "undeliverable"): 1}


def test_a_refusal_is_kept_until_its_record_is_finished() -> None:
    """After a rewind another tier may be fetched and written first."""
    running = Running(refused(0))
    running.turn(due(QUICK, 0), (), due(SLOW, 0), due(QUICK, 0))
    assert running.topics() == [["billing.ready.orders"], ["DLQ.orders"]]


def test_a_refused_dead_letter_halts_its_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again after growing pauses, and goes on from its committed offset once it is accepted."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    running = Running(refused(0), refused(0))
    running.turn(due(QUICK, 0), (), due(QUICK, 0))
    assert running.reader.paused == {QUICK}
    running.turn([*due(QUICK, 0), *due(SLOW, 5)])
    assert running.topics() == [["billing.ready.orders"]]

    running.writer.script = [refused(0)]
    clock.advance(1)
    running.turn()
    assert running.reader.paused == {QUICK}
    tried = len(running.writer.tried)
    clock.advance(1)
    running.turn()
    assert len(running.writer.tried) == tried

    clock.advance(1)
    running.reader.sought.clear()
    running.turn()
    assert running.reader.sought == [(QUICK, 0)]
    assert running.reader.paused == set()
    running.turn(due(QUICK, 0))
    assert running.topics()[-1] == ["DLQ.orders"]
    assert running.writer.confirmed[-1][1] == {QUICK: Checkpoint(1, "")}
    assert len(running.observer.halt_causes) == 1


def test_a_missing_dead_letter_topic_halts_its_partition_until_it_exists() -> None:
    """The others go on; nothing is produced for the missing topic, which the brokers might create."""
    running = Running(refused(0))
    del running.reader.counts["DLQ.orders"]
    running.find_topics()
    running.turn(due(QUICK, 0), (), due(QUICK, 0))
    assert running.reader.paused == {QUICK}
    [cause] = running.observer.halt_causes
    assert "there is no topic DLQ.orders; run `redelivery topology apply`" in cause
    running.turn(due(SLOW, 5))
    assert running.topics() == [["billing.ready.orders"]]

    running.reader.counts["DLQ.orders"] = 1
    running.find_topics()
    running.turn(due(QUICK, 0))
    assert running.reader.paused == set()
    assert running.topics()[-1] == ["DLQ.orders"]


def test_an_aborted_write_is_repeated() -> None:
    """From the committed offsets, because the abort may have been a lost reply to a commit."""
    running = Running(WriteAbortedError("timed out"))
    running.reader.commits[QUICK] = Checkpoint(1, "")
    records = due(QUICK, 0, 1)
    running.turn(records, (), records)
    assert running.values() == [[b"1"]]
    assert running.observer.abort_causes == ["timed out"]


@pytest.mark.parametrize("missing", [None, QUICK, MIXED])
def test_a_release_whose_answer_was_lost_counts(missing: Partition | None) -> None:
    """The committed offsets show that it was written, unless one of them is missing."""
    running = Running(WriteAbortedError("timed out"))
    mixed = Progress(0)
    assert mixed.track_range(0, 2)
    mixed.complete([1])
    running.reader.commits |= {QUICK: Checkpoint(1, ""), MIXED: mixed.checkpoint()}
    if missing is not None:
        running.reader.commits[missing] = Checkpoint(0, "")
    running.turn([*due(QUICK, 0), *due(MIXED, 0, due_ms=NOW + 500), *due(MIXED, 1)])
    assert [len(release.lateness_ms) for release in running.observer.releases] == ([2] if missing is None else [])
    assert running.writer.confirmed == []


@pytest.mark.parametrize(
    ("error", "fences"),
    [
        (WriteAbortedError("no", fenced=True), 1),
        (WriteAbortedError("no"), 0),
        (WriteRefusedError([RefusedRecord(0, "too large", RefusalCause.TOO_LARGE)]), 0),
    ],
)
def test_only_a_fenced_write_counts_as_fenced(error: Exception, fences: int) -> None:
    """Any other write that is rewound has another cause."""
    running = Running(error)
    running.turn(due(QUICK, 0))
    assert running.observer.fences == fences


def test_the_configuration_of_a_topic_decides_about_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compacted ready topic takes no record without a key: it waits in its tier, and is no dead letter."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    keyless = WriteRefusedError([RefusedRecord(0, "Broker failed to validate record", RefusalCause.OTHER)])
    running = Running(keyless, keyless, keyless)
    running.turn(due(QUICK, 0))
    [cause] = running.observer.halt_causes
    assert "change the configuration of billing.ready.orders" in cause
    for _ in range(2):
        clock.advance(30)
        running.turn()
    assert running.values() == []
    running.turn(due(SLOW, 5))
    assert running.values() == [[b"5"]], "another partition goes on"
    clock.advance(30)
    running.turn()
    running.turn(due(QUICK, 0))
    assert running.topics()[1:] == [["billing.ready.orders"]] * 2  # of which the trial is one
    assert len(running.observer.halt_causes) == 1


def test_it_runs_until_it_is_stopped() -> None:
    """Then it closes its clients."""
    running = Running()
    running.reader.fetches = [due(QUICK, 0), due(QUICK, 1)]
    running.observer.after_release = running.scheduler.stop
    running.scheduler.run()
    assert running.values()[0] == [b"0"]
    assert (running.reader.closed, running.writer.closed) == (True, True)
    assert not running.health.ready().ok


def test_writes_that_keep_being_aborted_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between them grow, and the health says why."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", clock)
    monkeypatch.setattr("kafka_redelivery.consumers.scheduler.scheduler.monotonic_s", clock)
    running = Running(*[WriteAbortedError("no") for _ in range(9)])
    for _ in range(9):
        running.turn(due(QUICK, 0))
        clock.advance(GIVE_UP_AFTER_S / 4)
    assert len(running.writer.tried) == 9
    running.health.joined()
    assert "every write of the last 105 s was aborted, because: no" in running.health.ready().reason
    running.turn(due(QUICK, 0))
    assert len(running.writer.confirmed) == 1
    clock.advance(1)
    running.turn()
    assert running.health.ready().ok


def test_no_write_begins_during_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none after the first aborted write."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", clock)
    running = Running(WriteAbortedError("no"), WriteAbortedError("no"))
    for _ in range(3):
        running.turn(due(QUICK, 0))
    assert len(running.writer.tried) == 2
    assert running.reader.waits_s[-1] == pytest.approx(0.2), "a record is due, but no write may begin"
    clock.advance(0.15)
    running.turn()
    assert running.reader.waits_s[-1] == pytest.approx(0.05)
    clock.advance(1)
    running.turn(due(QUICK, 0))
    assert len(running.writer.confirmed) == 1


def test_a_backlog_in_one_tier_does_not_delay_another() -> None:
    """Partitions with more records than fit into a write take turns."""
    running = Running(limit="batch: 2")
    backlog = [due(QUICK, n, n + 1) for n in range(0, 8, 2)]
    running.now_ms = NOW - 1
    running.turn(*backlog, due(SLOW, 0))
    running.now_ms = NOW
    running.turn((), ())
    assert any(SLOW in checkpoints for _, checkpoints in running.writer.confirmed[:2])


def test_a_write_is_filled_from_several_tiers() -> None:
    """Up to its limit."""
    running = Running(limit="batch: 2")
    running.now_ms = NOW - 1
    running.turn(due(QUICK, 0), due(SLOW, 0), due(MIXED, 0))
    running.now_ms = NOW
    running.turn((), ())
    assert [len(records) for records, _ in running.writer.confirmed] == [2, 1]


def test_a_clock_that_is_set_back_delays_no_record_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record leaves after its tier's delay at the latest, and is counted as a clock fault."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.scheduler.scheduler.monotonic_s", clock)
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


@pytest.mark.parametrize("limit", ["batch: 2, bufferRecords: 2", "bufferBytes: 65536"])
def test_a_full_partition_is_paused_until_it_is_half_empty(limit: str) -> None:
    """Each partition has its share of the records and the bytes; the others are read on."""
    running = Running(limit=limit)
    records = [
        Fetched(*QUICK, offset, None, b"x" * 22_000, waiting_headers(lineage(offset), due_ms=NOW + 100 + offset), NOW)
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
    """By the lead time. It commits when the last record leaves; later records are in the next write."""
    running = Running(lead_s=0.02)
    running.turn(due(QUICK, 0, due_ms=NOW + 21))
    assert running.writer.tried == []
    running.now_ms += 1
    running.turn(due(QUICK, 1, due_ms=NOW + 22))
    assert running.values() == [[b"0"]]
    [at] = running.writer.dues
    assert at is not None
    assert at.epoch_ms == NOW + 21


def test_a_commit_waits_by_the_monotonic_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as the wall clock says that the last record stays."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.scheduler.scheduler.monotonic_s", clock)
    running = Running(lead_s=900)
    running.scheduler._buffer(due(QUICK, 0, due_ms=NOW + 900))
    running.scheduler._release_due()
    [at] = running.writer.dues
    assert at is not None
    assert at.monotonic_s == pytest.approx(clock() + 0.9)


@pytest.mark.parametrize(
    ("leaves_in_ms", "wait_s"), [(120, 0.1), (20, 0.0), (-5, 0.0), (900, 0.2)], ids=["soon", "now", "late", "later"]
)
def test_a_fetch_waits_until_the_next_write_has_to_begin(leaves_in_ms: int, wait_s: float) -> None:
    """At most a fifth of a second, so that a turn begins as often."""
    running = Running(lead_s=0.02)
    running.turn(due(QUICK, 0, due_ms=NOW + leaves_in_ms))
    assert running.reader.waits_s[:2] == [0.2, pytest.approx(wait_s)]


def test_a_write_of_overdue_records_commits_immediately() -> None:
    """Records that are late do not wait for anything."""
    running = Running(lead_s=0.02)
    running.turn(due(QUICK, 0, due_ms=NOW - 5))
    assert running.writer.dues == [None]


def test_a_backlog_does_not_shorten_the_lead_time() -> None:
    """Its writes prepare nothing in advance, so they are not measured."""
    running = Running(lead_s=0.02)
    for offset in range(50):
        running.turn(due(QUICK, offset, due_ms=NOW - 5))
    running.turn(due(QUICK, 50, due_ms=NOW + 20))
    [at] = running.writer.dues[50:]
    assert at is not None


def test_a_clock_set_back_during_a_turn_does_not_delay_the_commit() -> None:
    """The commit waits for the lead time at most."""
    running = Running(lead_s=0.02)
    running.scheduler._buffer(due(QUICK, 0, due_ms=NOW + 20))
    times = iter([NOW, NOW - 3_600_000])
    running.scheduler._clock = lambda: next(times)
    running.scheduler._release_due()
    [at] = running.writer.dues
    assert at is not None
    assert at.monotonic_s < time.monotonic() + 10


def test_no_write_begins_while_another_is_in_flight() -> None:
    """Records that become due meanwhile are in the next write."""
    running = Running()
    running.writer.slow = True
    running.turn(due(QUICK, 0), due(QUICK, 1), ())
    assert running.values() == []
    assert len(running.writer.tried) == 1
    running.writer.slow = False
    running.turn()
    assert running.values() == [[b"0"], [b"1"]]


def test_its_share_is_its_part_of_the_first_tier() -> None:
    """So Kafka divides the shared work among any number of schedulers."""
    running = Running()
    assert running.scheduler.share() == PartitionShare(frozenset({0}), 1)
    running.scheduler.revoked([SLOW, MIXED])
    assert running.scheduler.share().has(0)
    running.scheduler.revoked([QUICK])
    assert not running.scheduler.share().has(0)


def test_its_share_follows_a_tier_that_grows() -> None:
    """As that of a scheduler that starts later, which would otherwise count some partitions a second time."""
    running = Running()
    running.reader.counts[QUICK.topic] = 2
    running.find_topics()
    assert running.scheduler.share() == PartitionShare(frozenset({0}), 2)


def test_a_scheduler_without_tiers_has_the_whole_share() -> None:
    """There is no assignment that could divide the work."""
    running = Running()
    running.reader.counts = {"DLQ.orders": 4}
    running.find_topics()
    assert all(running.scheduler.share().has(number) for number in range(4))


def test_the_backlog_has_delay_and_partitions_of_each_tier() -> None:
    """The metrics show lateness and assignment from them."""
    running = Running()
    assert [(tier.tier, tier.delay_ms, tier.partitions) for tier in running.scheduler_backlog()] == [
        ("billing.retry.1s", 1000, 1),
        ("billing.retry.2s", 2000, 1),
        ("billing.retry.mixed", 1000, 1),
    ]


def test_the_backlog_of_a_tier_is_that_of_its_partitions() -> None:
    """All records that have not left, fetched or not, and the oldest time of those that are fetched."""
    tiers = {
        Partition(QUICK.topic, number): TierPartition(QUICK.topic, 1000, Progress(0), ordered=True)
        for number in range(3)
    }
    for number, appended_ms in ((0, NOW - 5), (2, NOW - 7)):
        [waiting] = due(QUICK, 0, due_ms=appended_ms + 1000)
        tiers[Partition(QUICK.topic, number)].add([waiting], [100], NOW)
    [found] = backlog(tiers, StoredOffsets(ends=dict.fromkeys(tiers, (0, 4))))
    assert found == TierBacklog(QUICK.topic, 12, NOW - 7, 1000, 3)


def test_large_records_that_leave_late_are_dropped_and_released_on_time() -> None:
    """The others are read meanwhile, and each is released once."""
    running = Running(limit="bufferBytes: 65536")
    early = [
        Fetched(*QUICK, 0, None, b"early" * 4_000, waiting_headers(lineage(0), due_ms=NOW + 900), NOW - 100),
        Fetched(*SLOW, 0, None, b"late" * 5_000, waiting_headers(lineage(0), due_ms=NOW + 9_000), NOW + 7_000),
    ]
    running.scheduler._assigned.delays_ms[SLOW.topic] = 60_000
    running.scheduler.assigned([SLOW])
    running.turn()  # the first offsets are committed
    running.reader.sought.clear()
    running.turn(early)
    assert running.reader.sought == [(SLOW, 0)]
    assert running.reader.paused == {SLOW}
    running.now_ms += 8_000
    running.turn()
    assert running.reader.paused == set()
    running.turn(early[1:])
    running.now_ms += 1_000
    running.turn()
    assert [len(value or b"") for write in running.values() for value in write] == [20_000, 20_000]
