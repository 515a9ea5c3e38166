"""Following the pauses: the last known ones hold, they end by the clock, and what is applied is noted once."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from kafka_redelivery.consumers.process import pause_watch
from kafka_redelivery.consumers.process.pause_watch import PauseWatch
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.pauses import (
    Pauses,
    PauseScope,
    PauseTarget,
    ProcessName,
    Reported,
    fault_record,
    next_report,
    pause_record,
    process_record,
    tombstones,
)
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.errors import ReaderError
from tests.unit.consumers.records import NOW

ORDERS = PauseTarget(PauseScope.SOURCE, "orders")
W1 = ProcessName("worker", "w1")


class Topic:
    """A control topic, as its tail shows it."""

    def __init__(self) -> None:
        self.pauses = Pauses()
        self.written: list[ControlRecord] = []
        self.error: Exception | None = None
        self.refused = False
        self.ended = threading.Event()

    def append(self, *records: ControlRecord) -> None:
        for record in records:
            self.written.append(record)
            self.pauses = self.pauses.with_record(record.key, record.value, len(self.written) - 1)

    def append_control(self, _kafka: object, _topic: str, records: Sequence[ControlRecord], _timeout_s: float) -> None:
        if self.refused:
            raise AdminError("write to billing.control", "not authorized")
        self.append(*records)

    def exists(self) -> bool:
        return True

    def read_to_end(self) -> Pauses:
        return self.poll(0)

    def damage(self, key: str) -> None:
        self.pauses = self.pauses.with_record(key.encode(), b"?", 99)

    def poll(self, _timeout_s: float) -> Pauses:
        if self.error is not None:
            raise self.error
        return self.pauses

    def close(self) -> None:
        """Nothing is open."""


class Following:
    """A watch whose turns the test makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topic, self.now_ms, self.now_s, self.health = Topic(), NOW, 0.0, Health()
        monkeypatch.setattr(pause_watch, "ControlTail", lambda *_: self.topic)
        monkeypatch.setattr(pause_watch, "append_control", self.topic.append_control)
        monkeypatch.setattr(pause_watch, "wall_clock_ms", lambda: self.now_ms)
        monkeypatch.setattr(pause_watch, "monotonic_s", lambda: self.now_s)
        settings = load_settings("group: billing\nkafka: {bootstrap.servers: h}\nsources: [{topic: orders}]")
        self.watch = PauseWatch(settings, W1, self.health)
        self.watch.read()

    def turn(self, *, applies: bool = True) -> None:
        """Read once; the thread of work may apply it; read once more."""
        self.watch._update(self.topic.poll(0))
        if applies:
            self.watch.applied(self.watch.current)
        self.watch._note()
        self.watch._report()


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Following:
    """A watch of an empty topic."""
    return Following(monkeypatch)


def test_a_group_that_was_never_paused_writes_nothing(following: Following) -> None:
    """Neither while it runs nor when it stops."""
    following.turn()
    following.watch.withdraw()
    assert following.topic.written == []


def test_a_pause_is_noted_once_it_is_applied(following: Following) -> None:
    """Once for each change, and withdrawn at the end."""
    following.topic.append(pause_record(ORDERS, None, NOW))
    following.turn(applies=False)
    assert following.watch.current.covers("billing.ready.orders")
    assert len(following.topic.written) == 1
    following.turn()
    following.turn()
    assert following.topic.written[1:] == [process_record(W1, 1, NOW)]
    following.topic.append(*tombstones([ORDERS]))
    following.turn()
    assert following.topic.written[3:] == [process_record(W1, 3, NOW)]
    assert not following.watch.current
    following.watch.withdraw()
    assert following.topic.pauses.processes == {}


def test_a_pause_ends_by_the_clock_of_the_process(following: Following) -> None:
    """Nothing arrives then; and the body of the readiness probe names the pause while it holds."""
    following.topic.append(pause_record(ORDERS, NOW + 10, NOW))
    following.health.joined()
    following.turn()
    assert "paused: source orders until" in following.health.ready().reason
    following.now_ms += 10
    following.turn()
    assert not following.watch.current
    assert following.health.ready().reason == "ready"


def test_the_last_known_pauses_hold(following: Following) -> None:
    """While Kafka does not answer; also when the thread starts again."""
    following.topic.append(pause_record(ORDERS, None, NOW))
    following.turn()
    following.topic.error = ReaderError("no answer")
    for _ in range(2):
        with pytest.raises(ReaderError):
            following.watch.run(threading.Event())
        assert following.watch.current.covers("orders")


@pytest.mark.parametrize("failing", [True, False])
def test_a_known_pause_ends_although_the_topic_cannot_be_read(following: Following, *, failing: bool) -> None:
    """No answer at a restart of the thread, or a record that another program wrote."""
    following.topic.append(pause_record(ORDERS, NOW + 10, NOW))
    following.turn()
    following.topic.error = ReaderError("no answer") if failing else None
    following.topic.damage("pause/group")
    following.now_ms += 10
    ended = threading.Event()
    ended.set()
    with suppress(ReaderError):
        following.watch.run(ended)
    assert not following.watch.current


def test_a_damaged_record_stops_a_start_and_is_logged_once_later(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    """What is written after it is obeyed."""
    following.topic.damage("pause/group")
    following.turn()
    following.topic.append(pause_record(ORDERS, None, NOW))
    following.turn()
    assert following.watch.current.covers("orders")
    assert len([each for each in caplog.records if "'pause/group'" in each.message]) == 1
    with pytest.raises(ControlRecordError, match="pause/group"):
        following.watch.read()


def test_a_note_that_is_refused_is_written_later(following: Following) -> None:
    """The pause is obeyed nevertheless."""
    following.topic.append(pause_record(ORDERS, None, NOW))
    following.topic.refused = True
    following.turn()
    assert following.watch.current.covers("orders")
    following.topic.refused = False
    following.turn()
    assert following.topic.pauses.processes == {}, "not at once"
    following.now_s += 60
    following.turn()
    assert following.topic.pauses.processes.keys() == {W1}


def test_what_keeps_records_waiting_is_reported(following: Following) -> None:
    """When it begins, again after a while, and when it ends; but not what an operator has done."""
    following.health.note("pauses", "paused: group")
    following.health.note("scheduler", "no scheduler runs")
    following.turn()
    assert following.topic.pauses.faults == {}
    following.health.note("halted", "orders-0 is halted")
    following.turn()
    assert following.topic.pauses.faults == {}, "a few seconds later"
    for now_s, written in ((10, 1), (20, 1), (80, 2)):
        following.now_s, following.now_ms = now_s, NOW + now_s * 1000
        following.turn()
        assert len(following.topic.written) == written
    assert following.topic.pauses.faults == {W1: Reported("orders-0 is halted", NOW + 80_000, NOW + 440_000)}
    following.health.note("halted", "")
    following.now_s += 10
    following.turn()
    assert following.topic.pauses.faults == {}
    following.turn()
    assert len(following.topic.written) == 3


def test_a_report_is_withdrawn(following: Following) -> None:
    """When the process stops; when it starts again after a kill; and after an hour, if it has not."""
    w2 = ProcessName("worker", "random-1")
    for name, at_ms in ((W1, NOW), (w2, NOW - 3_600_001)):
        following.topic.append(fault_record(name, Reported("halted", at_ms, at_ms + 180_000)))
    following.now_s += 10
    following.turn()
    assert following.topic.pauses.faults == {}
    following.health.note("held", "orders-0 waits")
    following.now_s += 10
    following.turn()
    following.watch._update(following.topic.poll(0))
    following.watch.withdraw()
    assert following.topic.pauses.faults == {}


def test_a_process_that_hangs_reports_it(following: Following) -> None:
    """The thread of the pauses still runs. It does not write each time that some seconds more have passed."""
    health = Health(timedelta(seconds=60), clock_s=lambda: following.now_s)
    following.watch._health = health
    following.now_s += 100
    following.turn()
    assert "the polling thread has not turned for a long time" in following.topic.pauses.faults[W1].text
    for _ in range(3):
        following.now_s += 10
        following.turn()
    assert len(following.topic.written) == 1


def test_a_fault_that_lasts_is_reported_ever_more_seldom() -> None:
    """A compacted topic keeps all of that for a week, and each process reads it."""
    reports, last = 0, None
    for now_ms in range(0, 7 * 24 * 3_600_000, 5000):
        report = next_report(last, "orders-0 is halted", now_ms)
        assert last is None or now_ms < last.until_ms
        if report is not None:
            reports, last = reports + 1, report
    assert reports < 1100
    assert last is not None
    assert next_report(last, "another fault", last.at_ms + 59_000) is None
    changed = next_report(last, "another fault", last.at_ms + 60_000)
    assert changed == Reported("another fault", last.at_ms + 60_000, last.at_ms + 240_000)
    assert next_report(changed, "", changed.at_ms + 1) is not None
