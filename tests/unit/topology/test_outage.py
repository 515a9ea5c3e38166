"""The outage of a dependency as one worker sees it: pauses, the first call, the ramp."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.outage import Outage, Phase

FULL = 12


def _open(at_s: float = 100.0) -> Outage:
    return Outage().failed(at_s, 0.0, began_s=at_s - 1)


def test_without_an_outage_nothing_is_limited() -> None:
    """A worker that has met none hands out as many records as it has slots."""
    assert Outage().phase(5.0, FULL) is Phase.CLOSED
    assert Outage().limit(5.0, FULL) == FULL
    assert Outage().answered(5.0) == Outage().closed_elsewhere(5.0, 0.5, 3.0) == Outage().settled(5.0, FULL) == Outage()


def test_nothing_is_handed_out_before_the_pause_is_over_and_then_one_record() -> None:
    """The first pause is five seconds."""
    outage = _open()

    assert [outage.limit(at_s, FULL) for at_s in (100.0, 104.9, 105.0, 500.0)] == [0, 0, 1, 1]
    assert [outage.phase(at_s, FULL) for at_s in (104.9, 105.0)] == [Phase.OPEN, Phase.HALF_OPEN]


def test_the_pauses_grow_to_a_minute() -> None:
    """Each try that fails doubles the pause."""
    outage, pauses = _open(), []
    for _ in range(6):
        pauses.append(outage.backoff.pause_s)
        outage = outage.failed(outage.backoff.due_s + 1, 0.0, began_s=outage.backoff.due_s)

    assert pauses == [5, 10, 20, 40, 60, 60]


def test_calls_that_began_before_the_opening_say_nothing_new() -> None:
    """The other slots' calls fail, too, and must not lengthen the pause."""
    outage = _open()

    assert outage.failed(102.0, 0.0, began_s=99.0) == outage
    assert outage.failed(130.0, 0.0, began_s=104.0) == outage


def test_the_load_doubles_from_second_to_second() -> None:
    """A dependency that has just come back gets one call first."""
    outage = _open().answered(107.0)

    assert [outage.limit(107.0 + at_s, FULL) for at_s in (0, 0.9, 1, 2, 3, 3.9, 4, 50)] == [
        1,
        1,
        2,
        4,
        8,
        8,
        FULL,
        FULL,
    ]
    assert [outage.phase(107.0 + at_s, FULL) for at_s in (3.9, 4)] == [Phase.RAMPING, Phase.CLOSED]
    assert outage.settled(110.9, FULL) == outage
    assert outage.settled(111.0, FULL) == Outage()


def test_a_failure_in_the_ramp_opens_it_again_with_the_next_longer_pause() -> None:
    """Also if it is the call with which the ramp began; the time since which it is open stays."""
    outage = _open().answered(107.0).failed(109.0, 0.0, began_s=108.0)

    assert (outage.limit(109.0, FULL), outage.backoff.pause_s, outage.opened_s) == (0, 10, 100.0)


def test_a_closing_elsewhere_brings_one_try_forward_and_leaves_the_pauses() -> None:
    """A worker that is cut off by itself fails, and goes on where it was."""
    outage = _open()
    outage = outage.failed(106.0, 0.0, began_s=105.0)  # due at 116
    hinted = outage.closed_elsewhere(107.0, 0.5, 3.0)

    assert [hinted.limit(at_s, FULL) for at_s in (108.4, 108.5)] == [0, 1]
    assert hinted.closed_elsewhere(107.0, 0.9, 3.0) == hinted
    assert hinted.failed(109.0, 0.0, began_s=108.6).backoff.pause_s == 20


def test_a_worker_that_joins_begins_half_open() -> None:
    """It neither waits for a pause of others nor sends its whole load."""
    outage = Outage().joined(50.0)

    assert (outage.limit(50.0, FULL), outage.phase(50.0, FULL)) == (1, Phase.HALF_OPEN)
    assert outage.joined(60.0) == outage
    assert outage.failed(51.0, 0.0, began_s=50.5).backoff.pause_s == 5


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_jitter_shortens_a_pause_by_a_tenth_at_most(jitter: float) -> None:
    """So the longest pause is a limit."""
    due_s = Outage().failed(100.0, jitter, began_s=99.0).backoff.due_s

    assert due_s == pytest.approx(105.0 - 0.5 * jitter)


@dataclass
class Model:
    """The same with plain variables."""

    pause_s: float = 0.0
    due_s: float = 0.0
    ramp_s: float | None = None
    open: bool = False

    def limit(self, now_s: float) -> int:
        """See :meth:`Outage.limit`."""
        if not self.open:
            return FULL
        if self.ramp_s is not None:
            return min(FULL, 1 << int(now_s - self.ramp_s))
        return int(now_s >= self.due_s)

    def settle(self, now_s: float) -> None:
        """Forget an outage whose ramp is complete."""
        if self.ramp_s is not None and self.limit(now_s) == FULL:
            self.pause_s, self.due_s, self.ramp_s, self.open = 0.0, 0.0, None, False

    def fail(self, now_s: float, *, late: bool) -> None:
        """A call fails. ``late``: it began before all pauses."""
        if not self.open or (not late and now_s >= self.due_s):
            self.pause_s = min(max(5.0, 2 * self.pause_s), 60.0)
            self.due_s, self.ramp_s, self.open = now_s + self.pause_s, None, True

    def answer(self, now_s: float) -> None:
        """A call succeeds."""
        if self.open and self.ramp_s is None:
            self.ramp_s = now_s


@given(st.lists(st.tuples(st.sampled_from(["fails", "answers", "late", "closed", "looks"]), st.integers(0, 40))))
def test_like_a_plain_model(events: list[tuple[str, int]]) -> None:
    """Whatever comes in which order; never more than the limit, and closed only by an answer and the whole ramp."""
    outage, model, now_s = Outage(), Model(), 1000.0
    for event, later_s in events:
        now_s += later_s
        outage = outage.settled(now_s, FULL)
        model.settle(now_s)
        match event:
            case "fails":
                outage = outage.failed(now_s, 0.0, began_s=now_s)
                model.fail(now_s, late=False)
            case "late":
                outage = outage.failed(now_s, 0.0, began_s=0.0)
                model.fail(now_s, late=True)
            case "answers" if model.limit(now_s):
                outage = outage.answered(now_s)
                model.answer(now_s)
            case "closed":
                outage = outage.closed_elsewhere(now_s, 0.0, 3.0)
                if model.open and model.ramp_s is None:
                    model.due_s = min(model.due_s, now_s)
        assert outage.limit(now_s, FULL) == model.limit(now_s)
        assert (outage.opened_s is not None) == model.open
