"""A shutdown does not wait until the group is joined."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from kafka_redelivery.pipeline.stream.membership import Membership, StoppedJoiningError
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.topology.config.loading import load_settings

_SETTINGS = {
    "group": "g",
    "kafka": {"bootstrap.servers": "k:1"},
    "sources": [{"topic": "s"}],
    "handler": {"callable": "h:h"},
}
_WITHIN_S = 60
"""Half of the time that joining may take."""


def test_a_cancelled_micro_batch_does_not_wait_for_the_membership() -> None:
    """It may wait while the shutdown gives it time."""
    shutdown = Shutdown(timedelta(seconds=3.5))
    with ThreadPoolExecutor(1) as executor, shutdown.micro_batch():
        waiting = executor.submit(_joining(shutdown).member)
        shutdown.request()
        assert not waiting.done()

        assert not shutdown.wait_for_micro_batch()

        with pytest.raises(StoppedJoiningError, match="before group g was joined"):
            waiting.result(_WITHIN_S)


def test_without_a_micro_batch_a_request_is_enough() -> None:
    """As while the query starts."""
    shutdown = Shutdown(timedelta(seconds=25))
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(_joining(shutdown).member)
        shutdown.request()

        with pytest.raises(StoppedJoiningError):
            waiting.result(_WITHIN_S)


def _joining(shutdown: Shutdown) -> Membership:
    return Membership(load_settings(json.dumps(_SETTINGS)), frozenset(), shutdown)
