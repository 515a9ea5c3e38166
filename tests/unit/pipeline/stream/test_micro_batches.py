"""A micro-batch whose tasks fail runs again; the query ends with what made them fail."""

import json
from datetime import timedelta
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kafka_redelivery.consumers.flow.control import NoTopics
from kafka_redelivery.pipeline.errors import StreamHaltedError
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.stream import micro_batches
from kafka_redelivery.pipeline.stream.lost_positions import RecordsDeletedError
from kafka_redelivery.pipeline.stream.micro_batches import MicroBatches, QueryEndedError
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.worker.test_pausing import Switch

_SETTINGS = {
    "handler": {"callable": "h:h"},
    "group": "g",
    "kafka": {"bootstrap.servers": "k:9092"},
    "sources": [{"topic": "s"}],
}
_WORKER = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the attempts, which do not wait for each other."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", clock)
    monkeypatch.setattr(micro_batches, "_RETRY_PAUSE_S", 0)
    return clock


@pytest.mark.parametrize("seconds", [20, 40])
def test_tasks_that_fail_for_a_minute_end_the_query(clock: Clock, seconds: float) -> None:
    """However long an attempt takes. The error does not blame writes, which may not have been tried."""
    ended = _ended(clock, f"{_WORKER}OSError: no space", seconds)

    assert (
        str(ended)
        == "every attempt of the micro-batch in the last 60 s failed, the last one because: OSError: no space"
    )


@pytest.mark.parametrize(
    "cause",
    [
        "ModuleNotFoundError: No module named 'kafka_redelivery'",
        "pyspark.errors.exceptions.base.PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow >= 18 must be installed",
    ],
)
def test_an_executor_without_the_packages_ends_the_query_at_once(clock: Clock, cause: str) -> None:
    """The error says where to read what executors need."""
    ended = _ended(clock, f"{_WORKER}{cause}")

    assert cause in str(ended)
    assert "'On a cluster' of docs/spark.md" in str(ended)


def test_a_transformation_is_told_that_an_attempt_has_failed(clock: Clock) -> None:
    """The next one does not give it records that cannot be decoded, which may be why."""
    del clock
    frame, computes, others, shutdown = MagicMock(), MagicMock(), MagicMock(), Shutdown(timedelta(seconds=25))
    frame.sparkSession.sparkContext.defaultParallelism = 2
    collect = computes.outcomes.return_value.mapInArrow.return_value.collect
    collect.side_effect = [RuntimeError("CAST_INVALID_INPUT"), []]
    gate, topics = PauseGate(Switch(), ["s"], shutdown), ReadTopics(["s"], NoTopics())
    config = HandlerConfig(load_settings(json.dumps(_SETTINGS)), Path(), (), 0, "")
    batches = MicroBatches(config, others, {}, others, shutdown, gate, topics, computes)

    batches(frame, 0)
    collect.side_effect = [[]]
    batches(frame, 1)

    assert [each.kwargs["again"] for each in computes.outcomes.call_args_list] == [False, True, False]


def _ended(clock: Clock, message: str, seconds: float = 20) -> Exception | None:
    """Return the error of a query whose tasks fail with a message after so many seconds."""

    def fail() -> None:
        clock.advance(seconds)
        raise RuntimeError(message)

    frame = MagicMock()
    frame.sparkSession.sparkContext.defaultParallelism = 2
    frame.coalesce.return_value.mapInArrow.return_value.collect = fail
    shutdown, others = Shutdown(timedelta(seconds=25)), MagicMock()
    config = HandlerConfig(load_settings(json.dumps(_SETTINGS)), Path(), (), 0, "")
    gate, topics = PauseGate(Switch(), ["s"], shutdown), ReadTopics(["s"], NoTopics())
    batches = MicroBatches(config, others, {}, others, shutdown, gate, topics)
    with pytest.raises(QueryEndedError):
        batches(frame, 0)
    assert isinstance(batches.failure, StreamHaltedError)
    assert not batches.settled, "the tasks may still run"
    return batches.failure


def test_offsets_of_an_older_topic_are_not_read() -> None:
    """No task is started at offsets that Spark has chosen before it could know that the topic was created again."""
    watch, frame, shutdown = MagicMock(), MagicMock(), Shutdown(timedelta(seconds=25))
    topics = ReadTopics(["s"], watch)
    topics.found = {"s": FoundTopic(1, "AAAA11111111")}
    config = HandlerConfig(load_settings(json.dumps(_SETTINGS)), Path(), (), 0, "")
    gate = PauseGate(Switch(), ["s"], shutdown)
    batches = MicroBatches(config, MagicMock(), {}, MagicMock(), shutdown, gate, topics)
    watch.look.return_value = {"s": FoundTopic(1, "AAAA22222222")}
    with pytest.raises(QueryEndedError):
        batches(frame, 0)
    assert isinstance(batches.failure, RecordsDeletedError)
    assert not frame.coalesce.called
    assert batches.settled
