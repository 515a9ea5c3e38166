"""The demo reports what goes wrong in an error message and its exit code, and leaves no process running."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.scenarios.demo_runs import DemoRun, alive
from tests.scenarios.waiting import LONG_S, until


def _pids(demo: DemoRun) -> list[int]:
    """Return the process ids of both children once both run, else an empty list."""
    pids = [demo.pid(role) for role in ("worker", "scheduler")]
    return [pid for pid in pids if pid is not None] if None not in pids else []


def _gone(demo: DemoRun, pids: list[int]) -> bool:
    """Return whether both children and the broker have ended."""
    with socket.socket() as probe:
        host, port = demo.servers.split(":")
        return not any(map(alive, pids)) and probe.connect_ex((host, int(port))) != 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_record_too_many_fails_the_run(tmp_path: Path) -> None:
    """A foreign record among the flights is reported, and the exit code is 1."""
    with DemoRun(tmp_path, "--days", "1") as demo:
        until(lambda: demo.holds("flights"), "flights are fed", within_s=LONG_S)
        producer = Producer({"bootstrap.servers": demo.servers})
        producer.produce("flights", b"foreign", b"N1")
        assert producer.flush(30) == 0
        assert demo.end() == 1, demo.stderr
        conservation = demo.document()["conservation"]
        assert isinstance(conservation, list)
        assert any("was not sent" in fault for fault in conservation)
        assert "not every record is accounted for" in demo.stderr
        assert "Traceback" not in demo.stderr


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(500)
def test_a_worker_that_ends_by_itself_ends_the_demo(tmp_path: Path) -> None:
    """The error has the worker's last lines and the path of its log, and the exit code is 1."""
    with DemoRun(tmp_path, "--days", "1") as demo:
        pids = until(lambda: _pids(demo), "both children run", within_s=LONG_S)
        until(lambda: demo.holds("seat_miles"), "the worker writes", within_s=LONG_S)
        os.kill(pids[0], signal.SIGTERM)
        assert demo.end() == 1
        assert "the worker ended with exit code 0" in demo.stderr
        assert "SIGTERM: stopping" in demo.stderr
        assert str(demo.keep / "worker.log") in demo.stderr
        assert "Traceback" not in demo.stderr
        assert _gone(demo, pids)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_everything(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM leave no child and no broker behind."""
    with DemoRun(tmp_path, "--days", "1") as demo:
        pids = until(lambda: _pids(demo), "both children run", within_s=LONG_S)
        demo.process.send_signal(number)
        assert demo.end() == code
        assert "Traceback" not in demo.stderr
        assert _gone(demo, pids)


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    """``--keep`` must name an empty directory; its existing files are not touched."""
    (tmp_path / "something").touch()
    command = [sys.executable, "-m", "examples.flights", "--keep", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"demo: {tmp_path} is not empty; choose another directory, or remove it\n"


@pytest.mark.parametrize("options", [["--days", "0"], ["--days", "366"], ["--all", "--days", "3"], ["--port", "x"]])
def test_wrong_usage(options: list[str]) -> None:
    """The exit code is 2 and the error gives the reason, before a process is started."""
    command = [sys.executable, "-m", "examples.flights", *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "error: argument" in ended.stderr
