"""Handlers in child processes: a death of a child fails one record and ends no other process."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

import kafka_redelivery
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers import child, child_process_pool
from kafka_redelivery.consumers.handlers.child import LoadLimit
from kafka_redelivery.consumers.handlers.child_process_pool import ChildProcessPool
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.telemetry.logs import JsonFormatter
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.config.settings import HandlerSection
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from tests.unit.consumers.records import NOW, record, source

HERE = "tests.unit.consumers.child_handlers"


@contextmanager
def children(function: str = "act", *, slots: int = 1, deadline: timedelta | None = None) -> Iterator[ChildProcessPool]:
    """A pool, closed afterwards."""
    found = ChildProcessPool(HandlerSection(callable=f"{HERE}:{function}", slots=slots, deadline=deadline))
    try:
        yield found
    finally:
        found.close()


def delivered(found: ChildProcessPool, value: object, deliveries: int = 0) -> tuple[Failure | None, list[bytes]]:
    """Deliver a record once; the failure, and the values that were emitted."""
    handler = found.handler()
    context = Context(deliveries, [])
    record = Record("orders", 0, 7, None, value, None, b"", [("trace", b"1")], 0)
    try:
        handler.call(record, context)
    except Exception as error:  # noqa: BLE001 - as the processor does
        return handler.failure(error), [output.value for output in context.outputs]
    return None, [output.value for output in context.outputs]


def test_a_value_that_is_nested_too_deeply_for_pickle_is_the_fault_of_its_record() -> None:
    """The JSON codec decodes it, and pickle needs more of the stack. The child goes on with the next record."""
    nested: object = json.loads("[" * 700 + "]" * 700)
    with children() as found:
        failure, _ = delivered(found, nested)
        assert failure is not None
        assert (failure.kind, failure.exception) == (FailureKind.UNDECODABLE, "RecursionError")
        assert delivered(found, "ok")[0] is None


@pytest.mark.parametrize("function", ["act", "act_async"])
def test_a_handler_runs_in_another_process(function: str) -> None:
    """Its outputs come back, and the process is the same for all records."""
    with children(function) as found:
        failure, [pid] = delivered(found, "ok")
        assert failure is None
        assert psutil.Process(int(pid)).ppid() == psutil.Process().pid
        assert delivered(found, "ok") == (None, [pid])


@pytest.mark.parametrize("function", ["log", "log_async"])
def test_a_line_of_a_handler_names_its_record(capfd: pytest.CaptureFixture[str], function: str) -> None:
    """In the format of the parent, here JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with children(function) as found:
            assert delivered(found, "log", deliveries=2)[0] is None
    finally:
        root.removeHandler(handler)
    [line] = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "charged" in line]
    assert (line["logger"], line["origin"], line["attempt"]) == ("shop", "orders-0@7", 3)


@pytest.mark.parametrize(("value", "death"), [("kill", "SIGKILL"), ("exit", "exit code 7")])
def test_the_death_of_a_child_is_a_failed_delivery(value: str, death: str) -> None:
    """The failure names the cause; the next record has a new child."""
    with children() as found:
        failure, outputs = delivered(found, value)
        assert failure == Failure(FailureKind.DIED, "ClientDied", f"the handler's process died: {death}")
        assert outputs == []
        assert delivered(found, "ok")[0] is None


@pytest.mark.parametrize(
    ("function", "value"), [("act", "sys.exit"), ("act_async", "sys.exit"), ("act_async", "gather")]
)
def test_a_handler_that_exits_has_failed_and_its_child_goes_on(function: str, value: str) -> None:
    """Also in a task of its own."""
    with children(function) as found:
        _, pids = delivered(found, "ok")
        assert delivered(found, value) == (Failure(FailureKind.RAISED, "SystemExit", "7"), [])
        assert delivered(found, "ok") == (None, pids)


def test_an_asynchronous_resource_is_open_for_as_long_as_the_child_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks run between the calls, too."""
    left = tmp_path / "left"
    monkeypatch.setenv("CHILD_HANDLERS_LEFT", str(left))
    with children("Connected") as found:
        assert [delivered(found, "ok") for _ in range(2)] == [(None, [b"1"]), (None, [b"2"])]
        assert not left.exists()
    assert left.exists()


def test_a_deadline_kills_the_child() -> None:
    """The slot is free again, and the late call has ended."""
    with children(deadline=timedelta(seconds=5)) as found:  # the first record has to meet it
        _, [pid] = delivered(found, "ok")
        began = time.monotonic()
        failure, _ = delivered(found, "sleep")
        assert time.monotonic() - began < 30
        assert failure is not None
        assert failure.kind is FailureKind.DEADLINE
        assert not psutil.pid_exists(int(pid))
        assert delivered(found, "ok")[0] is None


def test_killed_children_keep_no_descriptors() -> None:
    """Nor until the garbage collector runs, which workers do seldom."""
    with children(deadline=timedelta(seconds=1)) as found:
        opened = []
        gc.disable()
        try:
            for _ in range(3):
                failure, _ = delivered(found, "sleep")
                assert failure is not None
                assert failure.kind is FailureKind.DEADLINE
                delivered(found, "ok")
                opened.append(psutil.Process().num_fds())
        finally:
            gc.enable()
        assert opened[0] == opened[2]


def test_a_child_that_is_stopped_before_it_has_the_record_misses_the_deadline() -> None:
    """It cannot say that it has begun. A record that is too large for its pipe goes to another child."""
    with children(deadline=timedelta(seconds=5)) as found:
        _, [pid] = delivered(found, "ok")
        os.kill(int(pid), signal.SIGSTOP)
        failure, _ = delivered(found, "ok")
        assert failure is not None
        assert failure.kind is FailureKind.DEADLINE
        _, [other] = delivered(found, "ok")
        os.kill(int(other), signal.SIGSTOP)
        assert delivered(found, "ok" * 1_000_000)[0] is None


def test_exceptions_mean_the_same_as_in_a_thread() -> None:
    """Outputs that cannot be pickled are a failure of the record."""
    with children() as found:
        failure, _ = delivered(found, "raise", deliveries=2)
        assert failure is not None
        assert failure[:3] == (FailureKind.RAISED, "ValueError", "attempt 3")
        assert failure.place == f"{HERE}.act"
        assert failure.chain[0].frames[-1][2] == "act"
        rejected, _ = delivered(found, "reject")
        assert rejected is not None
        assert rejected[:3] == (FailureKind.REJECTED, "Reject", "never")
        unsent, outputs = delivered(found, "unpicklable")
        assert unsent is not None
        assert unsent.kind is FailureKind.RAISED
        assert outputs == []
        assert delivered(found, "ok")[0] is None


def test_each_slot_has_its_own_child() -> None:
    """A busy child delays no other slot."""
    with children(slots=2, deadline=timedelta(seconds=20)) as found:
        busy = threading.Thread(target=delivered, args=(found, "sleep"), daemon=True)
        busy.start()
        for _ in range(3):
            assert delivered(found, "ok")[0] is None


def test_a_handler_that_cannot_be_loaded_is_an_error_at_start() -> None:
    """The message is the one of the child."""
    with pytest.raises(HandlerLoadError, match=r"Unwilling.*not today"):
        ChildProcessPool(HandlerSection(callable=f"{HERE}:Unwilling", slots=2))


def test_a_death_during_loading_is_an_error_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension module may cause one."""
    monkeypatch.setenv("CHILD_HANDLERS_DIE", "1")
    with pytest.raises(HandlerLoadError, match="died while it was loaded: exit code 9"):
        ChildProcessPool(HandlerSection(callable=f"{HERE}:die_at_import"))


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the handler ``Needing`` reads at its start."""
    monkeypatch.setenv("CHILD_HANDLERS_DATABASE", str(tmp_path / "database"))
    return tmp_path / "database"


@pytest.mark.parametrize(
    ("state", "cause"), [("away", r"ConnectionError.*the database is away"), ("hangs", "it was not loaded within 2 s")]
)
def test_a_record_waits_while_no_child_can_be_started(
    database: Path, state: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held without an outcome, and handled when the cause is gone."""
    if state == "hangs":
        _limit_loading_to_two_seconds(monkeypatch)
    with children("Needing") as found:
        assert delivered(found, "kill")[0] is not None
        database.write_text(state, encoding="utf-8")
        item = WorkItem(Lane(source(), exclusive=True), [record(0)])
        processor = Processor(found.handler(), {}, lambda: NOW, None)
        for _ in range(2):
            processor.run(item)
            assert re.search(cause, item.held)
            assert (item.position, item.failures) == (0, [])
        database.unlink()
        end_s = time.monotonic() + 30
        while not item.position and time.monotonic() < end_s:
            processor.run(item)
        assert (item.position, item.failures) == (1, [])


def test_a_living_child_takes_the_records_of_one_that_cannot_be_started(database: Path) -> None:
    """Nothing waits for the database."""
    with children("Needing", slots=2) as found:
        assert delivered(found, "kill")[0] is not None
        database.write_text("away", encoding="utf-8")
        pids = {delivered(found, "ok")[1][0] for _ in range(4)}
        slots = [threading.Thread(target=delivered, args=(found, "nap"), daemon=True) for _ in range(2)]
        for slot in slots:
            slot.start()
        for slot in slots:
            slot.join(20)
            assert not slot.is_alive(), "it waits for the other one"
        assert len(pids) == 1


def test_a_child_that_loads_slowly_gets_more_time() -> None:
    """The first one has no limit; one that was killed at its limit doubles it; ten minutes are the most."""
    limit = LoadLimit()
    assert limit.seconds == float("inf")
    limit.loaded(12.0)
    limit.loaded(0.1)
    assert limit.seconds == 120.0
    found = []
    for _ in range(4):
        limit.passed()
        found.append(limit.seconds)
    assert found == [240.0, 480.0, 600.0, 600.0]
    limit.loaded(90.0)
    assert limit.seconds == 900.0
    limit.passed()
    assert limit.seconds == 900.0, "never less than before"


def test_no_slot_waits_for_children_that_others_try_to_start(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading fails slowly, and at another time in each slot, so that there is always one that is loading."""
    monkeypatch.setattr(child_process_pool, "_BACKOFF", Backoff(0.1, 0.1))
    _limit_loading_to_two_seconds(monkeypatch)
    with children("Needing", slots=2) as found:
        for _ in range(2):
            assert delivered(found, "kill")[0] is not None
        database.write_text("hangs", encoding="utf-8")
        held: list[str] = []
        slots = [threading.Thread(target=lambda: held.append(_held(found)), daemon=True) for _ in range(2)]
        for slot in slots:
            slot.start()
            time.sleep(1)
        for slot in slots:
            slot.join(20)
        assert len(held) == 2
        assert all("not loaded within" in cause for cause in held)


def test_closing_ends_a_child_that_is_being_started(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record that waits for it has no outcome."""
    with children("Needing") as found:
        assert delivered(found, "kill")[0] is not None
        monkeypatch.setattr(found._load_limit, "seconds", 60.0)
        database.write_text("hangs", encoding="utf-8")
        held: list[object] = []
        slot = threading.Thread(target=lambda: held.append(_held(found)), daemon=True)
        slot.start()
        while not found._alive:
            time.sleep(0.05)
        [starting] = found._alive
    slot.join(20)
    assert held == ["the processes of the handler are being ended"]
    assert starting.dead


def _limit_loading_to_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_MIN_LOAD_LIMIT_S", 2.0)
    monkeypatch.setattr(child, "_LOAD_LIMIT_FACTOR", 0.0)


def _held(found: ChildProcessPool) -> str:
    item = WorkItem(Lane(source(), exclusive=True), [record(0)])
    Processor(found.handler(), {}, lambda: NOW, None).run(item)
    return item.held


def test_closing_leaves_no_process_behind() -> None:
    """Idle children end by themselves."""
    with children(slots=2) as found:
        pids = {int(delivered(found, "ok")[1][0]) for _ in range(4)}
    assert len(pids) == 2
    assert not any(map(psutil.pid_exists, pids))


def test_a_death_between_two_records_fails_neither() -> None:
    """The next record has a new child."""
    with children() as found:
        _, [pid] = delivered(found, "ok")
        psutil.Process(int(pid)).kill()
        # Its state is "zombie" already while its threads end; this waits for all of it, and leaves it to be reaped.
        os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)
        failure, [other] = delivered(found, "ok")
        assert failure is None
        assert other != pid


def test_a_death_is_detected_while_another_process_holds_the_pipe() -> None:
    """A process that the handler forked inherits the pipe."""
    with children() as found:
        began = time.monotonic()
        failure, _ = delivered(found, "fork and kill")
        assert failure is not None
        assert failure.kind is FailureKind.DIED
        assert time.monotonic() - began < 30
        assert delivered(found, "ok")[0] is None


def test_outputs_that_cannot_be_unpickled_are_a_failure() -> None:
    """The next record is handled."""
    with children() as found:
        failure, outputs = delivered(found, "unreadable")
        assert failure is not None
        assert failure.kind is FailureKind.RAISED
        assert outputs == []
        assert delivered(found, "ok")[0] is None


def test_outputs_that_cannot_be_encoded_are_a_failure() -> None:
    """The worker encodes them after the call. It does not halt."""
    with children("emit_text") as found:
        item = WorkItem(Lane(source(), exclusive=True), [record(0)])
        Processor(found.handler(), {}, lambda: NOW, None).run(item)
    [(_, failure)] = item.failures
    assert (failure.kind, failure.exception) == (FailureKind.RAISED, "TypeError")


def test_a_child_finds_the_package_where_its_parent_found_it(tmp_path: Path) -> None:
    """A parent may run with ``python -m`` in the folder that holds the package, without an installation."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "kafka_redelivery").symlink_to(Path(kafka_redelivery.__file__).parent)
    (tmp_path / "mine.py").write_text("def handle(record):\n    return None\n")
    program = (
        "import sys; from kafka_redelivery.consumers.handlers.child_process_pool import ChildProcessPool;"
        "from kafka_redelivery.topology.config.settings import HandlerSection;"
        f"sys.path.append({str(tmp_path)!r});"
        "ChildProcessPool(HandlerSection(callable='mine:handle', slots=1)).close(); print('ready')"
    )
    dependencies = [each for each in sys.path if "site-packages" in each]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dependencies)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=site, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "ready\n", done.stderr


def test_a_program_that_starts_its_app_when_it_is_imported_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child imports the module of the handler; with a guard it only defines the handler."""
    program = (
        "from kafka_redelivery import App\n"
        "app = App(group='g', kafka={'bootstrap.servers': '127.0.0.1:1'})\n"
        "@app.handler('orders')\n"
        "def handle(record): pass\n"
    )
    (tmp_path / "unguarded_program.py").write_text(f"{program}app.run()\n")
    (tmp_path / "guarded_program.py").write_text(f"{program}if __name__ == '__main__':\n    app.run()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(HandlerLoadError, match=r"starts its App when it is imported.*start it below `if __name__ == "):
        ChildProcessPool(HandlerSection(callable="unguarded_program:handle"))
    ChildProcessPool(HandlerSection(callable="guarded_program:handle")).close()


def test_a_collector_that_does_not_answer_costs_no_child_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends by itself, so that what the user has registered for the end of the process is done."""
    monkeypatch.setattr(child_process_pool, "tracing", lambda: True)
    monkeypatch.setattr(child_process_pool, "_CLOSING_S", 2.9)  # less than a worker waits for its own spans
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with children("trace_once") as found:
            assert delivered(found, "ok")[0] is None
            [process] = [each._process for each in found._alive]
        assert process.returncode == 0
