"""The coordinators of a group and of its transactions move: nothing is lost, duplicated, early or out of order."""

import time

import pytest

from tests.crash.brokers.play import Play, Record
from tests.crash.brokers.three import Three

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

_TOPICS = ("__consumer_offsets", "__transaction_state")


@pytest.mark.parametrize("whose", ["group", "transactions"])
def test_moved(play: Play, three: Three, record_property: Record, whose: str, protocol: str) -> None:
    """Its node is killed; when it is back, an election returns all coordinators to it while both nodes run."""
    began_s = time.monotonic()
    play.prepare()
    play.start()
    with play.load():
        node = _coordinator(play, three, whose)
        three.nodes[node].kill()
        play.goes_on()
        assert _coordinator(play, three, whose) != node
        three.heal()
        assert three.lead_by_preference(_TOPICS), "no coordinator moved"
        play.goes_on()
    play.finish(record_property, f"coordinator of {whose} moved, {protocol}", began_s)


def _coordinator(play: Play, three: Three, whose: str) -> int:
    name = play.group.name
    return three.group_coordinator(name) if whose == "group" else three.transaction_coordinator(f"{name}.worker.one")
