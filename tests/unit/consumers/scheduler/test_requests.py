"""What the owner of a tier's partition does about the requests of operators: each record leaves once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.scheduler.requests import NO_SPACE, OTHER_TOPIC, TOO_LATE, UNREAD, Standing, next_step
from kafka_redelivery.topology.wire.headers import read_due, read_lineage
from kafka_redelivery.topology.wire.journal import journalled_outcome
from kafka_redelivery.topology.wire.pauses import PausedTopics, Pauses
from kafka_redelivery.topology.wire.waiting import (
    RequestKey,
    WaitingAction,
    WaitingDone,
    WaitingRequest,
    request_record,
)
from kafka_redelivery.transport.errors import WriteAbortedError
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers
from tests.unit.consumers.scheduler.test_scheduler import COUNTS, MIXED, QUICK, SLOW, Running, due, refused
from tests.unit.consumers.worker.test_pausing import Switch

CONTROL = "billing.control"
JOURNAL = "billing.journal"
READY = "billing.ready.orders"
LATER = NOW + 900


def wanted(
    partition: Partition,
    *offsets: int,
    action: WaitingAction = WaitingAction.DELIVER_NOW,
    below: int | None = None,
    due_ms: int | None = None,
    name: str = "a1",
    mark: str = "",
    place: int = 0,
) -> WaitingRequest:
    """A request about records of a partition."""
    return WaitingRequest(
        key=RequestKey(name, partition.topic, partition.number),
        action=action,
        offsets=offsets,
        below=below,
        due_ms=due_ms,
        until_ms=NOW + 60_000,
        by="ann@desk",
        note="the bank is back",
        mark=mark,
        at_ms=NOW,
        place=place,
    )


class TestNextStep:
    """The pure decision."""

    @pytest.mark.parametrize(
        ("offsets", "waits", "read_to", "apart", "step"),
        [
            ([3], [2, 3, 4], 5, [], ([3], 0, "")),
            ([3, 4], [2, 3], 5, [], ([3], 0, "")),  # 4 has left
            ([1, 3], [2, 4], 5, [], ([], 0, "")),  # both have left
            ([3, 7], [2, 3], 5, [], ([3], 1, UNREAD)),
            ([7], [2, 3], 5, [7], ([], 0, "")),  # it has left, before it was read here
            ([7, 9], [2, 3], 5, [7], ([], 1, UNREAD)),
        ],
    )
    def test_a_selection(
        self,
        offsets: list[int],
        waits: list[int],
        read_to: int,
        apart: list[int],
        step: tuple[list[int], int, str],
    ) -> None:
        """What waits is taken, what has left is passed over, what was not read is waited for."""
        assert next_step(wanted(QUICK, *offsets), Standing(waits, read_to, apart)) == step

    @pytest.mark.parametrize(
        ("below", "waits", "read_to", "step"),
        [
            (5, [2, 3, 4, 6], 7, ([2, 3, 4], 0, "")),
            (9, [2, 3, 4], 7, ([2, 3, 4], 2, UNREAD)),
            (2, [2, 3, 4], 7, ([], 0, "")),
        ],
    )
    def test_all_below_an_offset(
        self, below: int, waits: list[int], read_to: int, step: tuple[list[int], int, str]
    ) -> None:
        """Later records are not meant."""
        assert next_step(wanted(QUICK, below=below), Standing(waits, read_to)) == step

    def test_a_write_has_a_limit(self) -> None:
        """The rest is taken in the next step."""
        assert next_step(wanted(QUICK, below=9), Standing([2, 3, 4], 9, space=2)) == ([2, 3], 1, "")

    def test_those_at_the_front_need_no_space(self) -> None:
        """Behind a record that stays, only so many leave as the metadata has space for."""
        known = Standing([2, 3, 4, 5, 6], 9, space_for=lambda offsets: min(1, len(offsets)))
        assert next_step(wanted(QUICK, 2, 3, 5, 6), known) == ([2, 3, 5], 1, NO_SPACE)
        assert next_step(wanted(QUICK, below=7), known) == ([2, 3, 4, 5, 6], 0, "")
        assert next_step(wanted(QUICK, below=7), known, refused={3}) == ([2, 4], 2, NO_SPACE)

    @given(
        st.sets(st.integers(0, 30)),
        st.sets(st.integers(0, 30)),
        st.integers(0, 31),
        st.sets(st.integers(0, 30)),
        st.integers(0, 9),
        st.integers(1, 9),
    )
    def test_only_what_waits_and_is_meant_is_taken(
        self, offsets: set[int], waits: set[int], read_to: int, apart: set[int], room: int, space: int
    ) -> None:
        """A step that takes nothing and leaves something says what it waits for."""
        buffered = sorted(each for each in waits if each < read_to)
        known = Standing(buffered, read_to, apart, space, lambda some: min(room, len(some)))
        take, left, why = next_step(wanted(QUICK, *sorted(offsets)), known)
        assert set(take) <= set(buffered) & offsets
        assert len(take) <= space
        assert left == len(set(buffered) & offsets - set(take)) + sum(
            at >= read_to and at not in apart for at in offsets
        )
        assert take or not left or why


class Requested(Running):
    """A scheduler and the requests of operators."""

    def __init__(
        self,
        *script: Exception,
        limit: str = "batch: 1000",
        counts: Mapping[str, int] = COUNTS,
        journal: bool = False,
    ) -> None:
        super().__init__(*script, limit=limit, counts=counts, journal=journal)
        self.switch = Switch()
        self.scheduler.obey(self.switch)

    def turn(self, *fetches: Iterable[Message]) -> None:
        """The same; requests are looked at in each turn."""
        for fetched in [*fetches, (), ()]:
            self.scheduler._act_at_s = 0.0
            self.reader.fetches = [list(fetched)]
            self.scheduler._turn()
            self.switch.requests = self.control().open_requests()

    def ask(self, *requests: WaitingRequest) -> None:
        """Write requests to the control topic."""
        self.asked = requests
        self.switch.requests = self.control().open_requests()

    def control(self) -> Pauses:
        """What the control topic says."""
        found, place = Pauses(), 0
        records = [request_record(each, NOW) for each in self.asked]
        steps = [(each.key, each.value) for written, _ in self.writer.confirmed for each in written if is_step(each)]
        for key, value in [*records, *steps]:
            found, place = found.with_record(key, value, place), place + 1
        return found

    def done(self, name: str = "a1") -> WaitingDone:
        """How far a request is."""
        [done] = [each for key, each in self.control().done.items() if key.id == name]
        return done

    asked: Sequence[WaitingRequest] = ()

    def sent(self) -> list[tuple[str, bytes | None]]:
        """Topic and value of each written record, but for those of the control topic."""
        return [
            (each.topic, each.value) for written, _ in self.writer.confirmed for each in written if not is_step(each)
        ]


def is_step(record: object) -> bool:
    """Whether a written record is one of the control topic."""
    return getattr(record, "topic", "") == CONTROL


def test_a_record_is_delivered_now_and_only_once() -> None:
    """Copy, finished offset and end of the request are one write; the others leave when they are due."""
    running = Requested()
    running.turn(due(QUICK, 0, 1, 2, due_ms=LATER))
    running.ask(wanted(QUICK, 1))
    running.turn()
    [(written, checkpoints)] = running.writer.confirmed
    assert [each.topic for each in written] == [READY, CONTROL]
    assert checkpoints.keys() == {QUICK}
    assert read_due(written[0].headers or ()) == NOW, "a worker would hold an early record"
    assert read_lineage(written[0].headers or ()) == lineage(1, partition=0)
    assert running.done() == WaitingDone(1, ended=True, at_ms=NOW)

    running.reader.commits |= checkpoints
    running.scheduler.assigned([QUICK])
    running.now_ms = LATER
    running.turn(due(QUICK, 0, 1, 2, due_ms=LATER))
    assert running.sent() == [(READY, b"1"), (READY, b"0"), (READY, b"2")]
    assert running.writer.confirmed[-1][1][QUICK].metadata == ""


@pytest.mark.parametrize("partition", [QUICK, MIXED], ids=str)
def test_a_tier_is_delivered_in_its_order(partition: Partition) -> None:
    """What arrives later is not meant. The request ends when the end that was asked for was read."""
    running = Requested()
    running.turn(due(partition, *range(7), due_ms=LATER))
    running.ask(wanted(partition, below=9))
    running.turn()
    assert running.done().left == 2
    running.reader.reached = {partition: 9}  # only a marker was behind the last record
    running.turn(due(partition, 9, due_ms=LATER))
    running.turn()
    assert running.sent() == [(READY, b"%d" % offset) for offset in range(7)]
    assert running.done().ended


def test_a_delay_changes_the_due_time_and_no_attempt() -> None:
    """The record goes to the tier that fits, and to its ready topic if it is due by then."""
    running = Requested()
    running.turn(due(SLOW, 0, 1, due_ms=LATER))
    running.ask(
        wanted(SLOW, 0, action=WaitingAction.DELAY, due_ms=NOW + 1500),
        wanted(SLOW, 1, action=WaitingAction.DELAY, due_ms=NOW, name="b2", place=1),
    )
    running.turn()
    running.turn()
    (later, _), (now, _) = (written for written, _ in running.writer.confirmed)
    assert (later.topic, now.topic) == ("billing.retry.1s", READY)
    assert read_due(later.headers or ()) == NOW + 1500
    assert dict(later.headers or ())["AMQ_SCHEDULED_DELAY"] == b"1500"
    assert read_due(now.headers or ()) == NOW
    assert read_lineage(later.headers or ()).deliveries == read_lineage(now.headers or ()).deliveries == 1


def test_a_dead_letter_has_a_reason_of_its_own_and_keeps_its_attempts() -> None:
    """The note of the operator is in front of the text of the last failure."""
    running = Requested()
    headers = waiting_headers(lineage(4, partition=0, deliveries=3), due_ms=LATER)
    headers.append(("dlqDeliveryFailureCause", b'{"exception":"KeyError","message":"iban"}'))
    running.turn([Fetched(*QUICK, 0, b"k", b"0", headers, NOW)])
    running.ask(wanted(QUICK, 0, action=WaitingAction.DEAD_LETTER))
    running.turn()
    [(written, _)] = running.writer.confirmed
    letter = written[0]
    assert letter.topic == "DLQ.orders"
    assert read_lineage(letter.headers or ()).deliveries == 3
    assert json.loads(dict(letter.headers or ())["dlqDeliveryFailureCause"] or b"") == {
        "reason": "operator",
        "exception": "KeyError",
        "message": "ann@desk: the bank is back; before that: iban",
        "frames": [],
    }
    assert running.observer.releases[-1].dead_letters == {("orders", "operator"): 1}


def test_dead_letters_are_in_the_journal() -> None:
    """Otherwise an audit would take them for lost once they have expired: their last entry says that they wait."""
    running = Requested(counts=COUNTS | {JOURNAL: 1}, journal=True)
    running.turn(due(QUICK, 0, 1, 2, due_ms=LATER))
    running.ask(wanted(QUICK, 0, 1, action=WaitingAction.DEAD_LETTER))
    running.turn()
    [(written, _)] = running.writer.confirmed
    assert [each.topic for each in written] == ["DLQ.orders", "DLQ.orders", CONTROL, JOURNAL]
    assert [journalled_outcome(written[-1].value, offset) for offset in range(3)] == ["dead_lettered"] * 2 + [None]


def test_without_the_journal_nothing_is_dead_lettered() -> None:
    """The audit could not tell such a record from a lost one."""
    running = Requested(journal=True)
    running.turn(due(QUICK, 0, due_ms=LATER))
    running.ask(wanted(QUICK, 0, action=WaitingAction.DEAD_LETTER))
    running.turn()
    assert running.sent() == []
    assert running.done().refused == {f"there is no topic {JOURNAL}": 1}


def test_what_cannot_be_done_is_refused_and_waits_as_before() -> None:
    """Each reason has a count; the record leaves when it is due."""
    running = Requested()
    damaged = Fetched(*QUICK, 1, None, b"1", [("_AMQ_SCHED_DELIVERY", b"%d" % LATER)], NOW)
    running.turn([*due(QUICK, 0, due_ms=LATER), damaged])
    del running.reader.counts["DLQ.orders"]
    running.find_topics()
    running.ask(
        wanted(QUICK, 0, 1, action=WaitingAction.DEAD_LETTER), wanted(QUICK, 0, name="b2", mark="other", place=1)
    )
    running.turn()
    running.turn()
    assert running.done().refused == {"there is no topic DLQ.orders": 1, "their headers are damaged": 1}
    assert running.done().ended
    assert running.sent() == [(READY, b"0")], "of an unknown mark nothing follows"


def test_a_delay_needs_a_tier() -> None:
    """The last one may have been deleted a moment ago, before its partitions are revoked."""
    running = Requested()
    running.turn(due(QUICK, 0, due_ms=LATER))
    running.reader.counts = {READY: 1, "DLQ.orders": 1}
    running.find_topics()
    running.ask(wanted(QUICK, 0, action=WaitingAction.DELAY, due_ms=LATER))
    running.turn()
    assert running.sent() == []
    assert running.done().refused == {f"there is no topic {QUICK.topic}": 1}


def test_a_tier_that_was_created_again_is_not_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offsets are those of other records."""
    running = Requested()
    running.turn(due(QUICK, 0, due_ms=LATER))
    monkeypatch.setattr(running.scheduler._assigned, "mark_of", lambda _: "AAAABBBBBBBB")
    running.ask(wanted(QUICK, 0, mark="AAAACCCCCCCC"))
    running.turn()
    assert running.sent() == []
    assert running.done() == WaitingDone(0, {OTHER_TOPIC: 1}, ended=True, at_ms=NOW)


def test_a_request_that_is_too_old_ends_undone() -> None:
    """It would come as a surprise."""
    running = Requested()
    running.ask(wanted(SLOW, 0))
    running.turn()
    running.now_ms = NOW + 60_000
    running.turn(due(SLOW, 0, due_ms=NOW + 61_000))
    assert running.sent() == []
    assert running.done().refused == {TOO_LATE: 1}


def test_two_requests_for_one_record_send_it_once() -> None:
    """The older one has it; the other finds it gone."""
    running = Requested()
    running.turn(due(QUICK, 0, 1, due_ms=LATER))
    running.ask(wanted(QUICK, 1), wanted(QUICK, 1, action=WaitingAction.DEAD_LETTER, name="b2", place=1))
    for _ in range(3):
        running.turn()
    assert running.sent() == [(READY, b"1")]
    assert (running.done("a1").done, running.done("b2").done) == (1, 0)
    assert running.done("b2").ended


def test_an_aborted_write_is_made_again() -> None:
    """From the committed offsets: nothing was done."""
    running = Requested(WriteAbortedError("fenced"))
    running.turn(due(QUICK, 0, 1, due_ms=LATER))
    running.ask(wanted(QUICK, 1))
    running.turn()
    assert running.sent() == []
    assert running.reader.sought == [(QUICK, 0), (SLOW, 0), (MIXED, 0)]
    running.turn(due(QUICK, 0, 1, due_ms=LATER))
    running.turn()
    assert running.sent() == [(READY, b"1")]


def test_nothing_waits_for_a_request_whose_writes_are_aborted_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another request nor a record that is due."""
    clock = Clock()
    for module in ("scheduler.scheduler", "writes.engine"):
        monkeypatch.setattr(f"kafka_redelivery.consumers.{module}.monotonic_s", clock)
    running = Requested()
    begin = running.writer.begin

    def begin_or_fail(records: Sequence[ProducerRecord], *more: Any) -> None:  # noqa: ANN401 - passed on
        if any(b"a1" in (each.key or b"") for each in records):
            running.writer.script.append(WriteAbortedError("too slow"))
        begin(records, *more)

    monkeypatch.setattr(running.writer, "begin", begin_or_fail)
    running.ask(wanted(QUICK, 1), wanted(QUICK, 2, name="b2", place=1))
    for _ in range(100):
        running.reader.fetches = [[*due(QUICK, 0, 1, 2, due_ms=LATER), *due(SLOW, 3)]]
        running.scheduler._turn()
        for _, points in running.writer.confirmed:
            running.reader.commits |= points
        running.switch.requests = running.control().open_requests()
        clock.advance(0.1)
    assert running.sent() == [(READY, b"3"), (READY, b"2")]
    assert len(running.writer.tried) > 5, "it is tried further"


def test_a_refused_write_ends_the_request_and_halts_nothing() -> None:
    """The record leaves when it is due, as without the request."""
    running = Requested(refused(0))
    running.turn(due(QUICK, 0, 1, due_ms=LATER))
    running.ask(wanted(QUICK, 1))
    running.turn()
    running.turn(due(QUICK, 0, 1, due_ms=LATER))
    [(reason, number)] = running.done().refused.items()
    assert "too large" in reason
    assert (number, running.done().ended) == (1, True)
    running.now_ms = LATER
    running.turn()
    assert running.sent() == [(READY, b"0"), (READY, b"1")]
    assert running.health.alive().ok


def test_a_control_topic_that_takes_nothing_halts_nothing() -> None:
    """Without the right to write there, the request rests for a minute between two attempts."""
    running = Requested(refused(1), refused(0))
    running.turn(due(QUICK, 0, due_ms=LATER))
    running.ask(wanted(QUICK, 0))
    for _ in range(3):
        running.turn(due(QUICK, 0, due_ms=LATER))
    assert len(running.writer.tried) == 2
    running.now_ms = LATER
    running.turn()
    assert running.sent() == [(READY, b"0")]


def test_what_has_no_space_waits_and_says_so() -> None:
    """It goes on when records in front of it leave."""
    running = Requested(limit="batch: 5000, bufferRecords: 20000")
    every = range(0, 6000, 3)
    running.turn(due(QUICK, *range(6000)[:5000], due_ms=LATER), due(QUICK, *range(5000, 6000), due_ms=LATER))
    running.ask(wanted(QUICK, *every))
    running.turn()
    first = running.done()
    assert first.why == NO_SPACE
    assert first.done + first.left == len(every)
    assert 1_000 < first.done < len(every)
    tries = len(running.writer.tried)
    running.turn()
    assert len(running.writer.tried) == tries, "nothing has changed"
    running.now_ms = LATER
    for _ in range(3):
        running.turn()
    assert running.done().ended
    values = [value for _, value in running.sent()]
    assert len(values) == len(set(values)) == 6000


def test_what_was_not_read_is_waited_for() -> None:
    """A full buffer becomes empty."""
    running = Requested()
    running.turn(due(QUICK, 0, due_ms=LATER))
    running.ask(wanted(QUICK, 0, 5))
    running.turn()
    assert (running.done().done, running.done().left, running.done().why) == (1, 1, UNREAD)
    running.turn(due(QUICK, 3, 5, due_ms=LATER))
    assert running.sent() == [(READY, b"0"), (READY, b"5")]
    assert running.done() == WaitingDone(2, ended=True, at_ms=NOW)


def test_a_partition_whose_records_were_dropped_is_fetched_for_a_request() -> None:
    """Not a second before its first record would leave, which may be hours later."""
    running = Requested(limit="bufferBytes: 65536")
    later = NOW + 3_600_000
    large = [
        Fetched(*SLOW, 0, None, b"late" * 10_000, waiting_headers(lineage(0, partition=0), due_ms=later), later - 1000)
    ]
    running.scheduler._assigned.delays_ms[SLOW.topic] = 7_200_000
    running.scheduler.assigned([SLOW])
    running.turn(large)
    assert (running.reader.paused, running.sent()) == ({SLOW}, [])
    running.ask(wanted(SLOW, 0))
    running.turn()
    assert running.reader.paused == set()
    running.turn(large)
    assert running.sent() == [(READY, b"late" * 10_000)]
    assert running.done().ended


def test_a_partition_that_stands_still_is_not_taken_for_read() -> None:
    """A fetch that comes before the pause drops its records: they wait, although the end was reached."""
    running = Requested()
    running.reader.counts.pop(READY)
    running.find_topics()
    running.turn(due(QUICK, 0, 1))
    assert running.scheduler._stops.unread == {QUICK}
    running.ask(wanted(QUICK, 0, 1, action=WaitingAction.DEAD_LETTER))
    running.reader.reached = {QUICK: 2}
    running.turn(due(QUICK, 0, 1))
    assert (running.done().ended, running.done().left, running.done().why) == (False, 2, UNREAD)


def test_a_paused_tier_waits() -> None:
    """Also for what an operator asks for: the pause is older."""
    running = Requested()
    running.turn(due(QUICK, 0, due_ms=LATER))
    running.switch.current = PausedTopics(topics=frozenset({QUICK.topic}), end=4)
    running.ask(wanted(QUICK, 0))
    running.turn()
    assert running.sent() == []
    running.switch.current = PausedTopics(end=5)
    running.turn()
    assert running.sent() == [(READY, b"0")]


class Logged(Requested):
    """The same with a partition of which the reader fetches what is there, a few records at a time."""

    def __init__(self, random: Random, partition: Partition, limit: str) -> None:
        super().__init__(limit=limit)
        self.random, self.partition = random, partition
        self.log = due(partition, *sorted(random.sample(range(60), 40)), due_ms=LATER)
        self.at = 0
        self.reader.fetch = self.fetch  # type: ignore[method-assign,assignment]
        self.reader.seek = self.seek  # type: ignore[method-assign]
        self.reader.take_reached_ends = self.take_reached_ends  # type: ignore[method-assign]

    def fetch(self, maximum: int, _: float) -> list[Message]:
        """Return records from the position on, unless the partition is paused."""
        if self.partition in self.reader.paused:
            return []
        number = min(maximum, self.random.randint(0, 4))
        found = [each for each in self.log if each.offset() >= self.at][:number]
        self.at = found[-1].offset() + 1 if found else self.at
        return found

    def seek(self, partition: Partition, offset: int) -> None:
        """Move the position."""
        if partition == self.partition:
            self.at = offset

    def take_reached_ends(self) -> dict[Partition, int]:
        """Return the end of the partition if the position is there."""
        return {self.partition: 60} if self.at > self.log[-1].offset() else {}

    def change_owner(self) -> None:
        """Another process owns the partition, after the write in progress."""
        self.scheduler.revoked([self.partition])
        self.keep_commits()
        self.at = self.scheduler.assigned([self.partition])[self.partition]

    def keep_commits(self) -> None:
        """Let Kafka have what the confirmed writes have committed."""
        for _, points in self.writer.confirmed:
            self.reader.commits |= points

    def live(self) -> None:
        """A turn."""
        self.scheduler._engine.deadline.succeeded()
        self.scheduler._act_at_s = 0.0
        confirmed = len(self.writer.confirmed)
        self.scheduler._turn()
        if len(self.writer.confirmed) > confirmed:
            self.keep_commits()
            self.switch.requests = self.control().open_requests()


@pytest.mark.parametrize("seed", range(20))
def test_each_record_leaves_once_and_none_but_those_asked_for_early(seed: int) -> None:
    """With requests of all kinds, aborted and refused writes, full buffers and changes of the owner at any time."""
    random = Random(seed)  # noqa: S311 - the test repeats it
    partition = random.choice([QUICK, MIXED])
    batch = random.choice([2, 5, 100])
    limit = f"batch: {batch}, bufferRecords: {batch * random.choice([1, 2, 10])}"
    running = Logged(random, partition, limit)
    offsets = [each.offset() for each in running.log]
    asked: list[WaitingRequest] = []
    hurried: set[int] = set()
    for turn in range(200):
        if random.random() < 0.1:
            some = sorted(random.sample(offsets, random.randint(1, 8)))
            below = random.choice([None, random.choice(offsets)])
            asked.append(wanted(partition, *(some if below is None else ()), below=below, name=f"r{turn}", place=turn))
            hurried |= set(some) if below is None else {each for each in offsets if each < below}
            running.ask(*asked)
        if random.random() < 0.05:
            running.writer.script.append(random.choice([WriteAbortedError("made up"), refused(0)]))
        if random.random() < 0.05:
            running.change_owner()
        running.live()
    early = {int(value or b"") for _, value in running.sent()}
    assert early
    assert early <= hurried, "none is early that was not asked for"
    running.writer.script.clear()
    running.now_ms = LATER + 2000
    for _ in range(200):
        running.live()
    assert sorted(int(value or b"") for _, value in running.sent()) == offsets
    running.now_ms += 60_000  # two refusals in a row let a request rest
    for _ in range(20):
        running.live()
    assert running.control().open_requests() == []
