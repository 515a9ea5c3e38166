"""A worker with many source partitions writes retries to few partitions of a tier, which are numbered like its own."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.writes.tier_placement import MAX_PARTITIONS, TierPlacement
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.topics.naming import Naming
from kafka_redelivery.topology.topics.tiers import TierSet
from tests.unit.consumers.batches import COUNTS, DEAD, RAISED, READY, REJECTED, TIER, batch_of, handled, shared
from tests.unit.consumers.records import entry, record, route, source

NUMBERS = st.sets(st.integers(0, 999), max_size=60)


def places(numbers: set[int], origins: range = range(1000)) -> dict[int, int]:
    """The place of each origin, for a worker that owns these numbers."""
    placement = TierPlacement(lambda: numbers)
    placement.refresh()
    return {origin: placement.number_for(origin) for origin in origins}


@given(NUMBERS)
def test_few_numbers_that_the_worker_owns(numbers: set[int]) -> None:
    """Without many source partitions each has the place of its own number."""
    found = places(numbers)
    if len(numbers) <= MAX_PARTITIONS:
        assert all(place == origin for origin, place in found.items())
    else:
        used = set(found.values())
        assert used <= numbers
        assert len(used) <= MAX_PARTITIONS


@given(NUMBERS.filter(lambda numbers: len(numbers) > MAX_PARTITIONS))
def test_the_retries_of_many_partitions_are_spread(numbers: set[int]) -> None:
    """Each place is another one. One place for all would leave a single scheduler to release them."""
    assert len(set(places(numbers).values())) == MAX_PARTITIONS


MANY = NUMBERS.filter(lambda numbers: len(numbers) > MAX_PARTITIONS + 1)


@given(MANY, st.integers(0, 59))
def test_a_place_changes_when_its_number_goes(numbers: set[int], index: int) -> None:
    """Retries of all other places stay in order."""
    owned = set(numbers)
    placement = TierPlacement(lambda: owned)
    placement.refresh()
    before = [placement.number_for(origin) for origin in range(1000)]
    gone = sorted(numbers)[index % len(numbers)]
    owned.remove(gone)
    placement.refresh()
    after = [placement.number_for(origin) for origin in range(1000)]
    assert gone not in after
    assert all(new == old for new, old in zip(after, before, strict=True) if old != gone)
    assert set(after) <= owned


@given(MANY, NUMBERS)
def test_what_comes_changes_no_place(numbers: set[int], more: set[int]) -> None:
    """It may come from a killed worker whose transaction is open. By some protocols all are away for a moment."""
    owned = set(numbers)
    placement = TierPlacement(lambda: owned)
    placement.refresh()
    before = [placement.number_for(origin) for origin in range(1000)]
    owned.clear()
    placement.refresh()
    owned |= numbers | more
    placement.refresh()
    assert [placement.number_for(origin) for origin in range(1000)] == before


def test_a_worker_that_had_few_partitions_goes_on_with_them() -> None:
    """Also when the partitions of a killed worker come, and the places have to be shared."""
    owned = {3, 5}
    placement = TierPlacement(lambda: owned)
    placement.refresh()
    assert placement.number_for(17) == 17
    owned |= set(range(300))
    assert placement.number_for(17) == 17
    placement.refresh()
    assert {placement.number_for(origin) for origin in range(300)} == {3, 5}
    owned -= set(range(10, 300))
    placement.refresh()
    assert {placement.number_for(origin) for origin in range(300)} == {3, 5}
    owned -= {0, 1, 2, 4}
    placement.refresh()
    assert placement.number_for(17) == 17


def written(*, delay_ms: int = 1000, failure: Failure = RAISED) -> tuple[set[str], list[int]]:
    """Topics and partitions of what is produced if a record of each of 300 owned partitions fails."""
    topics = RetryTopics(Naming(group="billing"), TierSet((1000,), mixed=True), dict.fromkeys(COUNTS, 300))
    common = replace(shared(), retry_topics=topics, placement=TierPlacement(lambda: range(300)))
    way = route(entry(RedeliveryPolicy(initial_redelivery_delay=delay_ms)))
    items = [handled(source(way, number), record(0, partition=number), failures={0: failure}) for number in range(300)]
    produced = batch_of(*items, common=common).produced
    return {each.topic for each in produced}, [-1 if each.partition is None else each.partition for each in produced]


def test_the_retries_of_a_write_share_few_partitions_of_their_tier() -> None:
    """The next write has the same ones, so retries that wait for the same time stay in order."""
    topics, partitions = written()
    assert topics == {TIER}
    assert len(partitions) == 300
    assert len(set(partitions)) <= MAX_PARTITIONS
    assert written() == (topics, partitions)


@pytest.mark.parametrize(
    ("delay_ms", "failure", "topic"), [(0, RAISED, READY), (1000, REJECTED, DEAD), (500, RAISED, "billing.retry.mixed")]
)
def test_everything_else_is_in_the_partition_of_its_origin(delay_ms: int, failure: Failure, topic: str) -> None:
    """A partition of the mixed topic holds as many records as the metadata of one commit can describe."""
    assert written(delay_ms=delay_ms, failure=failure) == ({topic}, list(range(300)))
