"""The lines that a handler logs say which record it has, and at which attempt."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafka_redelivery import DeliveryFilter
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.telemetry import logs
from kafka_redelivery.consumers.telemetry.logs import JsonFormatter, handled
from kafka_redelivery.serdes.codec import RawCodec
from tests.unit.consumers.failing_handlers import run
from tests.unit.consumers.records import NOW, item, lineage, ready, record, redelivery, route, source

_log = logging.getLogger("shop")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[tuple[str, object, object]]]:
    """The lines of the test: message, origin and attempt."""
    found: list[tuple[str, object, object]] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append((record.getMessage(), vars(record)["origin"], vars(record)["attempt"]))

    handler = Collecting()
    handler.addFilter(DeliveryFilter())
    root = logging.getLogger()
    root.addHandler(handler)
    with caplog.at_level(logging.INFO):
        yield found
    root.removeHandler(handler)


def charge(found: Record) -> None:
    """Log, and fail for one value."""
    _log.info("charged %s", found.offset)
    if found.raw_value == b"bad":
        raise ValueError("bad")


def test_a_line_of_a_handler_names_its_record(lines: list[tuple[str, object, object]]) -> None:
    """A redelivery has the id of its source record. A line before or after the call names none."""
    run(charge, record(4), record(5))
    run(charge, redelivery(9, lineage(42, deliveries=2)), of=ready())
    _log.info("outside")
    assert lines == [
        ("charged 4", "orders-0@4", 1),
        ("charged 5", "orders-0@5", 1),
        ("charged 42", "orders-5@42", 3),
        ("outside", "-", "-"),
    ]


def test_the_traceback_of_a_failure_names_the_record(lines: list[tuple[str, object, object]]) -> None:
    """It is logged by the slot, after the handler has ended."""
    run(charge, record(4, b"bad"))
    assert [line[1:] for line in lines] == [("orders-0@4", 1)] * 2
    assert "raised" in lines[1][0]


def test_a_codec_does_not_log_for_the_record_before(lines: list[tuple[str, object, object]]) -> None:
    """A record is decoded before its call."""

    class Logging(RawCodec):
        def decode(self, data: bytes | None) -> bytes | None:
            _log.info("decoded")
            return data

    run(charge, record(4), record(5), of=source(route(value=Logging())))
    assert [line[1] for line in lines] == ["-", "orders-0@4", "-", "orders-0@5"]


def test_calls_on_one_loop_do_not_mix(lines: list[tuple[str, object, object]]) -> None:
    """Each has a task; what a call starts inherits its record."""

    async def inner(number: int) -> None:
        await asyncio.sleep(0.01)
        _log.info("inner %d", number)

    async def handle(found: Record) -> None:
        await asyncio.sleep(0.01)
        _log.info("outer %d", found.offset)
        await asyncio.create_task(inner(found.offset))

    processor = Processor(as_handler(handle), {}, lambda: NOW, None)

    async def both() -> None:
        await asyncio.gather(*(processor.run_async(item(source(), [record(offset)])) for offset in (1, 2)))

    asyncio.run(both())
    assert sorted(lines) == [
        (f"{which} {number}", f"orders-0@{number}", 1) for which in ("inner", "outer") for number in (1, 2)
    ]


def test_nothing_is_noted_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a filter or a log in JSON a record costs no more."""
    monkeypatch.setattr(logs._Readers, "exist", False)
    found: list[object] = []
    run(lambda _: found.append(handled.get()), record(4))
    JsonFormatter()
    run(lambda _: found.append(handled.get()), record(4))
    assert found[0] is None
    assert found[1] is not None


def test_a_line_in_json_has_fields() -> None:
    """They are absent where there is no record, and the extras of a line win."""

    def fields(**extra: object) -> dict[str, object]:
        made = logging.makeLogRecord({"msg": "x", **extra})
        found: dict[str, object] = json.loads(JsonFormatter().format(made))
        return {name: found[name] for name in ("origin", "attempt") if name in found}

    assert fields() == {}
    token = handled.set((Record("orders", 0, 4, None, None, None, None, (), 0), 2))
    try:
        assert fields() == {"origin": "orders-0@4", "attempt": 2}
        assert fields(attempt=7) == {"origin": "orders-0@4", "attempt": 7}
    finally:
        handled.reset(token)


_HOST = """
import logging, logging.config
from kafka_redelivery import HandlerKit
from kafka_redelivery.cli.options import LogFormat, LogLevel, begin_log

def configure():
    logging.config.dictConfig({
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"delivery": {"()": "kafka_redelivery.DeliveryFilter"}},
        "formatters": {"host": {"format": "HOST %(name)s %(origin)s %(attempt)s %(message)s"}},
        "handlers": {"out": {"class": "logging.StreamHandler", "filters": ["delivery"], "formatter": "host",
                             "stream": "ext://sys.stdout"}},
        "root": {"level": "INFO", "handlers": ["out"]},
    })

def handle(record):
    logging.getLogger("shop").info("charged")

"""


@pytest.mark.parametrize("order", [("begin", "configure"), ("configure", "begin")])
def test_the_configuration_of_the_host_stays_in_charge(order: tuple[str, str]) -> None:
    """Whether its module is imported by a command, which has set up a log before, or it calls us: each line is its."""
    calls = {"begin": "begin_log(LogLevel.INFO, LogFormat.TEXT)", "configure": "configure()"}
    program = "\n".join([_HOST, *(calls[each] for each in order), "HandlerKit(handle, topic='orders').deliver(b'x')"])
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("HOST shop orders-0@0 1 charged\n", "")
