"""A unit may come back before its end: what it did counts, once, and the rest is untouched."""

from typing import Any

import pytest

from consumers.handler import as_handler
from consumers.lane import Lane
from consumers.processor import SLICE_S, Processor
from consumers.record import Context, Record
from consumers.unit import Unit
from serdes.codec import JsonCodec
from tests.unit.consumers.handling import never_called, raising, run
from tests.unit.consumers.records import NOW, record, route, source, unit


class TestComingBackEarly:
    def test_a_unit_asked_to_stop_begins_nothing_more(self) -> None:
        """What it did counts, the rest goes back."""
        given = unit(source(), map(record, range(3)))

        def handle(_: Record) -> None:
            given.stop = True

        Processor(as_handler(handle), {}, lambda: NOW, None).run(given)
        assert given.position == 1

    def test_a_time_slice_ends_a_unit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A slow handler's results are committed as they come; one record is always handled."""
        now_s = 100.0

        def handle(_: Record) -> None:
            nonlocal now_s
            now_s += SLICE_S * 0.6

        monkeypatch.setattr("consumers.processor.monotonic_s", lambda: now_s)
        assert run(handle, *map(record, range(5))).position == 2

    def test_a_slow_record_still_gets_its_outcome(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However long it takes."""
        now_s = 100.0

        def handle(_: Record) -> None:
            nonlocal now_s
            now_s += 300

        monkeypatch.setattr("consumers.processor.monotonic_s", lambda: now_s)
        given = run(handle, record(0), record(1))
        assert (given.position, given.seconds) == (1, [300])

    def test_an_abandoned_unit_notes_nothing_more(self) -> None:
        """Its outcome was decided without it."""
        given = unit(source(), map(record, range(3)))
        called: list[int] = []

        def handle(record: Record, context: Context) -> None:
            context.send("log", b"late")
            called.append(record.offset)
            given.abandoned = record.offset == 1

        Processor(as_handler(handle), {}, lambda: NOW, None).run(given)
        assert called == [0, 1]
        assert given.position == len(given.outputs) == len(given.seconds) == 1

    def test_a_unit_abandoned_in_a_codec_calls_no_handler(self) -> None:
        """The next record is in somebody else's hands by then."""

        class Stuck(JsonCodec):
            def decode(self, data: bytes | None) -> Any:  # noqa: ANN401 - as the protocol has it
                given.abandoned = True
                return super().decode(data)

        given = unit(source(route(value=Stuck())), [record(0, b"{"), record(1, b"{}")])
        Processor(as_handler(never_called), {}, lambda: NOW, None).run(given)
        assert given.position == 0
        assert not given.failures

    def test_a_unit_that_comes_again_goes_on_where_it_was(self) -> None:
        """From its position."""
        seen: list[int] = []
        given = unit(source(), map(record, range(3)))
        given.position = 2
        Processor(as_handler(lambda record: seen.append(record.offset)), {}, lambda: NOW, None).run(given)
        assert seen == [2]


class TestAbandoning:
    def test_what_goes_on_has_the_past_of_the_abandoned_one(self) -> None:
        """What that one still finds out changes nothing in it."""
        given = begun(run(raising(ValueError("no")), record(0), record(1)), position=1)
        late = given.abandon(2.0)
        assert late is not None
        given.failures.clear()
        given.seconds.clear()
        given.position = 0
        assert (late.position, len(late.failures), len(late.seconds)) == (1, 1, 1)
        assert late.lane is given.lane
        assert given.stop
        assert given.abandoned
        assert (late.stop, late.abandoned) == (False, False)

    def test_nothing_is_known_of_the_record_that_is_given_up(self) -> None:
        """Its slot may be just about to note an outcome that comes too late."""
        given = begun(run(raising(ValueError("no")), record(0), record(1)), position=1)
        late = given.abandon(2.0)
        assert late is not None
        assert [index for index, _ in late.failures] == [0]

    @pytest.mark.parametrize(("position", "started_s"), [(0, 2.5), (0, 0.0), (2, 1.0)])
    def test_a_record_that_is_not_late_is_not_given_up(self, position: int, started_s: float) -> None:
        """It began a moment ago, or waits for its slot, or there is none."""
        given = begun(unit(source(), [record(0), record(1)]), position)
        given.started_s = started_s
        assert given.abandon(2.0) is None
        assert (given.stop, given.abandoned) == (False, False)

    def test_an_outcome_at_the_last_moment_counts(self) -> None:
        """The slot moved on between two looks: it goes on, but begins no other record."""

        class MovesOn(Unit):
            def __setattr__(self, name: str, value: object) -> None:
                super().__setattr__(name, value)
                if name == "stop" and value:
                    self.position += 1

        given = MovesOn(Lane(source(), exclusive=True), [record(0), record(1)])
        given.started_s = 1.0
        assert given.abandon(2.0) is None
        assert given.stop
        assert not given.abandoned


def begun(given: Unit, position: int) -> Unit:
    """A unit whose slot began the record at a position long ago."""
    given.position = position
    given.started_s = 1.0
    return given
