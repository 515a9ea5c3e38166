"""A work item may come back before its last record: handled records count once, the others are untouched."""

from typing import Any

import pytest

from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import SLICE_S, Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.serdes.codec import JsonCodec
from tests.unit.consumers.failing_handlers import never_called, raising, run
from tests.unit.consumers.records import NOW, item, record, route, source


class TestEarlyReturn:
    def test_an_item_that_is_stopped_starts_no_other_record(self) -> None:
        """The handled record counts, the others go back."""
        given = item(source(), map(record, range(3)))

        def handle(_: Record) -> None:
            given.stop = True

        Processor(as_handler(handle), {}, lambda: NOW, None).run(given)
        assert given.position == 1

    def test_an_item_ends_with_its_time_slice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The results of a slow handler are committed as they come. At least one record is handled."""
        now_s = 100.0

        def handle(_: Record) -> None:
            nonlocal now_s
            now_s += SLICE_S * 0.6

        monkeypatch.setattr("kafka_redelivery.consumers.handlers.processor.monotonic_s", lambda: now_s)
        assert run(handle, *map(record, range(5))).position == 2

    def test_a_slow_record_still_gets_its_outcome(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Even if it takes longer than the time slice."""
        now_s = 100.0

        def handle(_: Record) -> None:
            nonlocal now_s
            now_s += 300

        monkeypatch.setattr("kafka_redelivery.consumers.handlers.processor.monotonic_s", lambda: now_s)
        given = run(handle, record(0), record(1))
        assert (given.position, given.seconds) == (1, [300])

    @pytest.mark.usefixtures("one_slice")
    def test_an_abandoned_item_stores_no_more_outcomes(self) -> None:
        """The polling thread has decided about its record."""
        given = item(source(), map(record, range(3)))
        called: list[int] = []

        def handle(record: Record, context: Context) -> None:
            context.send("log", b"late")
            called.append(record.offset)
            given.abandoned = record.offset == 1

        Processor(as_handler(handle), {}, lambda: NOW, None).run(given)
        assert called == [0, 1]
        assert given.position == len(given.outputs) == len(given.seconds) == 1

    def test_an_item_abandoned_in_a_codec_calls_no_handler(self) -> None:
        """Another slot handles the next record then."""

        class Stuck(JsonCodec):
            def decode(self, data: bytes | None) -> Any:  # noqa: ANN401 - as the protocol has it
                given.abandoned = True
                return super().decode(data)

        given = item(source(route(value=Stuck())), [record(0, b"{"), record(1, b"{}")])
        Processor(as_handler(never_called), {}, lambda: NOW, None).run(given)
        assert given.position == 0
        assert not given.failures

    def test_an_item_starts_at_its_position(self) -> None:
        """The records before it are not handled again."""
        seen: list[int] = []
        given = item(source(), map(record, range(3)))
        given.position = 2
        Processor(as_handler(lambda record: seen.append(record.offset)), {}, lambda: NOW, None).run(given)
        assert seen == [2]


class TestAbandon:
    def test_the_result_is_a_copy_of_what_was_done_before(self) -> None:
        """Later changes of the abandoned item do not change it."""
        given = started(run(raising(ValueError("no")), record(0), record(1)), position=1)
        result = given.abandon(2.0)
        assert result is not None
        given.failures.clear()
        given.seconds.clear()
        given.position = 0
        assert (result.position, len(result.failures), len(result.seconds)) == (1, 1, 1)
        assert result.lane is given.lane
        assert given.stop
        assert given.abandoned
        assert (result.stop, result.abandoned) == (False, False)

    def test_the_abandoned_record_has_no_outcome(self) -> None:
        """Even if its slot has just stored one."""
        given = started(run(raising(ValueError("no")), record(0), record(1)), position=1)
        result = given.abandon(2.0)
        assert result is not None
        assert [index for index, _ in result.failures] == [0]

    @pytest.mark.parametrize(("position", "started_s"), [(0, 2.5), (0, 0.0), (2, 1.0)])
    def test_a_record_that_is_not_late_is_not_abandoned(self, position: int, started_s: float) -> None:
        """It was started just now, it waits for its slot, or all records have their outcome."""
        given = started(item(source(), [record(0), record(1)]), position)
        given.started_s = started_s
        assert given.abandon(2.0) is None
        assert (given.stop, given.abandoned) == (False, False)

    def test_an_outcome_stored_meanwhile_counts(self) -> None:
        """The slot moves ``position`` meanwhile: the item is not abandoned, but starts no other record."""

        class Moving(WorkItem):
            def __setattr__(self, name: str, value: object) -> None:
                super().__setattr__(name, value)
                if name == "stop" and value:
                    self.position += 1

        given = Moving(Lane(source(), exclusive=True), [record(0), record(1)])
        given.started_s = 1.0
        assert given.abandon(2.0) is None
        assert given.stop
        assert not given.abandoned


def started(given: WorkItem, position: int) -> WorkItem:
    """Let the slot have started the record at a position long ago."""
    given.position = position
    given.started_s = 1.0
    return given
