from tests.crash.points import POINTS, SAMPLE, STEPS


def test_every_step_has_its_kill_points() -> None:
    """Worker and scheduler are killed before and after each of their steps; the sample is a subset."""
    tried = {(point.role, point.step, point.when) for point in POINTS}

    for step in STEPS:
        assert {("worker", step, "before"), ("worker", step, "after")} <= tried
        if step not in {"handle", "acknowledge", "recover", "settle", "slots"}:
            assert {("scheduler", step, "before"), ("scheduler", step, "after")} <= tried
    assert len(set(POINTS)) == len(POINTS) == len({str(point) for point in POINTS})
    assert set(SAMPLE) <= set(POINTS)
