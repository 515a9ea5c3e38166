"""A node of three is killed while writes are under way: nothing is lost, duplicated, early or out of order."""

import time

import pytest

from tests.crash.brokers.play import Play, Record
from tests.crash.brokers.three import Three

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("what", "protocol"),
    [
        ("leader", "classic"),
        ("leader", "consumer"),
        ("controller", "classic"),
        ("controller", "consumer"),
    ],
    indirect=["protocol"],
)
def test_killed(play: Play, three: Three, record_property: Record, what: str, protocol: str) -> None:
    """The leader of a ready partition, or the active controller, dies by SIGKILL and comes back."""
    began_s = time.monotonic()
    play.prepare()
    play.start()
    with play.load():
        node = three.controller() if what == "controller" else three.leader(play.group.ready)
        three.nodes[node].kill()
        play.goes_on()
        assert what != "controller" or three.controller() != node
        three.heal()
        play.goes_on()
    play.finish(record_property, f"{what} killed, {protocol}", began_s)
