"""The endpoints of worker and scheduler expose every metric of the catalogue, with correct counters."""

from prometheus_client import Metric

from kafka_redelivery.topology.metric_catalogue import CATALOGUE
from tests.scenarios.running import Group
from tests.scenarios.scraping import families, free_port, value_of
from tests.scenarios.waiting import until


def _catalogue() -> set[tuple[str, str, str]]:
    return {(metric.name, str(metric.kind), metric.help) for metric in CATALOGUE}


def _exposed(found: dict[str, Metric]) -> set[tuple[str, str, str]]:
    return {(family.name, family.type, family.documentation) for family in found.values()}


def test_metrics_agree_with_the_outcomes(group: Group) -> None:
    """Outcomes, attempts, reasons, lateness, pending and lag agree with the records' histories."""
    ports = {"worker": free_port(), "scheduler": free_port()}
    # The scheduler reports what is pending once a second, so records have to be pending for longer than that.
    group.prepare(
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 3000, "redeliveryDelay": 3000}
        }
    )
    for role, port in ports.items():
        group.configure(metrics={"port": port, "host": "127.0.0.1"})
        group.start("worker" if role == "worker" else "scheduler", role)
        families(port)
    group.send(
        [
            *[["ok"]] * 10,
            *[["raise", "ok"]] * 7,
            *[["raise", "raise", "ok"]] * 5,
            *[["raise"]] * 3,
            *[["reject"]] * 2,
        ]
    )
    worker, scheduler = ports["worker"], ports["scheduler"]
    until(lambda: value_of(scheduler, "redelivery_pending", tier=group.tier("3s")) > 0, "some records are pending")
    group.settle()
    until(lambda: value_of(scheduler, "redelivery_pending") == 0, "nothing is pending")
    until(lambda: value_of(worker, "redelivery_lag") == 0, "the worker is at the end")
    # A process counts what it has done after Kafka has it.
    until(lambda: value_of(worker, "redelivery_handler_seconds_count") == 50, "the worker has counted all calls")
    until(lambda: value_of(scheduler, "redelivery_release_lateness_seconds_count") == 23, "all releases are counted")

    def outcome(name: str, ack_type: str) -> float:
        return value_of(worker, "redelivery_deliveries_total", topic=group.source, outcome=name, ack_type=ack_type)

    assert outcome("acked", "standard") == 10
    assert outcome("recovered", "standard") == 12
    assert outcome("retried", "redelivered") == 7 + 2 * 5 + 2 * 3
    assert outcome("dead_lettered", "poison") == 5
    assert value_of(worker, "redelivery_deliveries_total") == 10 + 12 + 23 + 5
    assert value_of(worker, "redelivery_redeliveries_total", topic=group.source, attempt="1") == 15
    assert value_of(worker, "redelivery_redeliveries_total", topic=group.source, attempt="2") == 8
    assert value_of(worker, "redelivery_redeliveries_total") == 23
    assert value_of(worker, "redelivery_dead_letters_total", reason="redeliveries_exceeded") == 3
    assert value_of(worker, "redelivery_dead_letters_total", reason="rejected") == 2
    for attempt, number in (("1", 10), ("2", 7), ("3", 5)):
        assert value_of(worker, "redelivery_successes_total", topic=group.source, attempt=attempt) == number
    until(lambda: value_of(scheduler, "redelivery_dead_letter_depth") == 5, "all dead letters are counted")
    assert value_of(scheduler, "redelivery_dead_letter_depth", topic=group.source, reason="rejected") == 2
    until(lambda: value_of(scheduler, "redelivery_dead_letter_unread") == 0, "the dead letters are read to their end")
    oldest_s = min(dead.timestamp_ms for dead in group.cluster.read(group.dead_letters)) / 1000
    oldest = families(scheduler)["redelivery_dead_letter_oldest_timestamp_seconds"].samples
    assert min(sample.value for sample in oldest) == oldest_s
    unowned = "redelivery_unowned_partitions"
    until(lambda: [each.value for each in families(scheduler)[unowned].samples] == [0] * 3, "all have an owner")
    assert value_of(worker, "redelivery_delivery_lateness_seconds_count") == 23
    assert value_of(scheduler, "redelivery_release_lateness_seconds_count") == 23
    assert value_of(worker, "redelivery_handler_seconds_count") == 50
    for port in ports.values():
        assert value_of(port, "redelivery_early_total") == 0
        assert value_of(port, "redelivery_commits_undone_total") == 0
        assert value_of(port, "redelivery_halts_total") == 0
        assert value_of(port, "redelivery_clock_faults_total") == 0
        assert value_of(port, "redelivery_commit_seconds_count") > 0
        assert value_of(port, "redelivery_rebalances_total", event="assigned") >= 1
    assert value_of(worker, "redelivery_assigned_partitions") == 4
    assert value_of(scheduler, "redelivery_assigned_partitions") == 2
    assert value_of(worker, "redelivery_in_flight") == 0
    for role, port in ports.items():
        assert value_of(port, "redelivery_build_info", role=role, group=group.name, instance=role) == 1
        assert _exposed(families(port)) == _catalogue()
    group.stop()


def test_lag_grows_while_a_partition_is_not_fetched(group: Group) -> None:
    """A long call fills the buffer and pauses the partition; lag still counts the records that arrive."""
    port = free_port()
    group.prepare(
        partitions=1,
        handler={"slots": 1},
        limits={"batch": 10, "bufferRecords": 20, "shutdownTimeout": "4s", "rebalanceTimeout": "2s"},
        metrics={"port": port, "host": "127.0.0.1"},
    )
    group.send([[f"wait {group.folder / 'never'}"], *[["ok"]] * 200])
    group.worker()
    until(lambda: value_of(port, "redelivery_lag", topic=group.source) == 201, "the first ones are counted")
    group.send([["ok"]] * 1000, first=201)
    until(lambda: value_of(port, "redelivery_lag", topic=group.source) == 1201, "those that came later are counted")
