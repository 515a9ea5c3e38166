"""Dashboard of the scheduler: whether retry records leave their tiers in time."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.consumer_group import quantiles
from grafana.frame import GROUP, TIER, Section, framed
from grafana.panels import ANY_IS_BAD, Levels, Panel, Query, figure, graph

_G = 'group="$group", role="scheduler"'
_T = 'group="$group", tier=~"$tier"'


def scheduler() -> Dashboard:
    """The dashboard for late retries."""
    return framed(
        "redelivery-scheduler",
        "Redelivery / Scheduler",
        "Retry records in the tiers of one group, and whether they are released in time.",
        [GROUP, TIER],
        [Section("Waiting", _waiting()), Section("Released", _leaving()), Section("Processes", _process())],
    )


def _waiting() -> list[Panel]:
    return [
        graph(
            "Waiting by tier",
            "Records in each tier. The number falls when they are due. If it stays, nothing is released.",
            "short",
            Query(f"sum by (tier) (redelivery_pending{{{_T}}})", "{{tier}}"),
            stacked=True,
            runbook="RedeliverySchedulerStalled",
            width=8,
        ),
        graph(
            "Age of the oldest",
            "Age of the oldest record of each tier; at most the tier's delay.",
            "s",
            Query(
                f"time() - min by (tier) (redelivery_pending_oldest_timestamp_seconds{{{_T}}})",
                "{{tier}}",
            ),
            width=8,
        ),
        graph(
            "Overdue",
            "Time since the oldest record should have left. More than seconds: stuck, or clocks differ.",
            "s",
            Query(
                f"clamp_min(max by (tier) (timestamp(redelivery_pending_oldest_timestamp_seconds{{{_T}}}) - "
                f"redelivery_pending_oldest_timestamp_seconds{{{_T}}} - redelivery_tier_delay_seconds{{{_T}}}), 0)",
                "{{tier}}",
            ),
            levels=Levels(5, 30),
            runbook="RedeliverySchedulerStalled",
            width=8,
            view="waiting",
        ),
    ]


def _leaving() -> list[Panel]:
    return [
        graph(
            "Released per second",
            "Records moved to the ready topic, and those moved to a shorter tier.",
            "ops",
            Query(f"sum(rate(redelivery_release_lateness_seconds_count{{{_G}}}[$__rate_interval]))", "ready"),
            Query(f"sum(rate(redelivery_tier_moves_total{{{_G}}}[$__rate_interval]))", "shorter tier"),
            width=8,
        ),
        graph(
            "Lateness of the release",
            "From the due time until the release is committed. More than milliseconds: Kafka or the CPU is slow.",
            "s",
            *quantiles("redelivery_release_lateness_seconds", _G),
            levels=Levels(0.5, 5),
            runbook="RedeliveryRetriesLate",
            width=8,
        ),
        graph(
            "Time of a write",
            "One transaction of the scheduler, as far as it delays due records.",
            "s",
            *quantiles("redelivery_commit_seconds", _G),
            levels=Levels(1, 10),
            runbook="RedeliveryWritesUndone",
            width=8,
        ),
        graph(
            "Could not be released",
            "Dead-lettered by the scheduler: no ready topic, the record is too large, or its origin is unknown.",
            "ops",
            Query(
                f"sum by (topic, reason) (rate(redelivery_dead_letters_total{{{_G}}}[$__rate_interval]))",
                "{{topic}} {{reason}}",
            ),
            runbook="RedeliveryDeadLettersGrowing",
        ),
        graph(
            "Clock faults",
            "Records due later than their tier allows. A machine's clock is wrong: correct it.",
            "none",
            Query(f"sum(increase(redelivery_clock_faults_total{{{_G}}}[$__rate_interval]))", "clock faults"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryClockFaults",
        ),
    ]


def _process() -> list[Panel]:
    return [
        figure(
            "Schedulers",
            "At least one; two replace each other.",
            "none",
            Query(f"count(redelivery_build_info{{{_G}}})"),
            levels=Levels(2, 1, reverse=True),
            runbook="RedeliverySchedulerMissing",
            none="none",
        ),
        figure(
            "Last report",
            "Time since the last report of the polling thread, longest scheduler. A minute or more: it hangs.",
            "s",
            Query(f"max(time() - redelivery_alive_timestamp_seconds{{{_G}}})"),
            levels=Levels(60, 120),
            runbook="RedeliveryProcessStalled",
        ),
        figure(
            "Early",
            "Released before they were due, in the range shown. Must be 0; otherwise clocks differ.",
            "none",
            Query(f"sum(increase(redelivery_early_total{{{_G}}}[$__range]))"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryEarly",
        ),
        graph(
            "Tier partitions owned",
            "By scheduler. All on one of several: the others are not members of the group.",
            "none",
            Query(f"sum by (instance) (redelivery_assigned_partitions{{{_G}}})", "{{instance}}"),
            runbook="RedeliveryPartitionUnowned",
            width=6,
        ),
        graph(
            "Aborted writes, rebalances",
            "Both cost time; nothing is lost. Many: Kafka is not healthy, or schedulers restart repeatedly.",
            "none",
            Query(f"sum(increase(redelivery_commits_undone_total{{{_G}}}[$__rate_interval]))", "aborted"),
            Query(f"sum(increase(redelivery_rebalances_total{{{_G}}}[$__rate_interval]))", "rebalances"),
            runbook="RedeliveryWritesUndone",
            width=6,
        ),
    ]
