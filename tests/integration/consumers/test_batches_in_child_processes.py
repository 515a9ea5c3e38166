"""Batches in child processes: the outcomes of each record come back, and a death decides about none of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import pytest

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.child_process_pool import ChildProcessPool, load_as_configured
from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.topology.config.settings import BatchSection, HandlerSection, Isolation
from kafka_redelivery.topology.policy.decision import FailureDetails, FailureKind
from tests.unit.consumers.records import NOW, item, lineage, ready, record, redelivery, route, source

HERE = "tests.unit.consumers.child_handlers"


@contextmanager
def children(function: str = "act_together", deadline: timedelta | None = None) -> Iterator[ChildProcessPool]:
    """A pool with one child for batches, closed afterwards."""
    found = ChildProcessPool(HandlerSection(callable=f"{HERE}:{function}", batch=BatchSection(), deadline=deadline))
    try:
        yield found
    finally:
        found.close()


def handled(found: ChildProcessPool, values: Sequence[str], *, batch: bool = True) -> WorkItem:
    """Handle records with these values."""
    messages = [record(n, b'"%s"' % value.encode()) for n, value in enumerate(values)]
    given = item(source(route(value=JsonCodec())), messages)
    given.batch = batch
    processor = processor_of(found.handler(), {}, lambda: NOW, None)
    processor.run(given)
    while not batch and given.position < len(given.messages):  # its slice of time was over
        processor.run(given)
    return given


def kinds(given: WorkItem) -> dict[int, FailureKind]:
    """The failures of a work item."""
    return {index: failure.kind for index, failure in given.failures}


@pytest.mark.parametrize("function", ["act_together", "act_together_async"])
def test_outcomes_and_outputs_come_back(function: str) -> None:
    """Each with its record, also of batches of one."""
    with children(function) as found:
        given = handled(found, ["ok", "raise", "reject", "ok"])
        assert kinds(given) == {1: FailureKind.RAISED, 2: FailureKind.REJECTED}
        assert [index for index, _ in given.outputs] == [0, 3]
        assert given.position == 4
        again = handled(found, ["ok", "raise", "reject", "ok"], batch=False)
        assert (kinds(again), again.outputs) == (kinds(given), given.outputs)


def test_the_child_knows_the_attempt_of_each_record() -> None:
    """They differ in a batch."""
    with children("tell_attempts") as found:
        given = item(
            ready(route(value=JsonCodec())), [redelivery(n, lineage(40 + n, deliveries=n + 1), b"1") for n in range(2)]
        )
        given.batch = True
        processor_of(found.handler(), {}, lambda: NOW, None).run(given)
        assert [[each.value for each in outputs] for _, outputs in given.outputs] == [[b"2"], [b"3"]]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("kill", FailureKind.DIED),
        ("sleep", FailureKind.DEADLINE),
        ("raise for all", FailureKind.RAISED),
        ("unpicklable", FailureKind.RAISED),
        ("unreadable", FailureKind.RAISED),
    ],
)
def test_a_call_that_decides_about_no_record(value: str, kind: FailureKind) -> None:
    """Of several records it is handled again one by one, where it fails its record alone."""
    with children(deadline=timedelta(seconds=1)) as found:
        given = handled(found, ["ok", value])
        assert (given.position, given.batch) == (0, False)
        assert kinds(handled(found, [value])) == {0: kind}
        assert kinds(handled(found, ["ok"])) == {}


def test_an_annotation_alone_is_not_enough() -> None:
    """The parent does not import the handler."""
    section = HandlerSection(callable=f"{HERE}:act_together", isolation=Isolation.PROCESS)
    with (
        ExitStack() as stack,
        pytest.raises(HandlerLoadError, match="takes a Batch, which with isolation"),
    ):
        load_as_configured(section, stack, FailureDetails.FULL)
