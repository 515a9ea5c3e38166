"""A streaming query on Spark: what its micro-batches do, and whether they keep up."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.consumer_group import quantiles
from grafana.frame import Choice, Section, framed
from grafana.panels import ANY_IS_BAD, Levels, Panel, Query, figure, graph

_G = 'group="$group", role="stream"'
_STREAMING = Choice("group", 'label_values(redelivery_build_info{role="stream"}, group)', "Query", several=False)


def stream() -> Dashboard:
    """The dashboard of ``redelivery pipeline stream``."""
    return framed(
        "redelivery-stream",
        "Redelivery / Streaming query",
        "One query on Spark. What it retries is released by the same scheduler as workers' retries.",
        [_STREAMING],
        [
            Section("Does it keep up?", _pace()),
            Section("Micro-batches", _micro_batches()),
            Section("Outcomes", _outcomes()),
            Section("Time of records", _time()),
        ],
    )


def _pace() -> list[Panel]:
    return [
        figure(
            "Without progress",
            "For how long it has been at one micro-batch. Minutes: that is too large for the handler, or hangs.",
            "s",
            Query(f"max(time() - redelivery_query_progress_timestamp_seconds{{{_G}}})"),
            levels=Levels(120, 600),
            runbook="RedeliveryQueryStalled",
        ),
        figure(
            "Time spent in micro-batches",
            "100 %: it never rests, and lag grows if more comes. Allow larger ones, or give it more cores.",
            "percentunit",
            Query(f"sum(rate(redelivery_micro_batch_seconds_sum{{{_G}}}[$__rate_interval]))"),
            levels=Levels(warning=0.9),
            runbook="RedeliveryLagGrowing",
        ),
        figure(
            "Not finished",
            "Records of source and ready topic, measured at the end of their partitions.",
            "short",
            Query(f"sum(redelivery_lag{{{_G}}})"),
            runbook="RedeliveryLagGrowing",
        ),
        figure(
            "Halts",
            "Times that it ended to protect data, in the range shown. Its log says why.",
            "none",
            Query(f"sum(increase(redelivery_halts_total{{{_G}}}[$__range]))"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryWorkerHalted",
        ),
        figure(
            "Restarts",
            "Of the driver, in the range shown. Each costs the start of a Spark session and a replayed micro-batch.",
            "none",
            Query(f"sum(changes(redelivery_started_timestamp_seconds{{{_G}}}[$__range]))"),
            levels=Levels(1, 3),
            runbook="RedeliveryRestarting",
        ),
        figure(
            "Silence",
            "How long ago the driver told how it stands. A minute or more: the driver itself hangs.",
            "s",
            Query(f"max(time() - redelivery_alive_timestamp_seconds{{{_G}}})"),
            levels=Levels(60, 120),
            runbook="RedeliveryProcessStalled",
        ),
    ]


def _micro_batches() -> list[Panel]:
    return [
        graph(
            "Time of a micro-batch",
            "From trigger to end. A redelivery may have to wait for so long, beside its delay.",
            "s",
            *quantiles("redelivery_micro_batch_seconds", _G),
            levels=Levels(120, 600),
            runbook="RedeliveryQueryStalled",
            width=8,
        ),
        graph(
            "Records of a micro-batch",
            "Always at pipeline.maxOffsetsPerTrigger: there is more to read than it may take at once.",
            "short",
            *quantiles("redelivery_micro_batch_records", _G),
            width=8,
        ),
        graph(
            "Micro-batches a minute",
            "Many with few records: a longer pipeline.trigger costs less. None: see the time without progress.",
            "none",
            Query(f"60 * sum(rate(redelivery_micro_batch_seconds_count{{{_G}}}[$__rate_interval]))", "micro-batches"),
            width=8,
        ),
        graph(
            "Left for later ones",
            "Offsets that the last micro-batch knew of and did not read, by topic. Growing: it falls behind.",
            "short",
            Query(f"sum by (topic) (redelivery_behind_latest_offsets{{{_G}}})", "{{topic}}"),
            runbook="RedeliveryLagGrowing",
            width=8,
        ),
        graph(
            "Lag by topic",
            "Records not finished, source and ready topic. It reaches zero when all is done.",
            "short",
            Query(f"sum by (topic) (redelivery_lag{{{_G}}})", "{{topic}}"),
            runbook="RedeliveryLagGrowing",
            width=8,
        ),
        graph(
            "Records a second",
            "What micro-batches read, redeliveries included.",
            "ops",
            Query(f"sum(rate(redelivery_micro_batch_records_sum{{{_G}}}[$__rate_interval]))", "read"),
            width=8,
        ),
    ]


def _outcomes() -> list[Panel]:
    return [
        graph(
            "Deliveries by outcome",
            "acked: at once; recovered: after a redelivery; retried: comes again; dead_lettered, discarded: given up.",
            "ops",
            Query(f"sum by (outcome) (rate(redelivery_deliveries_total{{{_G}}}[$__rate_interval]))", "{{outcome}}"),
            stacked=True,
            runbook="RedeliveryStorm",
            width=8,
        ),
        graph(
            "Dead letters by reason",
            "rejected and redeliveries_exceeded are the handler's, undecodable the producer's, expired came late.",
            "ops",
            Query(
                f"sum by (topic, reason) (rate(redelivery_dead_letters_total{{{_G}}}[$__rate_interval]))",
                "{{topic}} {{reason}}",
            ),
            stacked=True,
            runbook="RedeliveryDeadLettersGrowing",
            width=8,
        ),
        graph(
            "Failures by attempt",
            "At which attempt records fail and are delivered again; the last failure is a dead letter.",
            "ops",
            Query(
                f"sum by (attempt) (rate(redelivery_redeliveries_total{{{_G}}}[$__rate_interval]))",
                "attempt {{attempt}}",
            ),
            stacked=True,
            runbook="RedeliveryStorm",
            width=8,
        ),
    ]


def _time() -> list[Panel]:
    return [
        graph(
            "Time in the handler",
            "Of one call. If it grew with the time of a micro-batch, what the handler calls has become slow.",
            "s",
            *quantiles("redelivery_handler_seconds", _G),
            width=8,
        ),
        graph(
            "Time of a write",
            "One task's copies, outputs and offsets, in one transaction. Seconds: Kafka is slow.",
            "s",
            *quantiles("redelivery_commit_seconds", _G),
            levels=Levels(1, 10),
            runbook="RedeliveryWritesUndone",
            width=8,
        ),
        graph(
            "Lateness of redeliveries",
            "From due until handed to the handler: on Spark the wait for the next micro-batch and for its turn in it.",
            "s",
            *quantiles("redelivery_delivery_lateness_seconds", _G),
            width=8,
        ),
    ]
