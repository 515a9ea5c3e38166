"""A unit may come back before its end: what it did counts, once, and the rest is untouched."""

from typing import Any

import pytest

from consumers.handler import as_handler
from consumers.processor import SLICE_S, Processor
from consumers.record import Context, Record
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


def test_a_fork_is_another_unit_with_the_same_past() -> None:
    """What the abandoned one still finds out changes nothing in it."""
    given = run(raising(ValueError("no")), record(0))
    late = given.fork()
    given.failures.clear()
    given.seconds.clear()
    given.position = 0
    assert (late.position, len(late.failures), len(late.seconds)) == (1, 1, 1)
    assert late.lane is given.lane
    assert not late.abandoned
