"""A worker with many source partitions writes retries to few partitions of a tier, which are numbered like its own."""

from dataclasses import dataclass, replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.routes import MAX_PARTITIONS, RetryTopics, TierPlacement
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.topics.naming import Naming
from kafka_redelivery.topology.topics.tiers import TierSet
from tests.unit.consumers.batches import COUNTS, DEAD, RAISED, READY, REJECTED, TIER, batch_of, handled, shared
from tests.unit.consumers.records import entry, record, route, source

NUMBERS = st.sets(st.integers(0, 999), max_size=60)
_COUNTS_300 = dict.fromkeys(COUNTS, 300)


@dataclass
class Worker:
    """A worker that owns source partitions."""

    numbers: frozenset[int]

    def __post_init__(self) -> None:
        """Place retries."""
        self.placement = TierPlacement(lambda: self.numbers)

    def places(self, origins: range = range(1000)) -> dict[int, int]:
        """Return the place of each origin."""
        return {origin: self.placement.number_for(origin) for origin in origins}


def places(numbers: set[int]) -> dict[int, int]:
    """Return the place of each origin, for a worker that owns these numbers."""
    return Worker(frozenset(numbers)).places()


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
    worker = Worker(frozenset(numbers))
    before = worker.places()
    gone = sorted(numbers)[index % len(numbers)]
    worker.numbers -= {gone}
    after = worker.places()
    assert set(after.values()) <= worker.numbers
    assert all(after[origin] == place for origin, place in before.items() if place != gone)


@given(MANY, NUMBERS)
def test_what_comes_changes_no_place(numbers: set[int], more: set[int]) -> None:
    """It may come from a killed worker whose transaction is open. By some protocols all are away for a moment."""
    worker = Worker(frozenset(numbers))
    before = worker.places()
    worker.numbers = frozenset()
    assert worker.places() == before
    worker.numbers = frozenset(numbers | more)
    assert worker.places() == before


def test_a_worker_that_had_few_partitions_goes_on_with_them() -> None:
    """Also when the partitions of a killed worker come, and the places have to be shared."""
    worker = Worker(frozenset({3, 5}))
    assert worker.placement.number_for(17) == 17
    worker.numbers |= set(range(300))
    assert set(worker.places().values()) == {3, 5}
    worker.numbers -= set(range(10, 300))
    assert set(worker.places().values()) == {3, 5}
    worker.numbers -= {0, 1, 2, 4}
    assert worker.placement.number_for(17) == 17


def test_a_write_that_began_before_the_partitions_came() -> None:
    """Its retries have the same places as those of the next one: a write may begin long before its first retry."""
    worker = Worker(frozenset())
    common = replace(shared(), placement=worker.placement)
    common = replace(
        common, retry_topics=RetryTopics(Naming(group="billing"), TierSet((1000,), mixed=False), _COUNTS_300)
    )
    way = route(entry(RedeliveryPolicy(initial_redelivery_delay=1000)))
    first = Batch(common)
    worker.numbers = frozenset(range(100, 200))
    first.add(handled(source(way, 105), record(0, partition=105), failures={0: RAISED}))
    second = Batch(common)
    second.add(handled(source(way, 105), record(1, partition=105), failures={0: RAISED}))
    assert [each.partition for each in first.produced] == [each.partition for each in second.produced]


def written(*, delay_ms: int = 1000, failure: Failure = RAISED) -> tuple[set[str], list[int]]:
    """Topics and partitions of what is produced if a record of each of 300 owned partitions fails."""
    topics = RetryTopics(Naming(group="billing"), TierSet((1000,), mixed=True), _COUNTS_300)
    common = replace(shared(), retry_topics=topics, placement=TierPlacement(partial(frozenset, range(300))))
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
