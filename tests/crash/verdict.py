"""Compares what a read-committed reader finds at the end of a test with what must be there."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tests.crash.load import expected
from tests.scenarios.running import Group, number

_FINAL = ("acked", "recovered", "dead_lettered", "discarded")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Numbers of lost, duplicated and pending records, over outputs, dead letters and the journal."""

    lost: int
    doubled: int
    pending: int
    details: str


def judge(group: Group, *, outputs: AbstractSet[int], dead: AbstractSet[int]) -> Verdict:
    """Compare the written records with the expected ones.

    Args:
        group: has nothing pending and is stopped; its journal is read, too, if it has one.
        outputs: numbers that must be among the outputs, once.
        dead: numbers that must be among the dead letters, once.
    """
    checks = [("outputs", group.outputs(), outputs), ("dead letters", group.dead(), dead)]
    if group.configuration["journal"]:
        numbers = {(record.partition, record.offset): number(record) for record in group.cluster.read(group.source)}
        checks.append(("journal", _ended(group, numbers), set(numbers.values())))
    lost = doubled = 0
    details = []
    for name, found, wanted in checks:
        missing, surplus = _differences(found, wanted)
        lost, doubled = lost + len(missing), doubled + sum(surplus.values())
        if missing or surplus:
            details.append(f"{name}: missing {sorted(missing)}, too many {dict(sorted(surplus.items()))}")
    return Verdict(lost, doubled, len(group.pending()), "; ".join(details))


def _ended(group: Group, numbers: Mapping[tuple[int, int], int]) -> Counter[int]:
    """Return how many final outcomes the journal has for each source record."""
    ended: Counter[int] = Counter()
    for record in group.cluster.read(group.journal):
        entry = json.loads(record.value or b"")
        for first, last in (run for outcome in _FINAL for run in entry.get(outcome, [])):
            ended.update(numbers[entry["partition"], offset] for offset in range(first, last + 1))
    return ended


def assert_exactly_once(group: Group, number: int) -> None:
    """Assert that none of the first ``number`` records is lost, duplicated or pending."""
    outputs, dead = expected(number)
    verdict = judge(group, outputs=outputs, dead=dead)
    assert (verdict.lost, verdict.doubled, verdict.pending) == (0, 0, 0), verdict.details


def _differences(found: Mapping[int, int], wanted: Iterable[int]) -> tuple[set[int], dict[int, int]]:
    wanted = set(wanted)
    surplus = {n: times - (n in wanted) for n, times in found.items() if times > (n in wanted)}
    return wanted - set(found), surplus
