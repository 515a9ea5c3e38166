"""The disk of a node is full: nothing is lost, duplicated, early or out of order."""

import time

import pytest

from tests.crash.brokers.play import Play, Record
from tests.crash.brokers.small_disk import SmallDisk
from tests.crash.brokers.three import Three
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_full_disk(play: Play, three: Three, disk: SmallDisk | None, record_property: Record, protocol: str) -> None:
    """The node fails at a write and ends. The disk gets space, and the node is started again."""
    if disk is None:
        pytest.skip("mounting a small file system needs root")
    began_s, node = time.monotonic(), max(three.nodes)
    play.prepare()
    play.start()
    with play.load():
        with disk.full():
            until(lambda: not three.nodes[node].running, "the node ends")
            assert "No space left on device" in three.nodes[node].log.read_text(errors="replace")
            play.goes_on()
        three.heal()
        play.goes_on()
    play.finish(record_property, f"disk full, {protocol}", began_s)
