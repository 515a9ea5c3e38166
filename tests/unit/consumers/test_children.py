"""Slots that are child processes: what kills a child kills nothing else, and is a failed delivery of one record."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psutil
import pytest

from consumers.children import Children
from consumers.errors import HandlerLoadError
from consumers.record import Context, Record
from topology.decision import Failure, FailureKind
from topology.settings import HandlerSection

HERE = "tests.unit.consumers.child_handlers"


@contextmanager
def children(function: str = "act", *, slots: int = 1, deadline: timedelta | None = None) -> Iterator[Children]:
    """Some of them, ended afterwards."""
    found = Children(HandlerSection(callable=f"{HERE}:{function}", slots=slots, deadline=deadline))
    try:
        yield found
    finally:
        found.close()


def delivered(found: Children, value: str, deliveries: int = 0) -> tuple[Failure | None, list[bytes]]:
    """What one delivery ends in: the failure, and what was emitted."""
    handler = found.handler()
    context = Context(deliveries, [])
    record = Record("orders", 0, 7, None, value, None, b"", [("trace", b"1")], 0)
    try:
        handler.call(record, context)
    except Exception as error:  # noqa: BLE001 - as the processor does
        return handler.failure(error), [output.value for output in context.outputs]
    return None, [output.value for output in context.outputs]


@pytest.mark.parametrize("function", ["act", "act_async"])
def test_a_handler_runs_in_another_process(function: str) -> None:
    """What it emits comes back, in the same process each time."""
    with children(function) as found:
        failure, [pid] = delivered(found, "ok")
        assert failure is None
        assert psutil.Process(int(pid)).ppid() == psutil.Process().pid
        assert delivered(found, "ok") == (None, [pid])


@pytest.mark.parametrize(("value", "death"), [("kill", "SIGKILL"), ("exit", "exit code 7")])
def test_a_child_that_dies_is_a_failed_delivery(value: str, death: str) -> None:
    """Of the record it had, with the cause; the next record has a new child."""
    with children() as found:
        failure, outputs = delivered(found, value)
        assert failure == Failure(FailureKind.DIED, "ClientDied", f"the handler's process died: {death}")
        assert outputs == []
        assert delivered(found, "ok")[0] is None


def test_a_deadline_kills_the_child() -> None:
    """The slot is free again at once, and nothing of the late call goes on."""
    with children(deadline=timedelta(seconds=0.5)) as found:
        _, [pid] = delivered(found, "ok")
        began = time.monotonic()
        failure, _ = delivered(found, "sleep")
        assert time.monotonic() - began < 30
        assert failure is not None
        assert failure.kind is FailureKind.DEADLINE
        assert not psutil.pid_exists(int(pid))
        assert delivered(found, "ok")[0] is None


def test_exceptions_mean_what_they_mean_elsewhere() -> None:
    """The child names them; outputs that cannot be sent are a failure of the record, too."""
    with children() as found:
        failure, _ = delivered(found, "raise", deliveries=2)
        assert failure == Failure(FailureKind.RAISED, "ValueError", "attempt 3")
        assert delivered(found, "reject")[0] == Failure(FailureKind.REJECTED, "Reject", "never")
        unsent, outputs = delivered(found, "unpicklable")
        assert unsent is not None
        assert unsent.kind is FailureKind.RAISED
        assert outputs == []
        assert delivered(found, "ok")[0] is None


def test_each_slot_has_its_own_child() -> None:
    """One that is busy holds up nobody else."""
    with children(slots=2, deadline=timedelta(seconds=20)) as found:
        busy = threading.Thread(target=delivered, args=(found, "sleep"), daemon=True)
        busy.start()
        for _ in range(3):
            assert delivered(found, "ok")[0] is None


def test_a_handler_that_cannot_be_loaded_is_told_at_start() -> None:
    """With the error of the child, or its death."""
    with pytest.raises(HandlerLoadError, match=r"Unwilling.*not today"):
        Children(HandlerSection(callable=f"{HERE}:Unwilling", slots=2))


def test_a_death_while_loading_is_told_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an extension module may do."""
    monkeypatch.setenv("CHILD_HANDLERS_DIE", "1")
    with pytest.raises(HandlerLoadError, match="died while it was loaded: exit code 9"):
        Children(HandlerSection(callable=f"{HERE}:die_at_import"))


def test_closing_leaves_no_process_behind() -> None:
    """Those that wait for a record end at once."""
    with children(slots=2) as found:
        pids = {int(delivered(found, "ok")[1][0]) for _ in range(4)}
    assert len(pids) == 2
    assert not any(map(psutil.pid_exists, pids))


def test_a_child_that_died_between_two_records_counts_for_neither() -> None:
    """Whoever killed it, the next record never reached it: that has a new child."""
    with children() as found:
        _, [pid] = delivered(found, "ok")
        psutil.Process(int(pid)).kill()
        # Its state is "zombie" already while its threads end; this waits for all of it, and leaves it to be reaped.
        os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)
        failure, [other] = delivered(found, "ok")
        assert failure is None
        assert other != pid


def test_a_death_is_seen_though_others_hold_its_pipe() -> None:
    """What a child has forked lives on with all that it had open."""
    with children() as found:
        began = time.monotonic()
        failure, _ = delivered(found, "fork and kill")
        assert failure is not None
        assert failure.kind is FailureKind.DIED
        assert time.monotonic() - began < 30
        assert delivered(found, "ok")[0] is None


def test_outputs_that_cannot_be_read_are_a_failure_of_their_record() -> None:
    """Not of the worker: the next record is handled."""
    with children() as found:
        failure, outputs = delivered(found, "unreadable")
        assert failure is not None
        assert failure.kind is FailureKind.RAISED
        assert outputs == []
        assert delivered(found, "ok")[0] is None
