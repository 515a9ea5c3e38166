"""The probes of worker and scheduler are right before the group answers, at work, hung and stopping."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.scenarios import hanging_commits
from tests.scenarios.running import SHORT_SESSION, Group, Role, exactly
from tests.scenarios.scraping import free_port, get
from tests.scenarios.waiting import LONG_S, until


def _probe(port: int, path: str) -> int:
    """Return the HTTP status, 0 without an answer within a second."""
    return get(port, path, within_s=1)[0]


def _status(port: int, path: str) -> int:
    """Return the HTTP status of a process that answers, although a busy one may need more than a second for it."""
    return until(lambda: _probe(port, path), f"{path} is answered")


def test_probes_follow_a_process_from_start_to_end(group: Group) -> None:
    """A process is alive before it is ready, is ready even without partitions, and does not answer while stopped."""
    ports = {"worker": free_port(), "scheduler": free_port(), "idle": free_port()}
    group.prepare(partitions=1)
    # Unresponsive members delay the next rebalance only until this time-out.
    group.configure(kafka={"session.timeout.ms": 10_000})
    started = {}
    for name, port in ports.items():
        group.configure(metrics={"port": port, "host": "127.0.0.1"})
        started[name] = group.start("scheduler" if name == "scheduler" else "worker", name)
        until(lambda: _probe(port, "/healthz") == 200, f"{name} is alive")  # noqa: B023 - called immediately
    for name, port in ports.items():
        until(lambda: _probe(port, "/readyz") == 200, f"{name} is ready")  # noqa: B023

    worker, port = started["worker"], ports["worker"]
    os.kill(worker.pid, signal.SIGSTOP)
    assert _probe(port, "/healthz") == 0
    assert _probe(port, "/readyz") == 0
    os.kill(worker.pid, signal.SIGCONT)
    until(lambda: _probe(port, "/readyz") == 200, "the worker is ready again")

    group.send([["ok"]] * 5)
    group.settle()
    group.stop()


def test_a_worker_whose_loop_hangs_is_not_alive(group: Group) -> None:
    """Another thread answers the probes: both are 503 when the polling thread makes no progress."""
    port = free_port()
    group.prepare()
    group.configure(metrics={"port": port, "host": "127.0.0.1", "stalledAfter": "2s"})
    worker = group.worker(program=("-m", "tests.scenarios.hanging"))
    until(lambda: _probe(port, "/readyz") == 200, "the worker is ready")
    # The loop of a busy process may well make no turn for two seconds.
    until(lambda: _probe(port, "/healthz") == 200, "the worker is alive")
    os.kill(worker.pid, signal.SIGUSR1)
    until(lambda: _probe(port, "/healthz") == 503, "the probe reports the hang")
    assert _status(port, "/readyz") == 503
    worker.kill()


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_a_process_whose_write_hangs_is_not_alive(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    """Its polling thread goes on, but nothing is written any more. A restart ends the transaction and goes on."""
    hanging, port = tmp_path / "hanging", free_port()
    monkeypatch.setenv(hanging_commits.FILE, str(hanging))
    group.prepare()
    group.configure(metrics={"port": port, "host": "127.0.0.1", "stalledAfter": "2s"})
    process = group.start(role, "p1", program=hanging_commits.PROGRAM)
    until(lambda: _probe(port, "/readyz") == 200, "the process is ready")
    group.configure(metrics={})
    other = group.worker() if role == "scheduler" else group.scheduler()
    group.send([["raise", "ok"]] * 5)
    group.settle()
    until(lambda: _probe(port, "/healthz") == 200, "the process is alive")

    hanging.touch()
    group.send([["raise", "ok"]] * 5, first=5)
    until(lambda: _probe(port, "/healthz") == 503, "the probe reports the hang")
    assert _status(port, "/readyz") == 503
    process.kill()
    hanging.unlink()
    process = group.start(role, "p1")
    group.settle()
    assert group.outputs() == exactly(range(10))
    process.stop()
    other.stop()


@pytest.mark.slow
def test_a_worker_is_not_ready_before_the_group_answers(group: Group) -> None:
    """It is alive all the time, and becomes ready once the group has removed an unresponsive member."""
    ports = {"w1": free_port(), "w2": free_port()}
    group.prepare(partitions=2)
    group.configure(kafka=SHORT_SESSION)
    group.configure(metrics={"port": ports["w1"], "host": "127.0.0.1"})
    suspended = group.worker("w1")
    until(lambda: _probe(ports["w1"], "/readyz") == 200, "the first one is ready")
    os.kill(suspended.pid, signal.SIGSTOP)
    group.configure(metrics={"port": ports["w2"], "host": "127.0.0.1"})
    group.worker("w2")
    until(lambda: _probe(ports["w2"], "/healthz") == 200, "the second one is alive")
    status = _status(ports["w2"], "/readyz")
    # If the second one has taken longer to start than a session lasts, it has become ready by right.
    assert status == 503 or not any(name.startswith("w1") for name in group.cluster.members(group.name))
    until(lambda: _probe(ports["w2"], "/readyz") == 200, "the second one is ready")
    suspended.kill()


def test_a_worker_that_shuts_down_is_alive_but_not_ready(group: Group) -> None:
    """From SIGTERM on, while it waits for a long call."""
    port = free_port()
    group.prepare()
    group.configure(metrics={"port": port, "host": "127.0.0.1"})
    group.configure(limits={"shutdownTimeout": "60s"})
    worker = group.worker()
    until(lambda: _probe(port, "/readyz") == 200, "the worker is ready")
    gate = group.folder / "gate"
    group.send([[f"wait {gate}"]])
    until(lambda: 0 in group.deliveries.counts(), "the long call begins")
    worker.terminate()
    until(lambda: _probe(port, "/readyz") == 503, "the probe reports the shutdown")
    assert _status(port, "/healthz") == 200
    gate.touch()
    assert worker.wait(LONG_S) == 0
    with socket.socket() as closed:
        assert closed.connect_ex(("127.0.0.1", port)) != 0
