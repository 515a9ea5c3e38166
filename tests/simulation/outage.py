"""Draws how the load of twenty workers rises when what their handlers call is back."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from kafka_redelivery.consumers.flow.outages import SPREAD_S
from tests.unit.consumers.outage_group import AWAY_S, LONGEST_S, RAMP_S, SLOTS, WORKERS, WorkerGroup

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "outage-return.svg"
_BEFORE_S, _AFTER_S = 3.0, 4.0
_OURS, _AWAY = "#1f6f8b", "#f3dcd9"


def draw() -> str:
    """Run them, draw the picture, and return in a sentence what it shows."""
    group = WorkerGroup(records=600)
    group.meet()
    group.run(AWAY_S + LONGEST_S + SPREAD_S + RAMP_S + _AFTER_S)
    first_s = [member.tries(answered=True)[0] for member in group.members]
    closed_s = min(first_s)
    full_s = max(member.full_s(closed_s) for member in group.members)
    total: Counter[float] = Counter()
    mpl.rcParams["svg.hashsalt"] = "kafka-redelivery"
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    one, every = figure.subplots(1, 2)
    for member in group.members:
        curve = dict(_most_of_a_second(member.curve, until_s=full_s + _AFTER_S))
        total.update(curve)
        one.step(curve.keys(), curve.values(), where="post", color=_OURS, alpha=0.3, linewidth=1)
    every.step(total.keys(), total.values(), where="post", color=_OURS)
    one.set(ylabel="calls in flight, of each worker", ylim=(0, SLOTS * 1.05))
    every.set(ylabel="calls in flight, of all workers", ylim=(0, WORKERS * SLOTS * 1.05))
    for axes in (one, every):
        axes.axvspan(-_BEFORE_S, 0, color=_AWAY)
        axes.set(xlabel="seconds since the bank is back", xlim=(-_BEFORE_S, full_s - AWAY_S + _AFTER_S))
        axes.grid(alpha=0.3)
    figure.savefig(PICTURE, format="svg", metadata={"Date": None})
    last_s, all_s = max(first_s) - closed_s, full_s - closed_s
    return (
        f"{WORKERS} workers with {SLOTS} slots: the first finds the bank back after {closed_s - AWAY_S:g} s, "
        f"the last {last_s:g} s later, and all are at full load {all_s:g} s after the first."
    )


def _most_of_a_second(curve: Sequence[tuple[float, int]], until_s: float) -> Iterator[tuple[float, int]]:
    """Yield for each time since the return how many calls were in flight at most within the second before it."""
    for number, (at_s, _) in enumerate(curve):
        if AWAY_S - _BEFORE_S <= at_s <= until_s:
            yield (
                at_s - AWAY_S,
                max(calls for before_s, calls in curve[max(0, number - 4) : number + 1] if before_s > at_s - 1),
            )
