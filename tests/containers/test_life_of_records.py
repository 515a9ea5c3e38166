"""In worker and scheduler containers with a mounted handler, records succeed, are redelivered and dead-lettered."""

from tests.containers.processes import ContainerGroup
from tests.scenarios.running import exactly
from tests.scenarios.waiting import until


def test_records_end_as_their_handler_decides(containers: ContainerGroup) -> None:
    """Each record is in the outputs or the dead letters exactly once; probes and the image's health check succeed."""
    containers.prepare(redeliveries=2)
    worker, scheduler = containers.worker(), containers.scheduler()
    worker.ready()
    scheduler.ready()
    group = containers.group
    group.send([*[["ok"]] * 50, *[["raise", "ok"]] * 20, *[["raise", "raise", "ok"]] * 10])
    group.send([*[["raise"]] * 5, *[["reject"]] * 5], first=80)
    group.settle()
    assert group.outputs() == exactly(range(80))
    assert group.dead() == exactly(range(80, 90))

    for node in (worker, scheduler):
        node.answers("/healthz")
        node.answers("/metrics")

        def ready() -> bool:
            return node.run("python", "-I", "-m", "kafka_redelivery.cli.probe", "/readyz") == (0, "ready\n")  # noqa: B023 - called immediately

        until(ready, "the program of the health check gets its answer")

        def health() -> bool:
            node.container.reload()  # noqa: B023 - called immediately
            return bool(node.container.health == "healthy")  # noqa: B023

        until(health, "the engine reports it as healthy")
    containers.stop()
