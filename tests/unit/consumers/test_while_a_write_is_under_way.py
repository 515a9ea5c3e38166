"""What must not be begun before the write under way has ended, however long that takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consumers.errors import HaltedError
from tests.unit.consumers.lives import DiedError, Life, World, world
from topology.settings import Ordering
from transport.protocols import Partition

pytestmark = pytest.mark.usefixtures("hasty")

WORKING, SUSPECT = Partition("orders", 0), Partition("orders", 1)
SHAPES = [(Ordering.PARTITION, 1), (Ordering.PARTITION, 3), (Ordering.KEY, 4), (Ordering.UNORDERED, 4)]


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("critical", [0, 12], ids=["in the write", "behind the write"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_follows_a_record_that_halts_the_worker(
    ordering: Ordering, slots: int, critical: int, seed: int
) -> None:
    """Neither while its own outcomes are written nor while those before it are: else others overtake it."""
    around = world(
        (25, 20), seed, critical=frozenset({critical}), ordering=ordering, slots=slots, noting=False, slow=True
    )
    life = Life(around)
    until(life, lambda: life.worker._committer.halting)
    before = life.handed_out
    life.live(100)
    assert life.worker._committer.writing
    assert life.handed_out == before
    assert life.worker._lanes.ready, "nothing is left to be handed out: this proves nothing"

    around.slow = False
    with pytest.raises(HaltedError, match=f"orders-0@{critical}"):
        life.live(100)
    assert life.handed_out == before
    assert all(checkpoint.offset <= critical for place, checkpoint in around.commits.items() if place == WORKING)


@pytest.mark.parametrize(("ordering", "slots"), [(Ordering.PARTITION, 2), (Ordering.KEY, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_a_suspect_is_alone_from_its_note_on(ordering: Ordering, slots: int, seed: int) -> None:
    """While it is being noted neither it is handed out nor a record that waited in place and comes due.

    If that one killed the worker, the suspect would be counted for it.
    """
    around = world((20, 20), seed, failing=frozenset({3}), ordering=ordering, slots=slots, blocking=True)
    with pytest.raises(DiedError):
        Life(around, [SUSPECT]).live(dying_after=6)
    life = Life(around, [WORKING])
    progress = life.worker._assignment.find([WORKING])[0].progress
    until(life, lambda: bool(progress.waiting) and life.worker._idle and not life.worker._committer.writing)

    around.slow = True
    life.take([SUSPECT])
    until(life, lambda: life.worker._notes.exclusive)
    before = life.handed_out
    due(around)
    life.live(60)
    assert life.worker._notes.exclusive
    assert life.worker._committer.writing
    assert life.handed_out == before

    around.slow = False
    life.live()
    first, then = life.handed_out[len(before) : len(before) + 2]
    assert [place for place, _ in first] == [SUSPECT.number], "one record, and it is the suspect"
    assert then != first
    assert around.done


def until(life: Life, happened: Callable[[], bool]) -> None:
    """Turn by turn until that is so."""
    for _ in range(500):
        if happened():
            return
        life.live(1)
    raise AssertionError("that never happened")


def due(around: World) -> None:
    """Whatever waits in place is due."""
    around.now_ms += 60_000
