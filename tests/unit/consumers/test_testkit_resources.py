"""HandlerKit opens what a handler class needs, sync or async, and has one event loop for all deliveries."""

import asyncio
import gc
from pathlib import Path
from typing import Any, Self
from unittest.mock import AsyncMock

import pytest

from kafka_redelivery import HandlerKit, Record
from kafka_redelivery.consumers.errors import HandlerLoadError
from tests.unit.consumers.test_testkit_from_config import ENVIRONMENT, TEXT

ECHO = """
import asyncio

class Shop:
    log = []

    async def __aenter__(self):
        self.echoed = asyncio.Event()
        self.server = await asyncio.start_server(self.echo, "127.0.0.1", 0)
        self.reader, self.writer = await asyncio.open_connection(*self.server.sockets[0].getsockname())
        self.log.append("entered")
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        await self.echoed.wait()
        self.server.close()
        self.log.append("left")

    async def __call__(self, record, context):
        self.writer.write(b"%d\\n" % context.attempt)
        context.send("receipts", {"answer": int(await self.reader.readline())})
        if record.value["fails"]:
            raise ValueError

    async def echo(self, reader, writer):
        while line := await reader.readline():
            writer.write(line)
        writer.close()
        self.echoed.set()
"""


class Opened:
    """A synchronous context manager."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __enter__(self) -> Self:
        self.log.append("entered")
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append("left")

    def __call__(self, _: Record) -> None:
        """Note the call."""
        self.log.append("called")


class AsyncOpened:
    """An asynchronous one."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def __aenter__(self) -> Self:
        self.log.append("entered")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("left")

    async def __call__(self, _: Record) -> None:
        """Note the call."""
        self.log.append("called")


def test_a_connection_lasts_over_all_deliveries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pooled client belongs to the loop on which it was opened."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "kit_echo_handlers.py").write_text(ECHO)
    (tmp_path / "redelivery.yaml").write_text(TEXT.replace("kit_handlers", "kit_echo_handlers"))
    with HandlerKit.from_config(tmp_path / "redelivery.yaml", source="orders", environment=ENVIRONMENT) as kit:
        log = kit.handler.log  # type: ignore[attr-defined] # the object
        assert log == ["entered"]
        for _ in range(2):
            [delivery] = kit.deliver({"fails": False})
            assert [output.value for output in delivery.outputs] == [b'{"answer":1}']
        assert [type(each.decision).__name__ for each in kit.deliver({"fails": True})] == ["Retry"] * 3 + ["DeadLetter"]
    assert log == ["entered", "left"]


@pytest.mark.parametrize("kind", [Opened, AsyncOpened])
def test_a_class_is_opened_once(kind: type[Any]) -> None:
    """At the first delivery, or at the start of a ``with`` statement, at whose end it is closed."""
    kit = HandlerKit(kind)
    for _ in range(2):
        kit.deliver(b"")
    assert kit.handler.log == ["entered", "called", "called"]  # type: ignore[attr-defined] # the object
    with HandlerKit(kind) as kit:
        assert kit.handler.log == ["entered"]  # type: ignore[attr-defined] # the object
        kit.deliver(b"")
    assert kit.handler.log == ["entered", "called", "left"]  # type: ignore[attr-defined] # the object


def test_an_object_is_entered_only_if_it_is_asynchronous() -> None:
    """The test cannot do that on the loop of the kit. It may have entered the other kind."""
    asynchronous, opened = AsyncOpened(), Opened()
    for handler in (asynchronous, opened):
        with HandlerKit(handler) as kit:
            kit.deliver(b"")
    assert asynchronous.log == ["entered", "called", "left"]
    assert opened.log == ["called"]


def test_a_mock_is_called_itself() -> None:
    """It has ``__aenter__``, which returns another mock."""
    handler = AsyncMock(side_effect=[ValueError, None])
    deliveries = HandlerKit(handler).deliver(b"")
    assert [type(each.decision).__name__ for each in deliveries] == ["Retry", "Ack"]
    assert handler.await_count == 2


def test_a_kit_that_is_not_closed_leaves_nothing_behind() -> None:
    """Neither a warning nor an open resource, also if it is garbage that is found while another loop runs."""
    handler = AsyncOpened()
    kit = HandlerKit(handler)
    kit.deliver(b"")
    kit.outputs = {"a cycle": kit}  # type: ignore[dict-item] # so that only the collector finds it
    del kit

    async def collect() -> None:
        gc.collect()

    asyncio.run(collect())
    assert handler.log == ["entered", "called", "left"]


def test_a_class_that_cannot_be_opened_is_an_error() -> None:
    """It is no failure of the record."""

    class Unlucky(AsyncOpened):
        async def __aenter__(self) -> Self:
            raise ConnectionError("database is down")

    with pytest.raises(HandlerLoadError, match="cannot be started: ConnectionError: database is down"):
        HandlerKit(Unlucky).deliver(b"")


def test_an_exit_is_a_failure_of_the_record() -> None:
    """Also in a task of the handler's own; the test run goes on."""

    async def leave() -> None:
        raise SystemExit(3)

    async def handle(_: Record) -> None:
        await asyncio.gather(leave(), asyncio.sleep(0))

    deliveries = HandlerKit(handle).deliver(b"")
    assert [type(each.decision).__name__ for each in deliveries] == ["Retry"] * 6 + ["DeadLetter"]
    assert {str(each.failure and each.failure.exception) for each in deliveries} == {"SystemExit"}
