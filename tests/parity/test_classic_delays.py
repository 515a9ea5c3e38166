"""Every delay equals the one that the real ActiveMQ Classic computed (see data/README.md)."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice, pairwise, repeat
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest

from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.section import RedeliveryPolicySection
from tests.every import Check, every

Case = dict[str, Any]
"""A recorded case as in the file."""

RECORDINGS: dict[str, tuple[str, dict[str, str]]] = {
    "5.18.6": ("classic_delays.json", {}),
    "5.8.0": ("classic_delays_5_8.json", {"algorithm": "activemq-5.8"}),
}
"""By version of the broker: the file with its answers, and the setting that selects its algorithm."""

LOWEST, HIGHEST = -0.999999, 0.999999
"""The extreme draws. Classic draws a sign and a share below 1, so it never quite reaches -1 or 1."""

STANDARD_ERRORS = 4.0
"""Allowed difference of two samples of one distribution. Draws are seeded, so each run has the same result."""

NOT_OURS = {"preDispatchCheck"}
"""Properties without influence on delays."""


def recorded(section: str) -> Callable[[Check], Check]:
    """Check all recorded cases of a section, with the policy read from configuration properties."""
    cases = []
    for name, algorithm in RECORDINGS.values():
        recording = json.loads((Path(__file__).parent / "data" / name).read_text())
        for case in recording[section]:
            written = {**case.get("policy", case.get("set")), **algorithm}
            policy = RedeliveryPolicySection.model_validate(written).value()
            cases.append((policy, case))
    return every(cases, lambda _, case: case["id"])


def chain(policy: RedeliveryPolicy, length: int, jitter: Iterable[float]) -> list[int]:
    """Return the first ``length`` delays."""
    return list(islice(policy.delays_ms(jitter), length))


def following(policy: RedeliveryPolicy, case: Case, jitter: Iterable[float]) -> list[int]:
    """Return for each draw the delay that follows the recorded previous delay, as second delay of a chain."""
    start = replace(policy, initial_redelivery_delay=case["previous_delay_ms"])
    return [chain(start, 2, [draw])[1] for draw in jitter]


def draws_behind(policy: RedeliveryPolicy, seen: list[int]) -> list[float]:
    """Return the draws that lead to a recorded chain of delays; 0 where a draw makes no difference.

    One case is random only with 5.8, which keeps the previous delay; its recording is one of many possible chains.
    """
    fixed = replace(policy, use_collision_avoidance=False)
    draws = []
    for previous, delay in pairwise(seen):
        usual = chain(replace(fixed, initial_redelivery_delay=previous), 2, ())[1]
        # Classic truncates to whole milliseconds, so the untruncated delay is half a millisecond longer on average.
        draws.append(((delay + 0.5) / usual - 1) / policy.collision_avoidance_factor if usual else 0.0)
    return draws


def uniform_draws(case: Case, count: int) -> list[float]:
    """Return draws that differ between cases and are the same in every run."""
    source = Random(case["id"])  # noqa: S311 - a sample, not a secret
    return [source.uniform(-1, 1) for _ in range(count)]


def deviation(sample: list[int]) -> float:
    """Return the standard deviation."""
    mean = fmean(sample)
    return math.sqrt(fmean((value - mean) ** 2 for value in sample))


def tolerance(sample: list[int], draws: int) -> float:
    """Return the allowed distance of the mean of ``draws`` recorded values from ours; those are rounded to 0.01."""
    return STANDARD_ERRORS * deviation(sample) * math.sqrt(1 / len(sample) + 1 / draws) + 0.01


@recorded("cases")
def test_the_chain_of_delays(policy: RedeliveryPolicy, case: Case) -> None:
    """The chain equals the recorded one to the millisecond."""
    seen = case["delays_ms"]
    draws = draws_behind(policy, seen) if policy.randomised else []
    assert all(-1 < draw < 1 for draw in draws)
    assert chain(policy, len(seen), draws) == seen


@recorded("collision_avoidance_single")
def test_one_step_without_avoidance(policy: RedeliveryPolicy, case: Case) -> None:
    """The delay before randomisation equals the recorded one."""
    assert following(replace(policy, use_collision_avoidance=False), case, [HIGHEST]) == [
        case["delay_without_avoidance_ms"]
    ]


@recorded("collision_avoidance_single")
def test_the_bounds_of_one_step(policy: RedeliveryPolicy, case: Case) -> None:
    """The extreme draws give the least and the greatest recorded delay."""
    assert following(policy, case, [LOWEST, HIGHEST]) == [case["min_ms"], case["max_ms"]]


@recorded("collision_avoidance_single")
def test_the_spread_of_one_step(policy: RedeliveryPolicy, case: Case) -> None:
    """Uniform draws give the recorded mean and standard deviation, within the allowed error."""
    sample = following(policy, case, uniform_draws(case, 10_000))
    error = tolerance(sample, case["draws"])
    assert fmean(sample) == pytest.approx(case["mean_ms"], abs=error)
    assert deviation(sample) == pytest.approx(case["stddev_ms"], abs=error)


@recorded("collision_avoidance_sequence")
def test_the_bounds_of_a_chain(policy: RedeliveryPolicy, case: Case) -> None:
    """All recorded delays lie between those of the extreme draws; the second delay reaches both bounds."""
    least = chain(policy, 6, repeat(LOWEST))
    greatest = chain(policy, 6, repeat(HIGHEST))
    assert all(low <= seen for low, seen in zip(least, case["min_ms"], strict=True))
    assert all(high >= seen for high, seen in zip(greatest, case["max_ms"], strict=True))
    assert (least[1], greatest[1]) == (case["min_ms"][1], case["max_ms"][1])


@recorded("collision_avoidance_sequence")
def test_the_first_delay_of_a_chain_is_never_randomised(policy: RedeliveryPolicy, case: Case) -> None:
    """The first redelivery waits the initial delay for every draw, as in the recording."""
    assert chain(policy, 1, repeat(LOWEST)) == chain(policy, 1, repeat(HIGHEST)) == case["min_ms"][:1]
    assert case["min_ms"][0] == case["max_ms"][0]


@recorded("collision_avoidance_sequence")
def test_the_spread_of_a_chain(policy: RedeliveryPolicy, case: Case) -> None:
    """Randomness compounds from delay to delay as in the recording."""
    draws = iter(uniform_draws(case, 5 * 5000))
    chains = [chain(policy, 6, islice(draws, 5)) for _ in range(5000)]
    for sample, mean in zip(zip(*chains, strict=True), case["mean_ms"], strict=True):
        assert fmean(sample) == pytest.approx(mean, abs=tolerance(list(sample), case["draws"]))


@recorded("setters")
def test_what_is_set_is_what_the_getters_answer(policy: RedeliveryPolicy, case: Case) -> None:
    """A property that is set has Classic's value, down to the last bit of the factor; the others keep its default."""
    ours = {
        "maximumRedeliveries": policy.maximum_redeliveries,
        "initialRedeliveryDelay": policy.initial_redelivery_delay,
        "redeliveryDelay": policy.redelivery_delay,
        "maximumRedeliveryDelay": policy.maximum_redelivery_delay,
        "useExponentialBackOff": policy.use_exponential_back_off,
        "backOffMultiplier": policy.back_off_multiplier,
        "useCollisionAvoidance": policy.use_collision_avoidance,
        "collisionAvoidancePercent": policy.collision_avoidance_percent,
        "collisionAvoidanceFactor": policy.collision_avoidance_factor,
    }
    answers = case.get("read_back") or {
        "collisionAvoidanceFactor": case["collisionAvoidanceFactor"],
        "collisionAvoidancePercent": case["getCollisionAvoidancePercent"],
    }
    assert {name: ours[name] for name in answers if name not in NOT_OURS} == {
        name: value for name, value in answers.items() if name not in NOT_OURS
    }
