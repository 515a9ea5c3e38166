"""Where a partition without a committed offset starts."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.stops import LostPosition
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import Clock, StoredOffsets

OLD, ADDED = Partition("orders", 1), Partition("orders", 2)
READY = Partition("billing.ready.orders", 1)


class Known:
    """A control topic with this content."""

    def __init__(self, state: ControlState) -> None:
        self.state = ControlState()
        self._state = state
        self.committed: dict[Partition, int] = {}
        self.began: list[Partition] = []
        self.saved: Mapping[Partition, Checkpoint] = {}
        self.unreadable: str | None = None

    def read(self) -> ControlState:
        self.state = self._state
        return self.state

    def note_first_offset(self, partition: Partition, offset: int) -> None:
        self.committed[partition] = offset

    def note_unstarted(self, partition: Partition, since_ms: int) -> None:
        assert partition not in self._state.unstarted
        self._state = replace(self._state, unstarted={**self._state.unstarted, partition: since_ms})

    def begin(self, partitions: Iterable[Partition]) -> None:
        if self.unreadable is None:
            self.read()
        self.began += partitions

    def problem(self) -> str | None:
        return self.unreadable

    def know(self, marks: Mapping[Partition, str], former: Mapping[Partition, int]) -> None:
        older = {(each.topic, each.number): offset for each, offset in former.items()}
        self.state, self._state = self.state.of_topics(marks, older), self._state.of_topics(marks, older)

    def save(self, positions: Mapping[Partition, Checkpoint]) -> None:
        self.saved = positions


def first_offsets(state: ControlState, start: str = "latest") -> FirstOffsets:
    """First offsets of a group that knows this; each partition has the offsets 3 to 90."""
    reader = StoredOffsets(ends=dict.fromkeys((OLD, ADDED, READY), (3, 90)))
    return FirstOffsets(reader, start, Known(state))


def test_a_partition_that_was_added_to_a_source_starts_at_its_log_start() -> None:
    """Also with ``latest``, which is about what was there before the group."""
    first = first_offsets(ControlState(exists=True, sources={"orders": 2}))
    assert first.source(OLD) == (90, True)
    assert first.source(ADDED) == (3, False)


@pytest.mark.parametrize(
    "state", [ControlState(), ControlState(exists=True), ControlState(exists=True, sources={"bills": 1})]
)
def test_without_a_record_of_its_source_it_starts_at_its_end(state: ControlState) -> None:
    """As it did before there were control topics."""
    assert first_offsets(state).source(ADDED) == (90, True)


def test_latest_skips_no_record_that_came_after_the_partition_was_found_offline() -> None:
    """They are written between the return of its leader and the next question of the member, up to 30 s later."""
    reader, now_ms = StoredOffsets(ends={OLD: (3, 90)}, leaderless={OLD}), iter((1_000, 2_000, 3_000))
    first = FirstOffsets(reader, "latest", clock=lambda: next(now_ms))
    for _ in range(2):
        started = first.start(OLD, {OLD: None}, internal=False, repeated="handled")
        assert isinstance(started.found, LostPosition)
    first.close(OLD)
    reader.leaderless.clear()
    reader.written_ms[OLD] = {87: 999, 88: 1_000, 89: 1_500}
    started = first.start(OLD, {OLD: None}, internal=False, repeated="handled")
    assert (started.offset, started.waits) == (88, True)


def test_latest_skips_no_record_if_the_partition_moves_to_a_member_that_finds_its_leader_back() -> None:
    """The control topic says since when the group waits, and is told so once."""
    reader, control = StoredOffsets(ends={OLD: (3, 90)}, leaderless={OLD}), Known(ControlState(exists=True))
    for now_ms in (1_000, 2_000, 3_000):
        if now_ms == 3_000:
            reader.leaderless.clear()
        member = FirstOffsets(reader, "latest", control, clock=lambda now_ms=now_ms: now_ms)  # type: ignore[misc]
        reader.written_ms[OLD] = {87: 999, 88: 1_000, 89: 2_500}
        started = member.start(OLD, member.positions([OLD]), internal=False, repeated="handled")
    assert (started.offset, started.waits) == (88, True)


def test_only_who_starts_at_the_end_says_in_the_control_topic_since_when_it_waits() -> None:
    """All others read everything."""
    for internal, start in ((True, "latest"), (False, "earliest")):
        control = Known(ControlState(exists=True))
        first = FirstOffsets(StoredOffsets(leaderless={OLD}), start, control)
        first.start(OLD, first.positions([OLD]), internal=internal, repeated="handled")
        assert control.read().unstarted == {}


def test_the_time_before_the_leader_was_asked_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it does not answer is known up to five seconds later, and it may be back before that."""
    clock, reader = Clock(1.0), StoredOffsets(ends={OLD: (3, 90)}, written_ms={OLD: {88: 1_500, 89: 7_000}})
    first = FirstOffsets(reader, "latest", clock=lambda: round(clock() * 1000))
    with monkeypatch.context() as silent:
        silent.setattr(reader, "bounds_now", lambda _: clock.advance(5))
        first.start(OLD, {OLD: None}, internal=False, repeated="handled")
    assert first.start(OLD, {OLD: None}, internal=False, repeated="handled").offset == 88


@pytest.mark.parametrize("cause", ["control", "forbidden"])
def test_latest_skips_no_record_that_came_while_it_was_unknown_whether_there_is_an_offset(cause: str) -> None:
    """A partition that stands still goes on where it was, whatever stopped it."""
    reader, control = StoredOffsets(ends={OLD: (3, 90)}), Known(ControlState(exists=True))
    times = iter((1_000, 2_000))
    first = FirstOffsets(reader, "latest", control, clock=lambda: next(times))
    if cause == "control":
        control.unreadable = "no answer"
    else:
        reader.unreadable = {OLD.topic}
    started = first.start(OLD, first.positions([OLD]), internal=False, repeated="handled")
    assert isinstance(started.found, LostPosition)
    control.unreadable, reader.unreadable = None, set()
    reader.written_ms[OLD] = {87: 999, 88: 1_000}
    assert first.start(OLD, first.positions([OLD]), internal=False, repeated="handled").offset == 88


def test_latest_begins_at_the_end_if_nothing_came_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the second question is not answered, the partition is offline again."""
    reader = StoredOffsets(ends={OLD: (3, 90)}, leaderless={OLD}, written_ms={OLD: {89: 999}})
    first = FirstOffsets(reader, "latest", clock=lambda: 1_000)
    first.start(OLD, {OLD: None}, internal=False, repeated="handled")
    reader.leaderless.clear()
    with monkeypatch.context() as silent:
        silent.setattr(reader, "end_at", lambda *_: None)
        started = first.start(OLD, {OLD: None}, internal=False, repeated="handled")
        assert isinstance(started.found, LostPosition)
    assert first.start(OLD, {OLD: None}, internal=False, repeated="handled").offset == 90


def test_earliest_needs_no_control_topic() -> None:
    """Every partition starts at its log start."""
    assert first_offsets(ControlState(), "earliest").source(OLD) == (3, False)


def test_a_partition_that_the_group_has_never_read_starts_at_its_log_start() -> None:
    """Its records came before the first commit."""
    first = first_offsets(ControlState(exists=True))
    assert first.expired(READY, internal=True) is None
    assert first.internal(READY) == 3


@pytest.mark.parametrize("state", [ControlState(), ControlState(exists=True, committed={READY: 5})])
def test_an_internal_offset_that_may_have_expired_is_missed(state: ControlState) -> None:
    """Some of the records may be finished. Without a control topic nobody knows whether there was an offset."""
    assert first_offsets(state).expired(READY, internal=True) == (3, 87)


def test_an_offset_that_was_known_and_is_gone_has_expired() -> None:
    """Of sources and internal topics; if nothing is left, nothing can be repeated."""
    state = ControlState(exists=True, committed=dict.fromkeys((OLD, READY), 5))
    first = first_offsets(state)
    assert [first.expired(partition) for partition in (OLD, READY, ADDED)] == [(3, 87), (3, 87), None]
    assert first_offsets(ControlState()).expired(OLD) is None
    empty = FirstOffsets(StoredOffsets(ends={OLD: (9, 9)}), control=Known(state))
    assert empty.expired(OLD) is None


def test_a_saved_position_replaces_an_expired_offset() -> None:
    """It is committed soon, and dropped after that. A saved position beside a committed offset is dropped before."""
    last = Checkpoint(40, "")
    control = Known(
        ControlState(exists=True, committed={OLD: 40, READY: 5}, saved={OLD: last, READY: Checkpoint(5, "")})
    )
    reader = StoredOffsets({READY: Checkpoint(7, "")}, ends={ADDED: (3, 90)})
    first = FirstOffsets(reader, control=control)
    assert first.positions([OLD, READY, ADDED]) == {OLD: last, READY: Checkpoint(7, ""), ADDED: None}
    assert (first.restored, control.began) == ({OLD}, [READY])
    first.note_first_offsets({})
    assert (first.restored, control.committed) == ({OLD}, {})
    assert first.positions([OLD], [OLD, READY]) == {OLD: last}
    assert control.began == [READY], "nothing is read again after an aborted write"
    first.note_first_offsets({OLD: 40})
    assert (first.restored, control.committed) == (set(), {OLD: 40})
    control.committed.clear()
    first.note_first_offsets({OLD: 40})
    assert control.committed == {OLD: 40}, "until the control topic has it"


def test_only_a_partition_without_a_committed_offset_needs_the_control_topic() -> None:
    """What is saved of the others is dropped when the topic can be read."""
    last = Checkpoint(40, "")
    control = Known(ControlState(exists=True, committed={OLD: 40, READY: 5}, saved={OLD: last, READY: last}))
    control.unreadable = "no answer"
    reader = StoredOffsets({READY: Checkpoint(7, "")})
    first = FirstOffsets(reader, control=control)
    assert first.positions([OLD, READY]) == {OLD: None, READY: Checkpoint(7, "")}
    assert (first.unknown, first.restored) == ({OLD: "no answer"}, set())
    first.note_first_offsets({READY: 7})
    assert control.committed == {}
    control.unreadable = None
    control.read()
    first.note_first_offsets({READY: 7})
    assert control.committed == {READY: 7}
    assert first.positions([OLD]) == {OLD: last}
    assert (first.unknown, first.restored) == ({}, {OLD})


def test_committed_positions_are_saved() -> None:
    """Those of partitions without one are not known."""
    control = Known(ControlState(exists=True))
    first = FirstOffsets(StoredOffsets({OLD: Checkpoint(7, "p")}), control=control)
    first.save([OLD, READY])
    assert control.saved == {}, "there may be no control topic"
    control.read()
    first.save([OLD, READY])
    assert control.saved == {OLD: Checkpoint(7, "p")}


def test_a_first_offset_is_noted_once_it_is_committed() -> None:
    """Those that are known are not noted again."""
    control = Known(ControlState(exists=True, committed={OLD: 3}))
    first = FirstOffsets(StoredOffsets(), control=control)
    first.note_first_offsets({OLD: 7, ADDED: 9})
    assert control.committed == {}, "there may be no control topic"
    control.read()
    first.note_first_offsets({OLD: 7, ADDED: 9})
    assert control.committed == {ADDED: 9}
