"""The metrics as Prometheus scrapes them: each one once, with the values that the observer received."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as open_exposition
from prometheus_client.openmetrics import parser as open_parser
from prometheus_client.parser import text_string_to_metric_families

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.telemetry.exemplars import TRACED_CALLS, note_call
from kafka_redelivery.consumers.telemetry.metrics import Build, Measurements
from kafka_redelivery.consumers.telemetry.observers import (
    Committed,
    DeadLetterCount,
    DeadLetterCounts,
    DeadLetterLabel,
    DeadLetterTopic,
    HaltCause,
    HaltLabel,
    MicroBatch,
    OutcomeLabel,
    Released,
    SweeperState,
    Swept,
    TierBacklog,
    WorkerState,
    report_halts,
)
from kafka_redelivery.topology.metric_catalogue import CATALOGUE, COMMON, DELIVERY_LATENESS, MetricKind
from kafka_redelivery.topology.policy.decision import NEVER_DEAD, AckType, Reason
from kafka_redelivery.transport.errors import WriterFencedError
from tests.examples import share

BUILD = Build("1.2.3", "worker", "billing", "billing-0")
NOW_MS = 1_780_000_100_250


def empty() -> Measurements:
    """Measurements of a process that has just started."""
    return Measurements(BUILD, lambda: NOW_MS)


def prometheus(measurements: Measurements) -> list[Family]:
    """A scrape in Prometheus's text format, parsed back."""
    registry = CollectorRegistry()
    registry.register(measurements)
    return list(text_string_to_metric_families(generate_latest(registry).decode()))


def openmetrics(measurements: Measurements) -> list[Family]:
    """The same in OpenMetrics, whose parser is strict."""
    registry = CollectorRegistry()
    registry.register(measurements)
    page = open_exposition.generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    return list(open_parser.text_string_to_metric_families(page))  # type: ignore[no-untyped-call]


LABELS = {metric.name: metric.labels for metric in CATALOGUE}


def samples(measurements: Measurements) -> dict[tuple[str, ...], float]:
    """Name and labels (in the order of the catalogue) of each sample outside histograms -> its value."""
    return {
        (sample.name, *(sample.labels[label] for label in LABELS[family.name])): sample.value
        for family in prometheus(measurements)
        if family.type != "histogram"
        for sample in family.samples
    }


def histogram(measurements: Measurements, name: str) -> tuple[list[float], float, float]:
    """Buckets, count and sum."""
    [family] = [family for family in prometheus(measurements) if family.name == name]
    found = {sample.name.removeprefix(name): sample.value for sample in family.samples}
    return [s.value for s in family.samples if s.name.endswith("_bucket")], found["_count"], found["_sum"]


def committed(**details: Mapping[Any, int] | Sequence[float]) -> Committed:
    """A write of a worker with these details."""
    nothing: dict[str, Any] = {"outcomes": {}, "redeliveries": {}, "dead_letters": {}}
    return Committed(seconds=0.01, **(nothing | details))


def everything() -> Measurements:
    """Measurements of a process that has received every kind of detail."""
    found = empty()
    found.scheduler_needed(needed=True)
    found.committed(
        committed(
            outcomes={
                OutcomeLabel("orders", "acked", AckType.STANDARD): 7,
                OutcomeLabel("orders", "retried", AckType.REDELIVERED): 2,
            },
            redeliveries={("orders", 1): 2},
            dead_letters={("orders", "rejected"): 1},
            lateness_ms=[3, 700],
            outage_lateness_ms=[90_000],
            handler_seconds=[0.002, 0.2],
            recoveries={("orders", 3): 4},
            discarded={("orders", "expired"): 1, ("orders", "duplicate"): 1},
            redriven={("orders", "recovered"): 5},
            redriven_arrived={"orders": 6},
        )
    )
    found.released(
        Released(
            seconds=0.02,
            lateness_ms=[4],
            moved=3,
            clock_faults=1,
            outcomes={OutcomeLabel("orders", "dead_lettered", AckType.POISON): 1},
            dead_letters={("orders", "undeliverable"): 1},
            discarded={("orders", "duplicate"): 1},
            redriven={("orders", "dead_again"): 2},
        )
    )
    found.backlog(
        [
            TierBacklog("billing.retry.1s", 12, 1_780_000_000_500, 1000, partitions=2),
            TierBacklog("billing.retry.2s", 0, None, 2000, partitions=1),
        ]
    )
    found.dead_letter_counts(
        DeadLetterCounts(
            {
                DeadLetterLabel("orders", "expired"): DeadLetterCount(3, 2, 1_780_000_001_500),
                DeadLetterLabel("orders", "rejected"): DeadLetterCount(0, 1, None),
            },
            {
                "DLQ.orders": DeadLetterTopic(7, 60_000, 1_780_000_061_500),
                "DLQ.bills": DeadLetterTopic(0, None, None),
                "DLQ.empty": DeadLetterTopic(0, 60_000, None),
            },
        )
    )
    found.swept(
        Swept(
            removed={"DLQ.orders": 5, "DLQ.bills": 1}, moved={"DLQ.orders": 4}, refused={"DLQ.bills": 2}, clock_faults=3
        )
    )
    found.sweeper_state(SweeperState({"DLQ.orders": 1_780_000_003_500}, {("DLQ.orders", "not_yet"): 2}))
    found.unowned_partitions({"orders": 1, "billing.ready.orders": 0})
    found.fenced()
    found.worker_state(
        WorkerState(assigned=4, in_flight=9, lag={"orders": 33, "billing.ready.orders": 0}, unacknowledged=2)
    )
    found.write_aborted("cause")
    found.writes_failing(90.5)
    found.rebalanced("assigned")
    found.halted("cause")
    found.halted_partitions({HaltLabel("DLQ.orders", HaltCause.TOO_LARGE): 1})
    found.paused({"orders": 3}, 12)
    found.outages({"bank": True, "books": False}, {"orders": 2})
    found.table_progress()
    found.micro_batch(MicroBatch(1.5, 1000, {"orders": 25, "billing.ready.orders": 0}))
    found.table_progress()
    return found


class TestExposition:
    @pytest.mark.parametrize("scrape", [prometheus, openmetrics])
    @pytest.mark.parametrize("measurements", [empty(), everything()], ids=["nothing yet", "everything"])
    def test_every_metric_of_the_catalogue_is_exposed_once(
        self, measurements: Measurements, scrape: Callable[[Measurements], list[Family]]
    ) -> None:
        """With its kind and help, in both formats, from the first scrape on."""
        found = [(family.name, family.type, family.documentation) for family in scrape(measurements)]
        assert found == [(metric.name, str(metric.kind), metric.help) for metric in CATALOGUE]

    def test_labels_are_those_of_the_catalogue(self) -> None:
        """Each sample has exactly these."""
        families = [family for family in prometheus(everything()) if family.samples]
        unseen = {metric.name for metric in CATALOGUE} - {family.name for family in families}
        assert not unseen, "give each a value in everything()"
        assert len(families) == len(CATALOGUE)
        for family in families:
            for sample in family.samples:
                assert set(sample.labels) - {"le"} == {*COMMON, *LABELS[family.name]}
                assert (sample.labels["group"], sample.labels["role"]) == ("billing", "worker")

    def test_a_counter_without_labels_starts_at_zero(self) -> None:
        """Otherwise Prometheus would miss its first increase."""
        found = samples(empty())
        assert found["redelivery_commits_undone_total",] == 0
        assert found["redelivery_halts_total",] == 0


class TestValues:
    def test_all_values(self) -> None:
        """Worker, scheduler and streaming query share one catalogue."""
        assert samples(everything()) == {
            ("redelivery_deliveries_total", "orders", "acked", "standard"): 7,
            ("redelivery_deliveries_total", "orders", "retried", "redelivered"): 2,
            ("redelivery_deliveries_total", "orders", "dead_lettered", "poison"): 1,
            ("redelivery_redeliveries_total", "orders", "1"): 2,
            ("redelivery_dead_letters_total", "orders", "rejected"): 1,
            ("redelivery_dead_letters_total", "orders", "undeliverable"): 1,
            ("redelivery_discarded_total", "orders", "duplicate"): 2,
            ("redelivery_redriven_total", "orders", "recovered"): 5,
            ("redelivery_redriven_total", "orders", "dead_again"): 2,
            ("redelivery_redriven_arrived_total", "orders"): 6,
            ("redelivery_discarded_total", "orders", "expired"): 1,
            ("redelivery_early_total", "handler"): 0,
            ("redelivery_early_total", "release"): 0,
            ("redelivery_commits_undone_total",): 1,
            ("redelivery_successes_total", "orders", "1"): 7,
            ("redelivery_successes_total", "orders", "3"): 4,
            ("redelivery_writes_failing_seconds",): 90.5,
            ("redelivery_fenced_total",): 1,
            ("redelivery_tier_moves_total",): 3,
            ("redelivery_clock_faults_total",): 1,
            ("redelivery_pending", "billing.retry.1s"): 12,
            ("redelivery_pending", "billing.retry.2s"): 0,
            ("redelivery_pending_oldest_timestamp_seconds", "billing.retry.1s"): 1_780_000_000.5,
            ("redelivery_tier_delay_seconds", "billing.retry.1s"): 1,
            ("redelivery_tier_delay_seconds", "billing.retry.2s"): 2,
            ("redelivery_dead_letter_depth", "orders", "expired"): 3,
            ("redelivery_dead_letter_depth", "orders", "rejected"): 0,
            ("redelivery_dead_letter_expired", "orders", "expired"): 2,
            ("redelivery_dead_letter_expired", "orders", "rejected"): 1,
            ("redelivery_dead_letter_oldest_timestamp_seconds", "orders", "expired"): 1_780_000_001.5,
            ("redelivery_dead_letter_retention_seconds", "DLQ.orders"): 60,
            ("redelivery_dead_letter_retention_seconds", "DLQ.empty"): 60,
            ("redelivery_dead_letter_deletion_timestamp_seconds", "DLQ.orders"): 1_780_000_061.5,
            ("redelivery_dead_letter_unread", "DLQ.orders"): 7,
            ("redelivery_dead_letter_unread", "DLQ.bills"): 0,
            ("redelivery_dead_letter_unread", "DLQ.empty"): 0,
            ("redelivery_expired_removed_total", "DLQ.orders"): 5,
            ("redelivery_expired_removed_total", "DLQ.bills"): 1,
            ("redelivery_expired_moved_total", "DLQ.orders"): 4,
            ("redelivery_sweep_refused_total", "DLQ.bills"): 2,
            ("redelivery_sweep_clock_faults_total",): 3,
            ("redelivery_sweep_next_timestamp_seconds", "DLQ.orders"): 1_780_000_003.5,
            ("redelivery_sweep_resting_partitions", "DLQ.orders", "not_yet"): 2,
            ("redelivery_unowned_partitions", "orders"): 1,
            ("redelivery_unowned_partitions", "billing.ready.orders"): 0,
            ("redelivery_lag", "orders"): 33,
            ("redelivery_lag", "billing.ready.orders"): 0,
            ("redelivery_assigned_partitions",): 4,
            ("redelivery_in_flight",): 9,
            ("redelivery_unacknowledged",): 2,
            ("redelivery_halted_partitions", "DLQ.orders", "too_large"): 1,
            ("redelivery_paused_partitions", "orders"): 3,
            ("redelivery_outage", "bank"): 1,
            ("redelivery_outage", "books"): 0,
            ("redelivery_outage_partitions", "orders"): 2,
            ("redelivery_control_offset",): 12,
            ("redelivery_halts_total",): 1,
            ("redelivery_rebalances_total", "assigned"): 1,
            ("redelivery_behind_latest_offsets", "orders"): 25,
            ("redelivery_behind_latest_offsets", "billing.ready.orders"): 0,
            ("redelivery_query_progress_timestamp_seconds",): 1_780_000_100.25,
            ("redelivery_table_progress_timestamp_seconds",): 1_780_000_100.25,
            ("redelivery_alive_timestamp_seconds",): 1_780_000_100.25,
            ("redelivery_started_timestamp_seconds",): 1_780_000_100.25,
            ("redelivery_scheduler_needed",): 1,
            ("redelivery_build_info", "1.2.3", "billing-0"): 1,
        }

    def test_counters_add_up(self) -> None:
        """Over several writes."""
        found = empty()
        for number in (2, 3):
            found.committed(
                committed(
                    outcomes={OutcomeLabel("orders", "acked", AckType.STANDARD): number},
                    dead_letters={("orders", "expired"): number},
                )
            )
        values = samples(found)
        assert values["redelivery_deliveries_total", "orders", "acked", "standard"] == 5
        assert values["redelivery_dead_letters_total", "orders", "expired"] == 5

    def test_gauges_have_the_latest_value(self) -> None:
        """A tier that is no longer assigned disappears."""
        found = everything()
        found.backlog([TierBacklog("billing.retry.2s", 5, None, 2000, 1)])
        found.worker_state(WorkerState(assigned=0, in_flight=0))
        values = samples(found)
        assert values["redelivery_pending", "billing.retry.2s"] == 5
        assert ("redelivery_pending", "billing.retry.1s") not in values
        assert not [name for name, *_ in values if name == "redelivery_pending_oldest_timestamp_seconds"]
        assert values["redelivery_assigned_partitions",] == 0
        assert not [name for name, *_ in values if name == "redelivery_lag"]

    def test_known_label_values_start_at_zero(self) -> None:
        """Prometheus computes no increase for a series that appears with its first event."""
        found = empty()
        found.begin_at_zero(["orders"])
        values = samples(found)
        begun = {name for name, topic, *_ in (each for each in values if len(each) > 1) if topic == "orders"}
        labelled = {
            f"{each.name}_total" for each in CATALOGUE if each.kind is MetricKind.COUNTER and "topic" in each.labels
        }
        assert labelled <= begun, "see begin_at_zero"
        for reason in Reason:
            assert values["redelivery_discarded_total", "orders", reason] == 0
            assert values.get(("redelivery_dead_letters_total", "orders", reason)) == (
                None if reason in NEVER_DEAD else 0
            )
        for attempt in ("1", "2", "9", "10+"):
            assert values["redelivery_redeliveries_total", "orders", attempt] == 0
            assert values["redelivery_successes_total", "orders", attempt] == 0
        for outcome, ack_type in (("acked", "standard"), ("retried", "redelivered"), ("dead_lettered", "expired")):
            assert values["redelivery_deliveries_total", "orders", outcome, ack_type] == 0
        found.committed(committed(dead_letters={("orders", "expired"): 2}))
        assert samples(found)["redelivery_dead_letters_total", "orders", "expired"] == 2

    @pytest.mark.parametrize(("error", "fences"), [(HaltedError("cause"), 0), (WriterFencedError("cause"), 1)])
    def test_errors_that_protect_data_count_as_halts(self, error: Exception, fences: int) -> None:
        """A fenced writer counts as fenced, too. The error is raised on."""
        found = empty()
        with pytest.raises(type(error)), report_halts(found):
            raise error
        values = samples(found)
        assert (values["redelivery_halts_total",], values["redelivery_fenced_total",]) == (1, fences)

    def test_early_redeliveries_are_counted_by_location(self) -> None:
        """The metric must stay 0; its label says where to look."""
        found = empty()
        found.committed(committed(lateness_ms=[-1, 0, 5, -20]))
        found.released(Released(0.1, [-3], 0))
        values = samples(found)
        assert values["redelivery_early_total", "handler"] == 2
        assert values["redelivery_early_total", "release"] == 1


class TestLabelsAreBounded:
    def test_attempts_from_ten_on_share_a_label(self) -> None:
        """A policy without a limit adds no series without end."""
        found = empty()
        found.committed(committed(redeliveries={("orders", attempt): 1 for attempt in range(1, 1001)}))
        values = {
            name[2]: value for name, value in samples(found).items() if name[0] == "redelivery_redeliveries_total"
        }
        assert values == {**{str(attempt): 1 for attempt in range(1, 10)}, "10+": 991}

    @pytest.mark.parametrize("ack_type", AckType)
    def test_acknowledgement_types_have_names(self, ack_type: AckType) -> None:
        """ActiveMQ's names, in lower case."""
        found = empty()
        found.committed(committed(outcomes={OutcomeLabel("orders", "acked", ack_type): 1}))
        assert ("redelivery_deliveries_total", "orders", "acked", ack_type.name.lower()) in samples(found)

    @pytest.mark.parametrize("name", ["orders", 'a"b', "a\\b", "a\nb"])
    def test_any_name_survives_the_format(self, name: str) -> None:
        """Of a group or a topic."""
        found = Measurements(Build("1", "worker", name, "x"))
        found.committed(committed(dead_letters={(name, str(Reason.EXPIRED)): 1}))
        assert ("redelivery_dead_letters_total", name, "expired") in samples(found)


class TestHistograms:
    def test_buckets_are_cumulative_and_include_their_bound(self) -> None:
        """In seconds; a value on the bound is in the bucket."""
        found = empty()
        found.committed(committed(lateness_ms=[1, 2, 3, 5, 400_000, -7]))
        buckets, count, total = histogram(found, DELIVERY_LATENESS.name)
        assert DELIVERY_LATENESS.buckets[:3] == (0.001, 0.002, 0.005)
        assert buckets[:4] == [2, 3, 5, 5]
        assert buckets[-2:] == [5, 6]
        assert count == 6
        assert math.isclose(total, 400.004)

    def test_a_bucket_of_handler_calls_has_its_last_traced_call(self) -> None:
        """In OpenMetrics, which Prometheus asks for. Calls of another group in the same program are not its own."""
        found = empty()
        found.committed(committed(handler_seconds=[0.2]))
        for group, seconds, trace in (
            (BUILD.group, 0.2, "ab" * 16),
            ("other", 0.2, "cd" * 16),
            (BUILD.group, 9.0, "ef"),
        ):
            note_call(group, seconds, trace, "1" * 16)
        families = openmetrics(found)
        TRACED_CALLS.clear()
        traced = [each.exemplar for family in families for each in family.samples if each.exemplar is not None]
        assert [(each.labels, each.value) for each in traced] == [({"trace_id": "ab" * 16, "span_id": "1" * 16}, 0.2)]

    def test_each_histogram_has_its_own_values(self) -> None:
        """Handler, writes, delivery and release."""
        found = everything()
        assert histogram(found, "redelivery_handler_seconds")[1:] == (2, 0.202)
        assert histogram(found, "redelivery_commit_seconds")[1:] == (2, 0.03)
        assert histogram(found, "redelivery_delivery_lateness_seconds")[1:] == (2, 0.703)
        assert histogram(found, "redelivery_release_lateness_seconds")[1:] == (1, 0.004)
        assert histogram(found, "redelivery_outage_lateness_seconds")[1:] == (1, 90)

    @settings(max_examples=share(30))
    @given(st.lists(st.integers(-1000, 10**7), max_size=50))
    def test_a_bucket_counts_every_value_up_to_its_bound(self, lateness_ms: list[int]) -> None:
        """For any values."""
        found = empty()
        found.committed(committed(lateness_ms=lateness_ms))
        buckets, count, _ = histogram(found, DELIVERY_LATENESS.name)
        bounds = [*DELIVERY_LATENESS.buckets, math.inf]
        assert buckets == [sum(late / 1000 <= bound for late in lateness_ms) for bound in bounds]
        assert count == len(lateness_ms)

    def test_each_histogram_has_the_buckets_of_the_catalogue(self) -> None:
        """And one without a bound."""
        families = {family.name: family for family in prometheus(empty())}
        for metric in CATALOGUE:
            if metric.kind is MetricKind.HISTOGRAM:
                found = [s.labels["le"] for s in families[metric.name].samples if s.name.endswith("_bucket")]
                assert [float(bound) for bound in found] == [*metric.buckets, math.inf]
