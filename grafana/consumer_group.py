"""One consumer group: what its workers do."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.frame import GROUP, TOPIC, Section, framed
from grafana.panels import ANY_IS_BAD, Levels, Panel, Query, figure, graph

_G = 'group="$group", role="worker"'
_T = 'group="$group", topic=~"$topic"'
_QUANTILES = ("0.5", "0.95", "0.99")


def consumer_group() -> Dashboard:
    """The dashboard for whoever owns a handler."""
    return framed(
        "redelivery-group",
        "Redelivery / One consumer group",
        "The workers of one group: what becomes of its records, how fast, and what disturbs it.",
        [GROUP, TOPIC],
        [
            Section("Outcomes", _outcomes()),
            Section("Time", _time()),
            Section("Load", _load()),
            Section("Disturbances", _disturbances()),
        ],
    )


def quantiles(metric: str, labels: str) -> list[Query]:
    """Curves of a histogram."""
    return [
        Query(
            f"histogram_quantile({q}, sum by (le) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))",
            f"{float(q):.0%}",
        )
        for q in _QUANTILES
    ]


def _outcomes() -> list[Panel]:
    failed = f"sum(rate(redelivery_redeliveries_total{{{_T}}}[$__rate_interval]))"
    all_of_them = f"sum(rate(redelivery_deliveries_total{{{_T}}}[$__rate_interval]))"
    return [
        graph(
            "Deliveries by outcome",
            "acked: at once; recovered: after a redelivery; retried: comes again; dead_lettered, discarded: given up.",
            "ops",
            Query(f"sum by (outcome) (rate(redelivery_deliveries_total{{{_T}}}[$__rate_interval]))", "{{outcome}}"),
            stacked=True,
        ),
        graph(
            "Share that has to come again",
            "Above one half for long is a storm: stop the workers while what they call is down.",
            "percentunit",
            Query(f"{failed} / {all_of_them}", "retried"),
            levels=Levels(0.2, 0.5),
            runbook="RedeliveryStorm",
        ),
        graph(
            "Attempts to success",
            "At which attempt records succeed. Much at late attempts: the delays are too short for what is down.",
            "ops",
            Query(
                f"sum by (attempt) (rate(redelivery_successes_total{{{_T}}}[$__rate_interval]))", "attempt {{attempt}}"
            ),
            stacked=True,
        ),
        graph(
            "Failures by attempt",
            "At which attempt records fail and are delivered again; the last failure is a dead letter.",
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
            "rejected and redeliveries_exceeded are the handler's, undecodable the producer's, expired came late.",
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
            "ActiveMQ's: standard, redelivered, poison, expired. For comparison with a broker that was replaced.",
            "ops",
            Query(f"sum by (ack_type) (rate(redelivery_deliveries_total{{{_T}}}[$__rate_interval]))", "{{ack_type}}"),
            stacked=True,
        ),
    ]


def _time() -> list[Panel]:
    return [
        graph(
            "Time in the handler",
            "Of one call. If it grew with the lag, what the handler calls has become slow.",
            "s",
            *quantiles("redelivery_handler_seconds", _G),
            width=8,
        ),
        graph(
            "Time of a write",
            "Copies, outputs and offsets, in one transaction. Seconds: Kafka is slow, or a batch too large.",
            "s",
            *quantiles("redelivery_commit_seconds", _G),
            levels=Levels(1, 10),
            runbook="RedeliveryWritesUndone",
            width=8,
        ),
        graph(
            "Lateness of redeliveries",
            "From due until handed to the handler: the scheduler's part and the wait for a free slot.",
            "s",
            *quantiles("redelivery_delivery_lateness_seconds", _G),
            levels=Levels(1, 5),
            runbook="RedeliveryRetriesLate",
            width=8,
        ),
    ]


def _load() -> list[Panel]:
    return [
        graph(
            "Lag by topic",
            "Records not finished, source and ready topic. Growing: more slots, more workers, a faster handler.",
            "short",
            Query(f"sum by (topic) (redelivery_lag{{{_G}}})", "{{topic}}"),
            runbook="RedeliveryLagGrowing",
            width=8,
        ),
        graph(
            "In the slots or in line for them",
            "By worker. Always full while lag grows: the handler is the bottleneck. Unacknowledged (modes client "
            "and individual): its handlers returned without a word; full of these, a worker fetches nothing more.",
            "short",
            Query(f"sum by (instance) (redelivery_in_flight{{{_G}}})", "{{instance}}"),
            Query(f"sum by (instance) (redelivery_unacknowledged{{{_G}}})", "{{instance}} unacknowledged"),
            width=8,
        ),
        graph(
            "Partitions owned",
            "By worker. Uneven for long: a worker does not take part.",
            "none",
            Query(f"sum by (instance) (redelivery_assigned_partitions{{{_G}}})", "{{instance}}"),
            runbook="RedeliveryPartitionUnowned",
            width=8,
        ),
    ]


def _disturbances() -> list[Panel]:
    return [
        figure(
            "Halted partitions",
            "Not read until a restart. The worker's log says which record, and why its dead letter is refused.",
            "none",
            Query(f"sum(redelivery_halted_partitions{{{_G}}})"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryWorkerHalted",
        ),
        figure(
            "Early",
            "Redeliveries handed out before they were due, in the range shown. Must be 0: else clocks differ.",
            "none",
            Query(f"sum(increase(redelivery_early_total{{{_G}}}[$__range]))"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryEarly",
        ),
        figure(
            "Fenced",
            "Processes that ended because another has their name, in the range shown, as far as a scrape saw it.",
            "none",
            Query(f"sum(increase(redelivery_fenced_total{{{_G}}}[$__range]))"),
            levels=Levels(warning=1),
            runbook="RedeliveryFenced",
        ),
        figure(
            "Restarts",
            "Of workers, in the range shown. Each costs a rebalance.",
            "none",
            Query(f"sum(changes(redelivery_started_timestamp_seconds{{{_G}}}[$__range]))"),
            levels=Levels(1, 3),
            runbook="RedeliveryRestarting",
        ),
        figure(
            "Silence",
            "How long ago the quietest worker told how it stands. A minute or more: it hangs.",
            "s",
            Query(f"max(time() - redelivery_alive_timestamp_seconds{{{_G}}})"),
            levels=Levels(60, 120),
            runbook="RedeliveryProcessStalled",
            width=8,
        ),
        graph(
            "Rebalances",
            "Changes of the assignment. lost means that Kafka gave the worker up before it could finish.",
            "none",
            Query(
                f"sum by (event) (increase(redelivery_rebalances_total{{{_G}}}[$__rate_interval]))",
                "{{event}}",
            ),
        ),
        graph(
            "Writes undone, and halts",
            "An undone write is done again, nothing is lost. Again and again: Kafka is not well.",
            "none",
            Query(f"sum(increase(redelivery_commits_undone_total{{{_G}}}[$__rate_interval]))", "undone"),
            Query(f"sum(increase(redelivery_halts_total{{{_G}}}[$__rate_interval]))", "halts"),
            runbook="RedeliveryWritesUndone",
        ),
    ]
