"""Dashboard of one consumer group and its workers."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.frame import GROUP, TOPIC, Section, framed
from grafana.panels import ANY_IS_BAD, Levels, Panel, Query, figure, graph

_G = 'group="$group", role="worker"'
_T = 'group="$group", topic=~"$topic"'
_QUANTILES = ("0.5", "0.95", "0.99")


def consumer_group() -> Dashboard:
    """The dashboard for the owner of a handler."""
    return framed(
        "redelivery-group",
        "Redelivery / One consumer group",
        "The workers of one group: outcomes of its records, times, load and incidents.",
        [GROUP, TOPIC],
        [
            Section("Outcomes", _outcomes()),
            Section("Time", _time()),
            Section("Load", _load()),
            Section("Incidents", _incidents()),
        ],
    )


def quantiles(metric: str, labels: str) -> list[Query]:
    """Quantiles of a histogram."""
    return [
        Query(
            f"histogram_quantile({q}, sum by (le) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))",
            f"{float(q):.0%}",
        )
        for q in _QUANTILES
    ]


def _outcomes() -> list[Panel]:
    failed = f"sum(rate(redelivery_redeliveries_total{{{_T}}}[$__rate_interval]))"
    all_deliveries = f"sum(rate(redelivery_deliveries_total{{{_T}}}[$__rate_interval]))"
    return [
        graph(
            "Deliveries by outcome",
            "acked: at the first delivery; recovered: at a redelivery; dead_lettered, discarded: failed for good.",
            "ops",
            Query(f"sum by (outcome) (rate(redelivery_deliveries_total{{{_T}}}[$__rate_interval]))", "{{outcome}}"),
            stacked=True,
        ),
        graph(
            "Share of failed deliveries",
            "Above one half for long: a retry storm. Stop the workers while the handler's dependency is down.",
            "percentunit",
            Query(f"{failed} / {all_deliveries}", "retried"),
            levels=Levels(0.2, 0.5),
            runbook="RedeliveryStorm",
        ),
        graph(
            "Attempts to success",
            "Successes by attempt. Many at late attempts: the delays are shorter than the outages.",
            "ops",
            Query(
                f"sum by (attempt) (rate(redelivery_successes_total{{{_T}}}[$__rate_interval]))", "attempt {{attempt}}"
            ),
            stacked=True,
        ),
        graph(
            "Failures by attempt",
            "Failed attempts that were followed by a redelivery. The last attempt becomes a dead letter.",
            "ops",
            Query(
                f"sum by (attempt) (rate(redelivery_redeliveries_total{{{_T}}}[$__rate_interval]))",
                "attempt {{attempt}}",
            ),
            stacked=True,
            runbook="RedeliveryStorm",
        ),
        graph(
            "Dead letters by reason",
            "rejected, redeliveries_exceeded: the handler failed. undecodable, invalid_value: the producer. "
            "expired: too late.",
            "ops",
            Query(
                f"sum by (topic, reason) (rate(redelivery_dead_letters_total{{{_T}}}[$__rate_interval]))",
                "{{topic}} {{reason}}",
            ),
            stacked=True,
            runbook="RedeliveryDeadLettersGrowing",
        ),
        graph(
            "Acknowledgement types",
            "ActiveMQ's types: standard, redelivered, poison, expired. For comparison with a former broker.",
            "ops",
            Query(f"sum by (ack_type) (rate(redelivery_deliveries_total{{{_T}}}[$__rate_interval]))", "{{ack_type}}"),
            stacked=True,
        ),
    ]


def _time() -> list[Panel]:
    return [
        graph(
            "Time in the handler",
            "Duration of one call. If it grew with the lag, a service that the handler calls is slow.",
            "s",
            *quantiles("redelivery_handler_seconds", _G),
            width=8,
        ),
        graph(
            "Time of a write",
            "One transaction with all produced records and offsets. Seconds: Kafka is slow, or limits.batch too large.",
            "s",
            *quantiles("redelivery_commit_seconds", _G),
            levels=Levels(1, 10),
            runbook="RedeliveryWritesUndone",
            width=8,
        ),
        graph(
            "Lateness of redeliveries",
            "From the due time until the handler is called: the release and the wait for a free slot. Waits for a "
            "dependency that is away count apart.",
            "s",
            *quantiles("redelivery_delivery_lateness_seconds", _G),
            quantiles("redelivery_outage_lateness_seconds", _G)[-1]._replace(legend="99% of outages"),
            levels=Levels(1, 5),
            runbook="RedeliveryRetriesLate",
            width=8,
        ),
    ]


def _load() -> list[Panel]:
    return [
        graph(
            "Lag by topic",
            "Unfinished records of source and ready topic. Growing: add slots or workers, or speed up the handler.",
            "short",
            Query(f"sum by (topic) (redelivery_lag{{{_G}}})", "{{topic}}"),
            runbook="RedeliveryLagGrowing",
            width=8,
        ),
        graph(
            "Records in flight",
            "In slots or queued for them, by worker. Always high while lag grows: the handler is the bottleneck. "
            "Unacknowledged (modes client and individual): when they fill the buffer, the worker stops fetching.",
            "short",
            Query(f"sum by (instance) (redelivery_in_flight{{{_G}}})", "{{instance}}"),
            Query(f"sum by (instance) (redelivery_unacknowledged{{{_G}}})", "{{instance}} unacknowledged"),
            width=8,
        ),
        graph(
            "Partitions that wait for a dependency",
            "By topic. Their lag starts no worker, because more workers would wait, too.",
            "none",
            Query(f"sum by (topic) (redelivery_outage_partitions{{{_G}}})", "{{topic}}"),
            runbook="RedeliveryOutage",
            width=8,
        ),
        graph(
            "Partitions owned",
            "By worker. Uneven for long: a worker is not a member of the group.",
            "none",
            Query(f"sum by (instance) (redelivery_assigned_partitions{{{_G}}})", "{{instance}}"),
            runbook="RedeliveryPartitionUnowned",
            width=8,
        ),
    ]


def _incidents() -> list[Panel]:
    return [
        figure(
            "Halted partitions",
            "Not read until Kafka accepts a record that it refuses. /readyz and the log name the cause and the fix.",
            "none",
            Query(f"sum(redelivery_halted_partitions{{{_G}}}) or vector(0)"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryWorkerHalted",
        ),
        figure(
            "Paused partitions",
            "Not handled because of `redelivery pause`. `redelivery status` names the pauses and their ends.",
            "none",
            Query(f"sum(redelivery_paused_partitions{{{_G}}}) or vector(0)"),
            levels=Levels(warning=1),
            runbook="RedeliveryPaused",
        ),
        figure(
            "Dependencies away",
            "Records that need them wait and lose no attempt. `redelivery outage` names them and says since when.",
            "none",
            Query(f"count(max by (dependency) (redelivery_outage{{{_G}}}) > 0) or vector(0)"),
            levels=Levels(warning=1),
            runbook="RedeliveryOutage",
        ),
        figure(
            "Early",
            "Redeliveries handed out before they were due, in the range shown. Must be 0; otherwise clocks differ.",
            "none",
            Query(f"sum(increase(redelivery_early_total{{{_G}}}[$__range]))"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryEarly",
        ),
        figure(
            "Fenced",
            "Producers fenced by a process of the same name, in the range shown.",
            "none",
            Query(f"sum(increase(redelivery_fenced_total{{{_G}}}[$__range]))"),
            levels=Levels(warning=1),
            runbook="RedeliveryFenced",
        ),
        figure(
            "Restarts",
            "Starts of workers, in the range shown. Each costs a rebalance.",
            "none",
            Query(f"sum(changes(redelivery_started_timestamp_seconds{{{_G}}}[$__range]))"),
            levels=Levels(1, 3),
            runbook="RedeliveryRestarting",
        ),
        figure(
            "Last report",
            "Time since the last report of the polling thread, longest worker. A minute or more: it hangs.",
            "s",
            Query(f"max(time() - redelivery_alive_timestamp_seconds{{{_G}}})"),
            levels=Levels(60, 120),
            runbook="RedeliveryProcessStalled",
        ),
        graph(
            "Rebalances",
            "Changes of the assignment. lost: Kafka removed the worker from the group before it could finish.",
            "none",
            Query(
                f"sum by (event) (increase(redelivery_rebalances_total{{{_G}}}[$__rate_interval]))",
                "{{event}}",
            ),
            width=8,
        ),
        graph(
            "Aborted writes and halts",
            "An aborted write is repeated; nothing is lost. Many: Kafka is not healthy.",
            "none",
            Query(f"sum(increase(redelivery_commits_undone_total{{{_G}}}[$__rate_interval]))", "aborted"),
            Query(f"sum(increase(redelivery_halts_total{{{_G}}}[$__rate_interval]))", "halts"),
            runbook="RedeliveryWritesUndone",
            width=8,
        ),
        graph(
            "Pauses applied",
            "The control offset up to which each process of the group obeys pauses. A process that stays behind does "
            "not obey the newest one.",
            "none",
            Query('max by (role, instance) (redelivery_control_offset{group="$group"})', "{{role}} {{instance}}"),
            width=8,
        ),
    ]
