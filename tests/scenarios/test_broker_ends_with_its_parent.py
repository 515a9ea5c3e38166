"""A broker and its temporary directory do not outlive the process that started it, even if that process is killed."""

import subprocess
import sys
import time
from pathlib import Path

import psutil

_PARENT = """
import time
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
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
    """Seconds after SIGKILL of the parent, the Java process and its directory are gone."""
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        fields = parent.stdout.readline().split()
        pid, home = int(fields[0]), Path(fields[1])
        assert _running(pid)
        assert home.is_dir()
        parent.kill()

    deadline = time.monotonic() + 20
    while (_running(pid) or home.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not _running(pid)
    assert not home.exists()
