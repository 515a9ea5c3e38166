"""All three nodes are restarted one after the other: nothing is lost, duplicated, early or out of order."""

import time

import pytest

from tests.crash.brokers.play import Play, Record
from tests.crash.brokers.three import Three

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_rolling_restart(play: Play, three: Three, record_property: Record, protocol: str) -> None:
    """Each node is shut down in order, and the next one when all replicas are in sync."""
    began_s = time.monotonic()
    play.prepare()
    play.start()
    with play.load():
        for node in three.nodes:
            three.restart(node)
            play.goes_on()
    play.finish(record_property, f"rolling restart, {protocol}", began_s)
