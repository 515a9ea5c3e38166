"""A broker and its temporary directory do not outlive the process that started it, even if that process is killed."""

import itertools
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.scenarios.waiting import until

_ONE = """
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
broker = EmbeddedKafka()
broker.start()
print(broker.pid, broker.log.parent)
"""
_THREE = """
from tests.crash.brokers.nodes import Nodes
cluster = Nodes(3, heap_mb=256)
cluster.start()
for broker in cluster.nodes.values():
    print(broker.pid, broker.log.parent)
"""
_WAIT = """
import time
print(flush=True)
time.sleep(600)
"""


def _running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    "start", [_ONE, pytest.param(_THREE, marks=[pytest.mark.crash, pytest.mark.full])], ids=["one", "three"]
)
def test_kill_9_of_the_parent_ends_the_brokers(start: str) -> None:
    """Seconds after SIGKILL of the parent, each Java process and its directory are gone."""
    with subprocess.Popen([sys.executable, "-c", start + _WAIT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        lines = itertools.takewhile(str.strip, parent.stdout)
        brokers = [(int(pid), Path(home)) for pid, home in map(str.split, lines)]
        assert all(_running(pid) and home.is_dir() for pid, home in brokers)
        parent.kill()

    assert brokers
    until(lambda: not any(_running(pid) or home.exists() for pid, home in brokers), "all of them are gone")
