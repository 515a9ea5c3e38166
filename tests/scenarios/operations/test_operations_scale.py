"""Scaling to zero and back: all processes stop with work under way, and later fewer or other ones continue it."""

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import topology
from tests.scenarios.running import SHORT_SESSION, Group, exactly
from tests.scenarios.waiting import until


def test_to_zero_and_back(group: Group) -> None:
    """What was in a handler, in a tier or ready is handled once, and so is what was sent meanwhile."""
    group.prepare(partitions=4, kafka=SHORT_SESSION)
    for name in ("w1", "w2"):
        group.worker(name)
    group.scheduler()
    group.send([["ok"], ["raise", "sleep 0.2"], ["raise", "raise", "ok"]] * 40)
    until(lambda: len(group.outputs()) > 40, "some records are done")
    group.stop()
    done = group.outputs()
    assert done <= exactly(range(120))
    assert group.pending()

    group.send([["raise", "ok"]] * 40, first=120)
    assert topology("check", file=group.file).code == exit_codes.OK
    assert group.outputs() == done
    group.scheduler("s2")
    group.worker("w3")
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(160))
    assert group.dead() == exactly([])
