"""Dashboard of a streaming query on Spark: its micro-batches, and whether it keeps up."""

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
        "One query on Spark. The group's scheduler releases its retry records, as for workers.",
        [_STREAMING],
        [
            Section("Does it keep up?", _pace()),
            Section("Micro-batches", _micro_batches()),
            Section("Outcomes", _outcomes()),
            Section("Times", _time()),
        ],
    )


def _pace() -> list[Panel]:
    return [
        figure(
            "Without progress",
            "Time in the current micro-batch. Minutes: it is too large for the handler, or hangs.",
            "s",
            Query(f"max(time() - redelivery_query_progress_timestamp_seconds{{{_G}}})"),
            levels=Levels(120, 600),
            runbook="RedeliveryQueryStalled",
        ),
        figure(
            "Time spent in micro-batches",
            "100 %: no spare time. If lag grows, raise maxOffsetsPerTrigger or give the query more cores.",
            "percentunit",
            Query(f"sum(rate(redelivery_micro_batch_seconds_sum{{{_G}}}[$__rate_interval]))"),
            levels=Levels(warning=0.9),
            runbook="RedeliveryLagGrowing",
        ),
        figure(
            "Not finished",
            "Unfinished records of source and ready topic, measured at the end of their partitions.",
            "short",
            Query(f"sum(redelivery_lag{{{_G}}})"),
            runbook="RedeliveryLagGrowing",
        ),
        figure(
            "Halts",
            "Times that the query ended to protect data, in the range shown. Its log names the reason.",
            "none",
            Query(f"sum(increase(redelivery_halts_total{{{_G}}}[$__range]))"),
            levels=ANY_IS_BAD,
            runbook="RedeliveryWorkerHalted",
        ),
        figure(
            "Restarts",
            "Starts of the driver, in the range shown. Each costs a new Spark session and a replayed micro-batch.",
            "none",
            Query(f"sum(changes(redelivery_started_timestamp_seconds{{{_G}}}[$__range]))"),
            levels=Levels(1, 3),
            runbook="RedeliveryRestarting",
        ),
        figure(
            "Last report",
            "Time since the last report of the driver. A minute or more: the driver hangs.",
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
            "From trigger to end. A redelivery may wait this long in addition to its delay.",
            "s",
            *quantiles("redelivery_micro_batch_seconds", _G),
            levels=Levels(120, 600),
            runbook="RedeliveryQueryStalled",
            width=8,
        ),
        graph(
            "Records of a micro-batch",
            "Always at pipeline.maxOffsetsPerTrigger: there is more to read than one micro-batch may take.",
            "short",
            *quantiles("redelivery_micro_batch_records", _G),
            width=8,
        ),
        graph(
            "Micro-batches per minute",
            "Many with few records: a longer pipeline.trigger costs less. None: see Without progress.",
            "none",
            Query(f"60 * sum(rate(redelivery_micro_batch_seconds_count{{{_G}}}[$__rate_interval]))", "micro-batches"),
            width=8,
        ),
        graph(
            "Left for later micro-batches",
            "Known offsets that the last micro-batch did not read, by topic. Growing: the query falls behind.",
            "short",
            Query(f"sum by (topic) (redelivery_behind_latest_offsets{{{_G}}})", "{{topic}}"),
            runbook="RedeliveryLagGrowing",
            width=8,
        ),
        graph(
            "Lag by topic",
            "Unfinished records of source and ready topic. Zero when all is done.",
            "short",
            Query(f"sum by (topic) (redelivery_lag{{{_G}}})", "{{topic}}"),
            runbook="RedeliveryLagGrowing",
            width=8,
        ),
        graph(
            "Records per second",
            "Records read by micro-batches, including redeliveries.",
            "ops",
            Query(f"sum(rate(redelivery_micro_batch_records_sum{{{_G}}}[$__rate_interval]))", "read"),
            width=8,
        ),
    ]


def _outcomes() -> list[Panel]:
    return [
        graph(
            "Deliveries by outcome",
            "acked: at the first delivery; recovered: at a redelivery; dead_lettered, discarded: failed for good.",
            "ops",
            Query(f"sum by (outcome) (rate(redelivery_deliveries_total{{{_G}}}[$__rate_interval]))", "{{outcome}}"),
            stacked=True,
            runbook="RedeliveryStorm",
            width=8,
        ),
        graph(
            "Dead letters by reason",
            "rejected, redeliveries_exceeded: the handler failed. undecodable, invalid_value: the producer. "
            "expired: too late.",
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
            "Failed attempts that were followed by a redelivery. The last attempt becomes a dead letter.",
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
            "Duration of one call. If it grew with the micro-batches, a service that the handler calls is slow.",
            "s",
            *quantiles("redelivery_handler_seconds", _G),
            width=8,
        ),
        graph(
            "Time of a write",
            "One transaction of a task: produced records and offsets. Seconds: Kafka is slow.",
            "s",
            *quantiles("redelivery_commit_seconds", _G),
            levels=Levels(1, 10),
            runbook="RedeliveryWritesUndone",
            width=8,
        ),
        graph(
            "Lateness of redeliveries",
            "From the due time until the handler is called, including the wait for the next micro-batch.",
            "s",
            *quantiles("redelivery_delivery_lateness_seconds", _G),
            width=8,
        ),
        graph(
            "Table without progress",
            "Time since the query of pipeline.sink appended to its table, or had nothing to append.",
            "s",
            Query(f"max(time() - redelivery_table_progress_timestamp_seconds{{{_G}}})", "without progress"),
            levels=Levels(300, 900),
            runbook="RedeliveryTableStalled",
            width=8,
        ),
    ]
