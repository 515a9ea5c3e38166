"""A batch handler in a slot: what it gets, and which outcomes a work item has after its call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kafka_redelivery import Batch
from kafka_redelivery.consumers.errors import HandlerUnavailable
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.serdes.codec import Codec, JsonCodec
from kafka_redelivery.serdes.errors import SchemaSourceUnavailable
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from tests.unit.consumers.records import NOW, Fetched, item, lineage, ready, record, redelivery, route, source

pytestmark = pytest.mark.usefixtures("one_slice")

JSON = JsonCodec()


def run(
    handler: Callable[..., Any],
    *messages: Fetched,
    of: AssignedPartition | None = None,
    outputs: dict[str, tuple[Codec, Codec]] | None = None,
    deadline: timedelta | None = None,
    before: Callable[[WorkItem], None] = lambda _: None,
) -> WorkItem:
    """Handle records in one call, and return their work item."""
    given = item(source() if of is None else of, messages)
    given.batch = True
    before(given)
    loaded = as_handler(handler)
    processor = processor_of(loaded, outputs or {}, lambda: NOW, deadline)
    if loaded.asynchronous:
        asyncio.run(processor.run_async(given))
    else:
        processor.run(given)
    return given


def kinds(given: WorkItem) -> dict[int, FailureKind]:
    """The failures of a work item."""
    return {index: failure.kind for index, failure in given.failures}


class TestWhatReachesTheHandler:
    """Faulty records do not."""

    def test_records_that_cannot_be_decoded_or_have_expired_fail_before(self) -> None:
        """The others come in one batch."""
        seen: list[list[object]] = []

        def handle(batch: Batch[object]) -> None:
            seen.append([each.value for each in batch])
            batch.fail(batch[1], ValueError("second"))

        given = run(
            handle,
            record(0, b"0"),
            record(1, b"{"),
            record(2, b"2"),
            record(3, b"3", headers=[("JMSExpiration", b"%d" % (NOW - 1))]),
            record(4, b"4"),
            of=source(route(value=JSON)),
        )
        assert seen == [[0, 2, 4]]
        assert given.position == 5
        assert kinds(given) == {1: FailureKind.UNDECODABLE, 2: FailureKind.RAISED, 3: FailureKind.EXPIRED}
        assert [index for index, _ in given.failures] == [1, 2, 3]
        assert len(given.seconds) == 1

    def test_no_record_is_left(self) -> None:
        """The handler is not called."""

        def handle(batch: Batch[object]) -> None:
            raise AssertionError(batch)

        given = run(handle, record(0, b"{"), record(1, b"{"), of=source(route(value=JSON)))
        assert kinds(given) == {0: FailureKind.UNDECODABLE, 1: FailureKind.UNDECODABLE}
        assert (given.position, given.seconds) == (2, [])

    def test_redeliveries_have_their_attempts_and_lineages(self) -> None:
        """One for each record that has its outcome, also for one that has expired."""
        attempts: list[int] = []

        def handle(batch: Batch[object]) -> None:
            attempts.extend(map(batch.attempt, batch))

        given = run(
            handle,
            redelivery(0, lineage(40, deliveries=1)),
            redelivery(1, lineage(41, deliveries=2), own=[("JMSExpiration", b"%d" % (NOW - 1))]),
            redelivery(2, lineage(42, deliveries=3)),
            of=ready(),
        )
        assert attempts == [2, 4]
        assert [each.offset for each in given.lineages] == [40, 41, 42]
        assert [index for index, _ in given.lateness] == [0, 2]
        assert kinds(given) == {1: FailureKind.EXPIRED}

    def test_a_stopped_item_is_not_started(self) -> None:
        """It is still a batch when it comes back."""

        def handle(batch: Batch[object]) -> None:
            raise AssertionError(batch)

        def stop(given: WorkItem) -> None:
            given.stop = True

        given = run(handle, record(0), record(1), before=stop)
        assert (given.position, given.batch, given.held) == (0, True, "")


class TestCallsThatDecideAboutNoRecord:
    """The item comes back without outcomes, and is no batch any more."""

    @pytest.mark.parametrize("error", [ValueError(), MemoryError(), SystemExit(), asyncio.CancelledError()])
    @pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
    def test_an_exception(self, error: BaseException, *, asynchronous: bool) -> None:
        """What was said about records before does not count either."""

        def handle(batch: Batch[object]) -> None:
            batch.reject(batch[0], "no")
            batch.send(batch[1], "out", b"x")
            raise error

        async def handle_async(batch: Batch[object]) -> None:
            handle(batch)

        origins = [lineage(40), lineage(41)]
        given = run(
            handle_async if asynchronous else handle,
            *(redelivery(n, each) for n, each in enumerate(origins)),
            of=ready(),
        )
        assert (given.position, given.failures, given.outputs, given.lineages, given.lateness) == (0, [], [], [], [])
        assert not given.batch

    def test_an_awaitable_that_has_not_run(self) -> None:
        async def nothing() -> None:
            """Do nothing."""

        def handle(batch: Batch[object]) -> object:
            return nothing() if batch else None

        given = run(handle, record(0), record(1))
        assert (given.position, given.batch) == (0, False)

    def test_the_deadline_of_an_asynchronous_call(self) -> None:
        """It is cancelled."""

        async def handle(batch: Batch[object]) -> None:
            await asyncio.Event().wait() if batch else None

        given = run(handle, record(0), record(1), deadline=timedelta(milliseconds=10))
        assert (given.position, given.batch) == (0, False)

    def test_a_batch_of_one_fails_its_record(self) -> None:
        """Also if the item has other records, which have failed before the call."""

        def handle(batch: Batch[object]) -> None:
            raise ValueError(len(batch))

        given = run(handle, record(0, b"{"), record(1, b"1"), of=source(route(value=JSON)))
        assert given.position == 2
        assert given.failures[1] == (1, Failure(FailureKind.RAISED, "ValueError", "1"))

    def test_the_records_are_then_batches_of_one(self) -> None:
        """An exception fails its record, and a named outcome counts as before."""
        sizes: list[int] = []

        def handle(batch: Batch[object]) -> None:
            sizes.append(len(batch))
            if len(batch) > 1 or batch[0].offset == 1:
                raise ValueError("poison")
            if batch[0].offset == 2:
                batch.reject(batch[0], "no")
            batch.send(batch[0], "out", b"x")

        def again(given: WorkItem) -> None:
            given.batch = False

        given = run(handle, *(record(n) for n in range(4)), before=again)
        assert sizes == [1] * 4
        assert kinds(given) == {1: FailureKind.RAISED, 2: FailureKind.REJECTED}
        assert [index for index, _ in given.outputs] == [0, 3]

    def test_an_abandoned_call_has_no_outcome(self) -> None:
        """All its records are in the item that replaces it, which is no batch."""
        taken: list[WorkItem | None] = []
        given = item(source(), [record(0), record(1)])
        given.batch = True

        def handle(batch: Batch[object]) -> None:
            batch.reject(batch[0], "too late")
            taken.append(given.abandon(float("inf")))

        processor_of(as_handler(handle), {}, lambda: NOW, None).run(given)
        [replacement] = taken
        assert replacement is not None
        assert (replacement.messages, replacement.position, replacement.batch) == (given.messages, 0, False)
        assert (given.position, given.failures) == (0, [])

    def test_a_slow_batch_is_not_split(self) -> None:
        taken: list[object] = []
        given = item(source(), [record(0), record(1)])
        given.batch = True

        def handle(batch: Batch[object]) -> None:
            taken.append((len(batch), given.split(float("inf"))))

        processor_of(as_handler(handle), {}, lambda: NOW, None).run(given)
        assert taken == [(2, None)]
        assert given.position == 2


class _Away:
    """A codec whose registry is away for some values."""

    name = "away"

    def decode(self, data: bytes | None) -> Any:  # noqa: ANN401 - as the protocol has it
        if data == b"away":
            raise SchemaSourceUnavailable("http://registry", "refused")
        return data

    def encode(self, value: Any) -> bytes | None:  # noqa: ANN401 - as the protocol has it
        if value == "broken":
            raise ValueError(value)
        encoded: bytes | None = self.decode(value)
        return encoded


class TestWhatIsOutsideTheRecords:
    """It decides about no record: they wait, uncounted."""

    def test_records_before_one_whose_schema_is_away_are_handled(self) -> None:
        sizes: list[int] = []

        def handle(batch: Batch[object]) -> None:
            sizes.append(len(batch))

        given = run(handle, record(0), record(1), record(2, b"away"), record(3), of=source(route(value=_Away())))
        assert sizes == [2]
        assert (given.position, given.batch) == (2, True)
        assert "http://registry" in given.held

    def test_none_is_handled_if_it_is_the_first(self) -> None:
        def handle(batch: Batch[object]) -> None:
            raise AssertionError(batch)

        given = run(handle, record(0, b"away"), record(1), of=source(route(value=_Away())))
        assert given.position == 0
        assert "http://registry" in given.held

    def test_an_output_that_cannot_be_encoded_now(self) -> None:
        """The records from there on have no outcome; one whose output never can be encoded has failed."""

        def handle(batch: Batch[object]) -> None:
            batch.send(batch[0], "out", "broken")
            batch.send(batch[1], "out", b"fine")
            batch.send(batch[2], "out", b"away")
            batch.reject(batch[3], "no")

        origins = [lineage(40 + n) for n in range(4)]
        given = run(
            handle,
            *(redelivery(n, each) for n, each in enumerate(origins)),
            of=ready(),
            outputs={"out": (_Away(), _Away())},
        )
        assert kinds(given) == {0: FailureKind.RAISED}
        assert [index for index, _ in given.outputs] == [1]
        assert given.position == 2
        assert "http://registry" in given.held
        assert [len(given.lineages), len(given.lateness)] == [2, 2]

    def test_no_process_for_the_handler(self) -> None:
        def handle(batch: Batch[object]) -> None:
            raise HandlerUnavailable(f"for {len(batch)}")

        given = run(handle, record(0), record(1))
        assert (given.position, given.held, given.batch) == (0, "for 2", True)

    def test_nothing_behind_a_critical_record_has_an_outcome(self) -> None:
        """The worker halts there."""

        def handle(batch: Batch[object]) -> None:
            batch.reject(batch[0], "no")
            batch.fail(batch[1], MemoryError())
            batch.reject(batch[2], "no")
            batch.send(batch[3], "out", b"x")

        given = run(handle, *(record(n) for n in range(4)))
        assert kinds(given) == {0: FailureKind.REJECTED, 1: FailureKind.CRITICAL}
        assert (given.position, given.outputs) == (2, [])
