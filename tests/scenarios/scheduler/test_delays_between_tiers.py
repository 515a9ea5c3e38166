"""A delay that matches no tier, set by a handler or randomised, is never cut short, and no record is lost."""

from itertools import pairwise

from tests.scenarios.running import Group, exactly, number
from tests.scenarios.waiting import LONG_S

_ASKED_S = {0: 0.3, 1: 2.7, 2: 0.001, 3: 1.0, 4: 3.999}


def _gaps(group: Group) -> dict[int, list[float]]:
    began: dict[int, list[float]] = {}
    for call in group.deliveries.began():
        began.setdefault(call.n, []).append(call.at_s)
    return {n: [after - before for before, after in pairwise(times)] for n, times in began.items()}


def test_a_handlers_own_delay(group: Group) -> None:
    """Delays below the smallest tier, between tiers and equal to a tier are waited out, up to the longest allowed."""
    group.prepare(policyEntry={"maximumHandlerDelay": "4s"})
    assert {group.tier("1s"), group.tier("2s"), group.tier("4s"), group.tier("mixed")} <= group.cluster.topics()
    group.scheduler()
    group.worker()
    asked = {n: _ASKED_S[n % 5] for n in range(50)} | {50: 4.0}
    scripts = [[f"after {delay}s", "ok"] for delay in asked.values()]
    scripts[50] = ["after 1h", "ok"]
    group.send(scripts)
    group.settle()
    group.stop()

    assert group.outputs() == exactly(range(51))
    for n, (gap,) in _gaps(group).items():
        assert asked[n] <= gap < asked[n] + LONG_S, f"{n} asked for {asked[n]} s"
    # The delays below the smallest tier, and the remainders of others.
    assert group.cluster.read(group.tier("mixed"))


def test_collision_avoidance(group: Group) -> None:
    """Each second delay is drawn within the collision avoidance factor, the first never is; both are waited out."""
    group.prepare(
        policyEntry={
            "redeliveryPolicy": {
                "initialRedeliveryDelay": 500,
                "redeliveryDelay": 1500,
                "useCollisionAvoidance": True,
                "collisionAvoidanceFactor": 0.3,
            }
        }
    )
    group.scheduler()
    group.worker()
    group.send([["raise", "raise", "ok"]] * 60)
    group.settle()
    group.stop()

    assert group.outputs() == exactly(range(60))
    gaps = _gaps(group)
    assert all(first >= 0.5 for first, _ in gaps.values())
    drawn = {
        number(record): int(record.header("AMQ_SCHEDULED_DELAY") or "")
        for record in group.cluster.read(group.tier("1s"))
    }
    assert set(drawn) == set(range(60))
    assert len(set(drawn.values())) > 20
    assert min(drawn.values()) >= 1050
    assert max(drawn.values()) <= 1950
    for n, (_, second) in gaps.items():
        assert drawn[n] / 1000 <= second < drawn[n] / 1000 + LONG_S
