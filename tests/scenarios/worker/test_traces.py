"""The life of a record is one linked story of spans, exported over OTLP: attempts, death, redrive, success."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from opentelemetry import trace

from kafka_redelivery import Batch, Context, Record
from kafka_redelivery.topology.wire.headers import LAST_ATTEMPT
from tests.scenarios.cluster import Sent
from tests.scenarios.collector import Collector, collecting
from tests.scenarios.deliveries import LOG
from tests.scenarios.handlers import OUTPUT
from tests.scenarios.redriving import dlq, dlq_json
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

REPAIRED = "repaired"
"""A file of this name beside the delivery log means that the handlers succeed."""

EVENT = [("ce_id", b"A234"), ("ce_type", b"shop.order.paid"), ("ce_time", b"2026-11-29T12:00:00Z")]
"""The headers of CloudEvents' binary mode."""


def charge_at(offset: int) -> None:
    """Handle a record within a span of the user."""
    with trace.get_tracer("shop").start_as_current_span(f"charge {offset}"):
        if not (Path(os.environ[LOG]).parent / REPAIRED).exists():
            raise ValueError("no card")


def charge(record: Record, context: Context) -> None:
    """Handle a record, and emit one."""
    charge_at(record.offset)
    context.send(os.environ[OUTPUT], b"paid")


def charge_all(batch: Batch) -> None:
    """The same with a batch."""
    for record in batch:
        try:
            charge_at(record.offset)
        except ValueError as error:
            batch.fail(record, error)
        else:
            batch.send(record, os.environ[OUTPUT], b"paid")


def _producer(number: int) -> str:
    return f"{number + 1:016x}"


def sent(number: int) -> Sent:
    """Make a record that its producer has traced."""
    traceparent = f"00-{number + 1:032x}-{_producer(number)}-01".encode()
    return Sent(b"{}", b"k%d" % number, [("traceparent", traceparent), *EVENT], 0)


@pytest.mark.parametrize(
    "handler",
    [
        {"callable": f"{__name__}:charge", "isolation": "process", "slots": 1},
        {"callable": f"{__name__}:charge_all", "batch": {"records": 10, "wait": "100ms"}},
    ],
    ids=["process", "batch"],
)
def test_the_life_of_a_record(group: Group, monkeypatch: pytest.MonkeyPatch, handler: dict[str, object]) -> None:
    """Three attempts, death, redrive and success are linked, whatever the handler is; CloudEvents arrive unchanged."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        policy = {"maximumRedeliveries": 2, "initialRedeliveryDelay": 0, "redeliveryDelay": 200}
        group.prepare(partitions=1, handler=handler, policyEntry={"redeliveryPolicy": policy})
        group.cluster.produce(group.source, [sent(number) for number in range(2)])
        group.worker()
        group.scheduler()
        until(lambda: len(group.cluster.read(group.dead_letters)) == 2, "both have died")

        letter = group.cluster.read(group.dead_letters)[0]
        assert letter.header("ce_id") == "A234"
        assert dlq_json(group, "summary", "--where", "headers['ce_type'] = 'shop.order.paid'")["letters"] == 2
        shown = json.loads(dlq(group, "show", f"{letter.topic}-0@{letter.offset}", "--json").out)
        assert shown["traceId"] == (letter.header(LAST_ATTEMPT) or "").split("-")[1]

        (group.folder / REPAIRED).touch()
        assert dlq_json(group, "redrive", "--yes")["sent"] == 2
        until(lambda: len(group.cluster.read(group.output)) == 2, "both have succeeded")
        group.stop()
    for ready in group.cluster.read(group.ready):
        assert [each for each in ready.headers if each[0].startswith("ce_")] == EVENT
        assert [name for name, _ in ready.headers].count("traceparent") == 1
    for number in range(2):
        check_story(group, collector, number, batch="batch" in handler)


def check_story(group: Group, collector: Collector, number: int, *, batch: bool) -> None:
    """Check the spans of a record."""
    message_id = f"{group.source}-0@{number}"
    story = collector.of_record(f"process {group.source}", message_id)
    assert len(story) == 4, [*map(str, story)]
    for before, span in zip((None, *story), story, strict=False):
        own = [link for link in span.links if link.message_id in {"", message_id}]
        wanted = {("producer", _producer(number))} | ({("last_attempt", before.id)} if before else set())
        assert {(link.kind, link.span) for link in own} == wanted
        assert span.service == group.name
        if not batch:
            assert (span.trace, span.parent) == (f"{number + 1:032x}", _producer(number))
    assert [each.failed for each in story] == ([False] * 4 if batch else [True, True, True, False])
    charges = collector.spans(f"charge {number}")
    assert [each.parent for each in charges] == [each.id for each in story], "the user's own spans are its children"
    outputs = [(each.header("traceparent") or "").split("-")[1:3] for each in group.cluster.read(group.output)]
    assert [story[-1].trace, story[-1].id] in outputs
