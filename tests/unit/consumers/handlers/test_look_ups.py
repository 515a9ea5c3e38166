"""Look-ups for an asynchronous handler: the other calls of its event loop go on, and no call is repeated."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kafka_redelivery import Batch, Context, Record
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import PROGRAM_ENDS
from kafka_redelivery.serdes.build import SerdeSettings, build_codec
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.transport.admin.topics import TopicMetadataCache
from tests.unit.consumers.records import NOW, item, record, route, source
from tests.unit.serdes.conftest import Registry, registry  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("one_slice")

_WITHIN_S = 30.0
_SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}
_ONE = b"\0\0\0\0\x07\x02"


class _Slow:
    """Answers of a registry and a cluster that come only after the event loop has run once more."""

    def __init__(self, registry: Registry) -> None:  # noqa: F811
        registry.add(7, _SCHEMA)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.answers = 0
        answer = registry.answer

        def after_the_loop(method: str, path: str, body: bytes) -> tuple[int, object]:
            self.wait()
            return answer(method, path, body)

        registry.answer = after_the_loop  # type: ignore[method-assign]

    def wait(self) -> None:
        ran = threading.Event()
        assert self.loop is not None
        self.loop.call_soon_threadsafe(ran.set)
        assert ran.wait(_WITHIN_S), "the event loop stands still"
        self.answers += 1


def _codec(registry: Registry, **more: Any) -> Codec:  # noqa: F811, ANN401 - settings
    return build_codec(SerdeSettings("avro", registry={"url": registry.url, "max.retries": 0}, **more))


def _handled(slow: _Slow, handler: Any, given: WorkItem, output: Codec, topics: TopicMetadataCache | None) -> WorkItem:  # noqa: ANN401
    loaded = as_handler(handler)
    given.batch = loaded.batch

    async def run() -> None:
        slow.loop = asyncio.get_running_loop()
        processor = processor_of(loaded, {"log": (RawCodec(), output)}, lambda: NOW, None, topics)
        await processor.run_async(given)

    asyncio.run(run())
    return given


def _of_one(calls: list[int]) -> Any:  # noqa: ANN401 - a handler
    async def handle(record: Record, context: Context) -> None:
        await asyncio.sleep(0)
        calls.append(record.value["n"])
        context.send("log", record.value)

    return handle


def _of_batch(calls: list[int]) -> Any:  # noqa: ANN401 - a handler
    async def handle(batch: Batch) -> None:
        await asyncio.sleep(0)
        for each in batch:
            calls.append(each.value["n"])
            batch.send(each, "log", each.value)

    return handle


@pytest.mark.parametrize("make", [_of_one, _of_batch], ids=["one", "batch"])
def test_a_loop_goes_on_while_schemas_and_topics_are_looked_up(
    registry: Registry,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    make: Any,  # noqa: ANN401 - a function
) -> None:
    """The schema to read with, the one to write with, and the topic of the output; each record is handled once."""
    slow = _Slow(registry)
    topics = TopicMetadataCache({"bootstrap.servers": "127.0.0.1:1"})

    def ask(topic: str) -> None:
        slow.wait()
        topics._counts[topic] = 3

    monkeypatch.setattr(topics, "_ask", ask)
    calls: list[int] = []
    of = source(route(value=_codec(registry)))
    given = item(of, [record(0, _ONE), record(1, _ONE)])
    _handled(slow, make(calls), given, _codec(registry, subject="flights-value"), topics)
    assert calls == [1, 1]
    assert (given.position, given.failures, given.held) == (2, [], "")
    assert [[each.value for each in sent] for _, sent in given.outputs] == [[_ONE], [_ONE]]
    assert slow.answers >= 3


def test_a_registry_that_is_away_holds_the_record(registry: Registry) -> None:  # noqa: F811
    """As for a synchronous handler: it has no outcome."""
    slow = _Slow(registry)
    registry.instead = 503, b""
    given = item(source(route(value=_codec(registry))), [record(0, _ONE)])
    _handled(slow, _of_one([]), given, RawCodec(), None)
    assert (given.position, given.failures) == (0, [])
    assert registry.url in given.held


def test_a_loop_that_ends_meanwhile_holds_the_record(registry: Registry) -> None:  # noqa: F811
    """Its task is cancelled while a thread waits for the registry."""
    registry.add(7, _SCHEMA)
    registry.seconds = 0.2
    given = item(source(route(value=_codec(registry))), [record(0, _ONE)])
    processor = processor_of(as_handler(_of_one([])), {}, lambda: NOW, None)

    async def run() -> None:
        task = asyncio.create_task(processor.run_async(given))
        await asyncio.sleep(0)  # the task begins
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
    assert (given.position, given.held) == (0, PROGRAM_ENDS)
