"""Signals stop a query in the main thread, and leave one in any other thread alone."""

import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from kafka_redelivery.pipeline.stream.shutdown import shutdown_on_signals
from tests.scenarios.waiting import until

_TIMEOUT = timedelta(seconds=25)


def test_a_signal_requests_the_shutdown() -> None:
    """Afterwards it is handled as before."""
    before = signal.getsignal(signal.SIGTERM)
    with shutdown_on_signals(_TIMEOUT, None) as shutdown:
        signal.raise_signal(signal.SIGTERM)
        until(lambda: shutdown.requested, "the signal is handled")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_query_in_another_thread_leaves_signals_alone() -> None:
    """As several queries of one application have it; Python lets only the main thread handle signals."""
    before = signal.getsignal(signal.SIGTERM)

    def query() -> bool:
        with shutdown_on_signals(_TIMEOUT, None) as shutdown:
            assert signal.getsignal(signal.SIGTERM) is before
            return shutdown.requested

    with ThreadPoolExecutor(1) as executor:
        assert not executor.submit(query).result(60)
