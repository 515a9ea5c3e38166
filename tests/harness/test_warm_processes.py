"""A warm process does what a fresh interpreter does."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests.scenarios.waiting import until
from tests.scenarios.warm import WarmProcess

_WITHIN_S = 60
_SHOWS = "import os, sys; print(__name__, sys.argv, sys.stdin.read(), os.getcwd(), os.environ['SHOWN'], flush=True); "
_ENDS = {
    "returns": "",
    "exits": "sys.exit(7)",
    "fails": "1 / 0",
    "is interrupted": "import signal; signal.raise_signal(signal.SIGINT)",
    "is terminated": "import signal; signal.raise_signal(signal.SIGTERM)",
    "leaves a thread": "import threading; threading.Timer(0.1, print, ['late']).start()",
}


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Of a job in the background a shell makes SIGINT ignored, which a fresh interpreter inherits."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize("end", _ENDS)
def test_output_and_exit_code(end: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Arguments, standard input, folder, environment, output and exit code are the same."""
    monkeypatch.setenv("SHOWN", end)
    monkeypatch.chdir(tmp_path)
    command = ["-c", _SHOWS + _ENDS[end], "an argument"]
    fresh = subprocess.run(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )

    with TemporaryFile() as output, TemporaryFile() as errors:
        code = WarmProcess(command, env=os.environ, stdout=output, stderr=errors).wait(_WITHIN_S)
        output.seek(0)
        assert (code, output.read()) == (fresh.returncode, fresh.stdout)


def test_a_running_process(tmp_path: Path) -> None:
    """It has no exit code, and ends when it is killed."""
    with (tmp_path / "log").open("wb") as log:
        process = WarmProcess(["-c", "import time; time.sleep(1000)"], env=os.environ, stdout=log, stderr=log)

    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    process.kill()
    assert (process.wait(_WITHIN_S), process.poll()) == (-9, -9)


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Nothing is left of a test process that was killed."""
    ignores = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    program = ignores + "print(os.getpid(), flush=True); signal.pause()"
    code = f"""
        import os, signal
        from pathlib import Path
        from tests.scenarios.waiting import until
        from tests.scenarios.warm import WarmProcess
        log = Path({str(tmp_path / "log")!r})
        with log.open("wb") as output:
            process = WarmProcess(["-c", {program!r}], env={{}}, stdout=output, stderr=output)
        until(lambda: log.read_bytes().endswith(b"\\n"), "the process runs")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=_WITHIN_S)

    pid = int((tmp_path / "log").read_text(encoding="utf-8"))
    until(lambda: not Path(f"/proc/{pid}").exists(), "the process has ended")
