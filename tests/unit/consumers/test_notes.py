"""Delivery counts persisted before delivery: who is counted when a worker dies, and who is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

import pytest

from consumers.errors import HaltedError
from tests.unit.consumers.batches import DEAD, TIER
from tests.unit.consumers.lives import DiedError, Life, World, world
from topology.headers import DELIVERY_COUNT, ORIG_MESSAGE_ID
from topology.lineage import parse_message_id
from topology.policy import RedeliveryPolicy
from topology.progress import METADATA_LIMIT, Checkpoint
from topology.settings import Ordering
from transport.errors import WriteUndoneError
from transport.protocols import Partition

pytestmark = pytest.mark.usefixtures("hasty")

SHAPES = [(Ordering.PARTITION, 1), (Ordering.PARTITION, 3), (Ordering.KEY, 4), (Ordering.UNORDERED, 4)]


def lives(around: World, *, most: int = 60, fates: tuple[int, ...] = ()) -> int:
    """Let one worker follow the other until all is done; how many died of what they handled."""
    deaths = 0
    for number in range(1, most):
        fate = fates[number - 1] if number <= len(fates) else 10**9
        try:
            Life(around).live(200_000, dying_after=fate)
        except DiedError:
            deaths += number > len(fates)
            continue
        assert around.done
        return deaths
    raise AssertionError("it dies for ever")


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_only_the_killer_is_counted(ordering: Ordering, slots: int, seed: int) -> None:
    """It kills once among others, then alone at each attempt; everybody else is delivered for the first time always."""
    killer = 100 + seed * 37
    around = world((250, 90), seed, killers=frozenset({killer}), ordering=ordering, slots=slots)
    assert lives(around) == 4
    attempts = around.attempts()
    assert attempts.pop((Partition("orders", 0), killer)) == [1, 1, 2, 3]
    assert {attempt for each in attempts.values() for attempt in each} == {1}
    outputs = Counter(copy.value for copy in around.written if copy.topic == "totals")
    assert len(outputs) == 250 + 90 - 1
    assert set(outputs.values()) == {1}
    [letter] = [copy for copy in around.written if copy.topic == DEAD]
    assert dict(letter.headers or ())[DELIVERY_COUNT] == b"3"
    assert {point.metadata for point in around.commits.values()} == {""}
    assert around.longest_metadata <= METADATA_LIMIT


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
def test_several_killers_and_failures_and_undone_writes(ordering: Ordering, slots: int) -> None:
    """Two killers side by side, records that fail by themselves, and writes that are undone: each has its own count."""
    around = world(
        (200, 50),
        7,
        killers=frozenset({60, 61, 150}),
        failing=frozenset({62, 100}),
        ordering=ordering,
        slots=slots,
        undone=0.1,
    )
    lives(around)
    copies = Counter((copy.topic, dict(copy.headers or ()).get(DELIVERY_COUNT)) for copy in around.written)
    assert copies[DEAD, b"3"] == 3
    # What fails by itself waits in a tier after its first delivery, of which it has had one.
    assert copies[TIER, b"1"] == 2
    assert copies["totals", None] == 200 + 50 - 5
    assert sum(copies.values()) == 250
    counted = {offset: max(each) for (place, offset), each in around.attempts().items() if not place.number}
    assert {offset: most for offset, most in counted.items() if most > 1} == dict.fromkeys((60, 61, 150), 3)


def test_a_death_by_fate_counts_one_at_most() -> None:
    """A worker that is killed from outside among many counts nobody, and later only the one that was alone then."""
    for seed in range(5):
        around = world((300, 100), seed, ordering=Ordering.KEY, slots=3)
        lives(around, fates=(8,))
        assert {attempt for each in around.attempts().values() for attempt in each} == {1}
        around = world((300, 100), seed, ordering=Ordering.KEY, slots=3)
        lives(around, fates=(8, 14, 30))
        assert sum(max(each) - 1 for each in around.attempts().values()) <= 2
        assert len({copy.value for copy in around.written}) == len(around.written) == 400


def test_whoever_leaves_in_order_takes_its_note_back() -> None:
    """Nobody is suspected then: the next owner works on several records at once from the start."""
    around = world((200,), 3)
    life = Life(around)
    life.live(12)
    assert not around.done
    life.give(around.records)
    assert {point.metadata for point in around.commits.values()} == {""}


def dead(around: World) -> list[int]:
    """The source offsets of the dead letters."""
    letters = [dict(copy.headers or ()) for copy in around.written if copy.topic == DEAD]
    return [parse_message_id((letter[ORIG_MESSAGE_ID] or b"").decode())[2] for letter in letters]


def alone(around: World) -> tuple[Life, int]:
    """Somebody has died; the next worker has a record alone in its handler, the offset of which is told."""
    with pytest.raises(DiedError):
        Life(around).live()
    life = Life(around)
    while not (life.worker._notes.exclusive and life.worker._under_way):
        life.live(1)
    [unit] = life.worker._under_way
    return life, unit.messages[0].offset()


def test_a_note_whose_outcome_was_undone_is_taken_back_too() -> None:
    """The record that was alone then is not counted when another worker gets it: nobody died."""
    for seed in range(4):
        around = world((60,), seed, killers=frozenset({20}), policy=RedeliveryPolicy(maximum_redeliveries=0))
        life, offset = alone(around)
        before = life.worker._assignment.all()
        around.undone = 1.0
        while life.worker._assignment.all() == before:
            life.live(1)
        around.undone = 0.0
        life.give(around.records)
        lives(around)
        assert offset not in dead(around)


def test_a_note_is_taken_back_though_the_last_write_is_undone() -> None:
    """What is written last when a partition is given back is written once more."""
    for seed in range(4):
        around = world((60,), seed, killers=frozenset({20}), policy=RedeliveryPolicy(maximum_redeliveries=0))
        life, offset = alone(around)
        life.writer.script.append(WriteUndoneError("so it goes"))
        life.give(around.records)
        assert life.writer.script == []
        lives(around)
        assert offset not in dead(around)


def test_who_has_given_everything_back_asks_for_nothing() -> None:
    """At the end of a worker the client tells once more that the partitions go, and answers no question any more."""
    around = world((60,), 3)
    life = Life(around)
    life.live(5)

    def asked(partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        raise AssertionError(f"the committed offsets of {partitions} are asked for")

    life.reader.committed = asked  # type: ignore[method-assign]
    life.reader.close = lambda: life.worker.revoked(list(around.records))  # type: ignore[method-assign]
    life.worker._shut_down()
    assert life.worker._assignment.all() == []


def test_a_worker_that_halts_takes_its_note_back() -> None:
    """Neither the record that it halts at nor the one that would have been next has had a delivery that counts."""
    around = world((60,), 3, killers=frozenset({20}))
    with pytest.raises(DiedError):
        Life(around).live()
    around.critical = frozenset({10})
    with pytest.raises(HaltedError):
        Life(around).live()
    around.critical = frozenset()
    lives(around)
    counted = {offset for (_, offset), attempts in around.attempts().items() if max(attempts) > 1}
    assert counted == {20}


def test_suspects_stay_suspects_across_a_rebalance() -> None:
    """A worker that gives a partition back before all its suspects are delivered tells the next one of the others."""
    around = world((120,), 5, killers=frozenset({70}))
    with pytest.raises(DiedError):
        Life(around).live()
    second = Life(around)
    while around.commits[Partition("orders", 0)].offset < 20:
        second.live(1)
    second.give(around.records)
    assert lives(around) == 3  # alone each time: nobody had to die once more to find out
    assert around.attempts()[Partition("orders", 0), 70] == [1, 1, 2, 3]


def test_nobody_is_alone_while_others_are_in_a_handler() -> None:
    """Suspects that arrive while a killer is under way wait for what is under way, and are not counted for it."""
    working, suspect = Partition("orders", 0), Partition("orders", 1)
    for seed in range(20):
        around = world((60, 60), seed, killers=frozenset({30}), ordering=Ordering.UNORDERED, slots=4)
        with pytest.raises(DiedError):
            Life(around, [suspect]).live(dying_after=6)
        life = Life(around, [working])
        with suppress(DiedError):
            life.live(4 + seed % 6)
            life.take([suspect])
            life.live()
        lives(around)
        attempts = around.attempts()
        assert attempts.pop((working, 30))[-3:] == [1, 2, 3]
        assert {attempt for each in attempts.values() for attempt in each} == {1}
