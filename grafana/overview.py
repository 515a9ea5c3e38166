"""Dashboard of all groups: whether anything is wrong, and in which group."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.frame import GROUPS, Section, framed
from grafana.panels import ANY_IS_BAD, ROW, Levels, Panel, Query, figure, graph, listing

_G = 'group=~"$group"'


def overview() -> Dashboard:
    """The dashboard to start with."""
    return framed(
        "redelivery-overview",
        "Redelivery / Overview",
        "All consumer groups that use kafka-redelivery. Each red panel links to its runbook.",
        [GROUPS],
        [Section("Is anything wrong?", _wrong()), Section("Flow", _flow()), Section("Processes", _processes())],
    )


def _wrong() -> list[Panel]:
    return [
        figure(
            "Alerts firing",
            "Alerts of deploy/prometheus/rules that fire now. Each alert links to its runbook.",
            "none",
            Query('count(ALERTS{alertname=~"Redelivery.*", alertstate="firing"}) or vector(0)'),
            levels=ANY_IS_BAD,
        ),
        figure(
            "Partitions without an owner",
            "No process reads them. Normal for seconds during a start or rebalance, not for minutes.",
            "none",
            Query(f"sum(max by (group, topic) (redelivery_unowned_partitions{{{_G}}}))"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryPartitionUnowned",
        ),
        figure(
            "Halted partitions",
            "Not read until Kafka accepts a record that it refuses. /readyz names the cause and the fix.",
            "none",
            Query(f"sum(redelivery_halted_partitions{{{_G}}}) or vector(0)"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryWorkerHalted",
        ),
        figure(
            "Overdue in the tiers",
            "Time since the oldest record should have left its tier. More than seconds: a scheduler is stuck.",
            "s",
            Query(
                f"clamp_min(max(timestamp(redelivery_pending_oldest_timestamp_seconds{{{_G}}}) - "
                f"redelivery_pending_oldest_timestamp_seconds{{{_G}}} - redelivery_tier_delay_seconds{{{_G}}}), 0)"
            ),
            levels=Levels(5, 30),
            runbook="RedeliverySchedulerStalled",
            none="none",
        ),
        figure(
            "Dead letters kept",
            "Records that were not processed. The dashboard Dead letters shows the reasons.",
            "short",
            Query(f"sum(redelivery_dead_letter_depth{{{_G}}})"),
            levels=Levels(warning=1),
            runbook="RedeliveryDeadLettersGrowing",
            none="0",
        ),
        figure(
            "Time until first deletion",
            "Retention may then delete a dead letter that has not expired. Handle it before.",
            "s",
            Query(f"min(redelivery_dead_letter_deletion_timestamp_seconds{{{_G}}}) - time()"),
            levels=Levels(7 * 86_400, 86_400, reverse=True),
            runbook="RedeliveryDeadLetterNearRetention",
            none="never",
        ),
    ]


def _flow() -> list[Panel]:
    return [
        graph(
            "Deliveries by outcome",
            "Per second. Mostly retried: look at the group's handler and the services it calls.",
            "ops",
            Query(f"sum by (outcome) (rate(redelivery_deliveries_total{{{_G}}}[$__rate_interval]))", "{{outcome}}"),
            stacked=True,
            runbook="RedeliveryStorm",
        ),
        graph(
            "Dead letters by reason",
            "Records that were not processed. The runbook explains each reason.",
            "ops",
            Query(
                f"sum by (group, reason) (rate(redelivery_dead_letters_total{{{_G}}}[$__rate_interval]))",
                "{{group}} {{reason}}",
            ),
            stacked=True,
            runbook="RedeliveryDeadLettersGrowing",
        ),
        graph(
            "Lag",
            "Unfinished records by group and topic. Growing for long: add workers or slots, or speed up the handler.",
            "short",
            Query(f"sum by (group, topic) (redelivery_lag{{{_G}}})", "{{group}} {{topic}}"),
            runbook="RedeliveryLagGrowing",
        ),
        graph(
            "Waiting for redelivery",
            "Records in the tiers. A peak after failures is normal. If it stays, look at the scheduler.",
            "short",
            Query(f"sum by (group, tier) (redelivery_pending{{{_G}}})", "{{tier}}"),
            stacked=True,
            runbook="RedeliverySchedulerStalled",
        ),
        graph(
            "Redeliveries per second",
            "By group. A jump in all groups: a shared dependency is down.",
            "ops",
            Query(f"sum by (group) (rate(redelivery_redeliveries_total{{{_G}}}[$__rate_interval]))", "{{group}}"),
            runbook="RedeliveryStorm",
        ),
        graph(
            "Lateness of redeliveries, 99 %",
            "From the due time until the handler is called. The dashboard Scheduler shows the scheduler's part.",
            "s",
            Query(
                "histogram_quantile(0.99, sum by (group, le) "
                f"(rate(redelivery_delivery_lateness_seconds_bucket{{{_G}}}[$__rate_interval])))",
                "{{group}}",
            ),
            levels=Levels(1, 5),
            runbook="RedeliveryRetriesLate",
        ),
    ]


def _processes() -> list[Panel]:
    return [
        graph(
            "Processes",
            "Scraped workers, schedulers and queries. Fewer than expected: look at the orchestrator.",
            "none",
            Query(f"count by (group, role) (redelivery_build_info{{{_G}}})", "{{group}} {{role}}"),
            runbook="RedeliveryTargetDown",
            width=ROW // 3,
        ),
        graph(
            "Partitions owned",
            "By process. All on one of several: the others have just joined, or are not members.",
            "none",
            Query(f"sum by (role, instance) (redelivery_assigned_partitions{{{_G}}})", "{{role}} {{instance}}"),
            runbook="RedeliveryPartitionUnowned",
            width=ROW // 3,
        ),
        listing(
            "Versions and names",
            "exported_instance is the configured name. Two processes of a role must not share one (RedeliveryFenced).",
            Query(f"redelivery_build_info{{{_G}}}"),
            width=ROW // 3,
        ),
    ]
