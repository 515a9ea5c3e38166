"""One worker cannot reach a node, all others can: nothing is lost, duplicated, early or out of order."""

import time

import pytest

from tests.crash.brokers.play import Play, Record
from tests.crash.brokers.proxies import HOST, Proxy
from tests.crash.brokers.three import Three

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

_CUT_S = 15.0
"""Longer than the sessions of the group and than the time-out of its transactions."""


def test_cut_off(play: Play, three: Three, proxies: dict[int, Proxy], record_property: Record, protocol: str) -> None:
    """Each node in turn; so one of them is the group's coordinator, one that of the worker's transactions."""
    began_s = time.monotonic()
    play.prepare()
    servers = ",".join(f"{HOST}:{proxy.port}" for proxy in proxies.values())
    worker = play.start(f"kafka.bootstrap.servers={servers}")
    with play.load():
        for node in three.nodes:
            with proxies[node].cut():
                time.sleep(_CUT_S)
                assert worker.running, worker.log[-3000:]
            play.goes_on()
    assert {call.pid for call in play.group.deliveries.began()} >= {worker.pid}
    play.finish(record_property, f"node cut off from one worker, {protocol}", began_s)
