"""The delay scheduler: whether what waits leaves in time."""

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
        "What waits in the tiers of one group, and whether it leaves in time.",
        [GROUP, TIER],
        [Section("What waits", _waiting()), Section("What leaves", _leaving()), Section("The process", _process())],
    )


def _waiting() -> list[Panel]:
    return [
        graph(
            "Waiting by tier",
            "Records in each tier. It falls when they are due; a wall that stays means that nothing is released.",
            "short",
            Query(f"sum by (tier) (redelivery_pending{{{_T}}})", "{{tier}}"),
            stacked=True,
            runbook="RedeliverySchedulerStalled",
            width=8,
        ),
        graph(
            "Age of the oldest",
            "How long the oldest record of each tier waits; never longer than the tier's delay.",
            "s",
            Query(
                f"time() - min by (tier) (redelivery_pending_oldest_timestamp_seconds{{{_T}}})",
                "{{tier}}",
            ),
            width=8,
        ),
        graph(
            "Overdue",
            "How long ago the oldest record should have left. More than seconds: stuck, or clocks that differ.",
            "s",
            Query(
                f"clamp_min(max by (tier) (timestamp(redelivery_pending_oldest_timestamp_seconds{{{_T}}}) - "
                f"redelivery_pending_oldest_timestamp_seconds{{{_T}}} - redelivery_tier_delay_seconds{{{_T}}}), 0)",
                "{{tier}}",
            ),
            levels=Levels(5, 30),
            runbook="RedeliverySchedulerStalled",
            width=8,
        ),
    ]


def _leaving() -> list[Panel]:
    return [
        graph(
            "Released a second",
            "Records that became ready, and those that went on to a lower tier.",
            "ops",
            Query(f"sum(rate(redelivery_release_lateness_seconds_count{{{_G}}}[$__rate_interval]))", "ready"),
            Query(f"sum(rate(redelivery_tier_moves_total{{{_G}}}[$__rate_interval]))", "lower tier"),
            width=8,
        ),
        graph(
            "Lateness of the release",
            "From due until its release was committed. Milliseconds are normal; more: Kafka or the processor is slow.",
            "s",
            *quantiles("redelivery_release_lateness_seconds", _G),
            levels=Levels(0.5, 5),
            runbook="RedeliveryRetriesLate",
            width=8,
        ),
        graph(
            "Time of a write",
            "One transaction of the scheduler, as far as it delays what is due.",
            "s",
            *quantiles("redelivery_commit_seconds", _G),
            levels=Levels(1, 10),
            runbook="RedeliveryWritesUndone",
            width=8,
        ),
        graph(
            "Could not be released",
            "Dead-lettered by the scheduler: the ready topic is gone, the record is too large, the origin unknown.",
            "ops",
            Query(
                f"sum by (topic, reason) (rate(redelivery_dead_letters_total{{{_G}}}[$__rate_interval]))",
                "{{topic}} {{reason}}",
            ),
            runbook="RedeliveryDeadLettersGrowing",
        ),
        graph(
            "Clock faults",
            "Records due later than their tier allows. A machine's clock is wrong: mend it.",
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
            "At least one; two cover for each other.",
            "none",
            Query(f"count(redelivery_build_info{{{_G}}})"),
            levels=Levels(2, 1, reverse=True),
            runbook="RedeliverySchedulerMissing",
            none="none",
        ),
        figure(
            "Silence",
            "How long ago the quietest scheduler told how it stands. A minute or more: it hangs.",
            "s",
            Query(f"max(time() - redelivery_alive_timestamp_seconds{{{_G}}})"),
            levels=Levels(60, 120),
            runbook="RedeliveryProcessStalled",
        ),
        figure(
            "Early",
            "Released before they were due, in the range shown. Must be 0: else clocks differ.",
            "none",
            Query(f"sum(increase(redelivery_early_total{{{_G}}}[$__range]))"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryEarly",
        ),
        graph(
            "Partitions of tiers owned",
            "By scheduler. One with all of them among several: the others do not take part.",
            "none",
            Query(f"sum by (instance) (redelivery_assigned_partitions{{{_G}}})", "{{instance}}"),
            runbook="RedeliveryPartitionUnowned",
            width=6,
        ),
        graph(
            "Writes undone, rebalances",
            "Both cost time, neither loses anything. Often: Kafka is not well, or schedulers come and go.",
            "none",
            Query(f"sum(increase(redelivery_commits_undone_total{{{_G}}}[$__rate_interval]))", "undone"),
            Query(f"sum(increase(redelivery_rebalances_total{{{_G}}}[$__rate_interval]))", "rebalances"),
            runbook="RedeliveryWritesUndone",
            width=6,
        ),
    ]
