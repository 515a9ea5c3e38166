"""A broker and its temporary directory do not outlive the process that started it, even one that is killed."""

import subprocess
import sys
import time
from pathlib import Path

import psutil

_PARENT = """
import time
from transport.embedded import EmbeddedKafka
broker = EmbeddedKafka()
broker.start()
print(broker.pid, broker.log.parent, flush=True)
time.sleep(600)
"""


def _running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_kill_9_of_the_parent_ends_the_broker() -> None:
    """Seconds after kill -9 of the parent the Java process is gone, and its directory with it."""
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        told = parent.stdout.readline().split()
        pid, home = int(told[0]), Path(told[1])
        assert _running(pid)
        assert home.is_dir()
        parent.kill()

    deadline = time.monotonic() + 20
    while (_running(pid) or home.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not _running(pid)
    assert not home.exists()
