"""How a run with a time limit ends: no micro-batch begins after it, and the running one has some time to end."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest

from kafka_redelivery.pipeline.errors import StreamHaltedError, StreamUnsettledError
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.pipeline.stream.queries import end_in_time, registries_away
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.pauses import PausedTopics
from tests.scenarios.waiting import until
from tests.unit.consumers.worker.test_pausing import Switch

BILLS = PausedTopics(topics=frozenset({"bills"}), end=3)


class Query:
    """A query with one micro-batch, which a thread of Spark runs until ``end`` is set."""

    def __init__(self) -> None:
        self.shutdown = Shutdown(timedelta(seconds=4))  # of which one second is for the micro-batch
        self.switch = Switch()
        self.gate = PauseGate(self.switch, ["bills"], self.shutdown)
        self.running, self.end = threading.Event(), threading.Event()
        self.refused: list[StreamHaltedError] = []
        self.stopped = False
        self._thread = threading.Thread(target=self._run)

    def start(self) -> "Query":
        self._thread.start()
        return self

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self) -> None:
        self.stopped = True
        if self.shutdown.cancelled:
            self.end.set()  # as Spark cancels its job
        self._thread.join(60)

    def _run(self) -> None:
        self.gate.wait()
        try:
            with self.shutdown.micro_batch():
                self.running.set()
                self.end.wait(60)
        except StreamHaltedError as error:
            self.refused.append(error)


def end(query: Query) -> None:
    """End the query as at the limit."""
    spark: Any = query
    end_in_time(spark, query.shutdown, query.gate)


def test_a_micro_batch_that_ends_in_time() -> None:
    """The query ends by itself, and the run has settled."""
    query = Query().start()
    until(query.running.is_set, "the micro-batch runs")
    query.end.set()
    end(query)
    assert (query.stopped, query.shutdown.cancelled) == (False, False)


def test_a_micro_batch_that_does_not_end_is_cancelled() -> None:
    """As one whose records wait for a schema registry."""
    query = Query().start()
    until(query.running.is_set, "the micro-batch runs")
    with pytest.raises(StreamUnsettledError, match="a micro-batch was still running, and was cancelled"):
        end(query)
    assert (query.stopped, query.shutdown.cancelled) == (True, True)


def test_a_registry_that_does_not_answer_is_named() -> None:
    """With its address and error: more time would not help."""
    query = Query().start()
    until(query.running.is_set, "the micro-batch runs")
    value = {"format": "avro", "registry": {"url": "http://127.0.0.1:1"}}
    document = {"group": "g", "kafka": {"bootstrap.servers": "nowhere"}, "sources": [{"topic": "t", "value": value}]}
    spark: Any = query
    with pytest.raises(StreamUnsettledError, match=r"cancelled: .*registry http://127\.0\.0\.1:1 .*[Cc]onnect"):
        end_in_time(spark, query.shutdown, query.gate, (), lambda: registries_away(load_settings(json.dumps(document))))


def test_a_micro_batch_that_waits_for_the_end_of_a_pause_does_not_begin() -> None:
    """The error names what is paused."""
    query = Query()
    query.switch.current = BILLS
    query.start()
    until(lambda: query.gate.waiting, "it waits")
    with pytest.raises(StreamUnsettledError, match=r"a pause of bills \(see `redelivery status`\)"):
        end(query)
    assert len(query.refused) == 1
    assert not query.running.is_set()
