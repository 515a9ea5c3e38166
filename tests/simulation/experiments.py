"""The runs of the page, by the question that they answer."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from tests.simulation.scenario import Measured, Run, Scenario

MANY = Scenario()
"""250 sources of 20 partitions."""

ONE = replace(MANY, sources=1, partitions=5_000)
"""One source of 5,000 partitions, so each tier has as many."""

NARROW = replace(ONE, tier_partitions=16, ready_partitions=16)
"""``topics.maxPartitions: 16``."""

SHAPES: Mapping[str, Scenario] = {
    "250 sources of 20": MANY,
    "one source of 5,000": ONE,
    "one source of 5,000, at most 16": NARROW,
}
_LOADS = (0.3, 0.6, 0.8, 1.0)
_FAST = replace(MANY, call_s=0.002, seconds=1.5)
_RATES = (1_000, 3_000, 6_000)
_PROCESSES = 2


class Experiment(NamedTuple):
    """A run: the question it belongs to, its series, and where it stands in it."""

    question: str
    series: str
    at: float
    scenario: Scenario


def experiments(*, quick: bool = False) -> list[Experiment]:
    """Return all runs; the quick ones have the same questions and a small group."""
    found = list(_all())
    return [each._replace(scenario=_small(each.scenario)) for each in found] if quick else found


def _all() -> Iterator[Experiment]:
    for name, shape in SHAPES.items():
        for load in _LOADS:
            yield Experiment("load", name, load, replace(shape, load=load))
    for rate in _RATES:
        yield Experiment("rate", "250 sources of 20", rate, replace(_FAST, rate=rate))
    fair = replace(MANY, load=0.5)
    yield Experiment("fairness", "no source fails", 0, fair)
    bad = replace(fair, bad_sources=50, rate=fair.records_per_s)
    yield Experiment("fairness", "50 of 250 sources fail", 50, bad)
    large = replace(MANY, workers=20, schedulers=2, sources=25, slots=2, value_bytes=100_000)
    slow = replace(large, call_s=1.0, rate=2_400)
    yield Experiment("memory", "slow handlers", 0.1, slow)
    yield Experiment("memory", "all calls fail", 1.0, replace(large, call_s=0.005, rate=1_000, fail_ratio=1.0))
    for workers in (16, 64, 160):
        for most in (None, 16):
            shape = replace(ONE, partitions=320, workers=workers, schedulers=4, load=0.6, fail_ratio=0.3)
            shape = replace(shape, tier_partitions=most, ready_partitions=most)
            yield Experiment("narrow", "as the source" if most is None else f"at most {most}", workers, shape)


def _small(scenario: Scenario) -> Scenario:
    """Return a group of a twentieth, for a second or two."""
    return replace(
        scenario,
        workers=max(2, scenario.workers // 20),
        schedulers=max(1, scenario.schedulers // 10),
        sources=max(1, scenario.sources // 25),
        partitions=min(40, scenario.partitions),
        brokers=2,
        rate=None if scenario.rate is None else scenario.rate / 20,
        bad_sources=-(-scenario.bad_sources // 25),
        tier_partitions=None if scenario.tier_partitions is None else 4,
        ready_partitions=None if scenario.ready_partitions is None else 4,
        warm_up_s=1.5,
        seconds=1.5,
    )


def run_all(found: Sequence[Experiment]) -> Iterator[tuple[Experiment, Measured]]:
    """Run the experiments on two cores, and yield each with its result, in order."""
    with ProcessPoolExecutor(_PROCESSES) as pool:
        yield from zip(found, pool.map(measure, (each.scenario for each in found)), strict=True)


def measure(scenario: Scenario) -> Measured:
    """Run one scenario."""
    return Run(scenario).measure()
