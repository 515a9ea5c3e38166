"""Dead letters: how many, why, since when, and how long they will be kept."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.frame import GROUPS, REASON, TOPIC, Section, framed
from grafana.panels import Levels, Panel, Query, figure, graph, listing

_L = 'group=~"$group", topic=~"$topic", reason=~"$reason"'
_G = 'group=~"$group"'
_DAY = 86_400


def dead_letters() -> Dashboard:
    """The dashboard for whoever clears up."""
    return framed(
        "redelivery-dead-letters",
        "Redelivery / Dead letters",
        "What could not be processed: by origin and reason, with age and time until deletion.",
        [GROUPS, TOPIC, REASON],
        [
            Section("Now", _now()),
            Section("Arrivals", _arrivals()),
            Section("What is kept", _kept()),
            Section("Expiration", _expiration()),
        ],
    )


def _now() -> list[Panel]:
    return [
        figure(
            "Kept",
            "Dead letters in their topics that have not expired.",
            "short",
            Query(f"sum(redelivery_dead_letter_depth{{{_L}}})"),
            levels=Levels(warning=1),
            none="0",
        ),
        figure(
            "Age of the oldest",
            "How long somebody has not looked at it.",
            "s",
            Query(f"time() - min(redelivery_dead_letter_oldest_timestamp_seconds{{{_L}}})"),
            levels=Levels(_DAY, 7 * _DAY),
            none="none",
        ),
        figure(
            "Until the first one is deleted",
            "Retention may then delete one that has not expired by itself. To win time raise retention.ms.",
            "s",
            Query(f"min(redelivery_dead_letter_deletion_timestamp_seconds{{{_G}}}) - time()"),
            levels=Levels(7 * _DAY, _DAY, reverse=True),
            runbook="RedeliveryDeadLetterNearRetention",
            none="never",
        ),
        figure(
            "Growth in an hour",
            "Kept now minus kept an hour ago; negative while somebody clears up.",
            "short",
            Query(f"sum(delta(redelivery_dead_letter_depth{{{_L}}}[1h]))"),
            levels=Levels(warning=1),
            runbook="RedeliveryDeadLettersGrowing",
        ),
        figure(
            "Expired",
            "Kept, though their own expiration has passed. Nobody needs to look at them.",
            "short",
            Query(f"sum(redelivery_dead_letter_expired{{{_L}}})"),
            none="0",
        ),
        figure(
            "Not counted yet",
            "After a scheduler's start it reads all dead letters once; until this is 0 all figures here are too low.",
            "short",
            Query(f"sum(redelivery_dead_letter_unread{{{_G}}})"),
            levels=Levels(warning=1000),
            runbook="RedeliveryDeadLettersUncounted",
        ),
    ]


def _arrivals() -> list[Panel]:
    died = f"sum by (group, topic) (rate(redelivery_dead_letters_total{{{_L}}}[$__rate_interval]))"
    ended = (
        "sum by (group, topic) "
        '(rate(redelivery_deliveries_total{group=~"$group", topic=~"$topic", outcome!="retried"}[$__rate_interval]))'
    )
    return [
        graph(
            "New dead letters by reason",
            "rejected, redeliveries_exceeded: the handler. undecodable: the producer. expired: too late. dropped: not "
            "kept, as the configuration says, or a duplicate of one that is.",
            "ops",
            Query(
                f"sum by (topic, reason) (rate(redelivery_dead_letters_total{{{_L}}}[$__rate_interval]))",
                "{{topic}} {{reason}}",
            ),
            Query(
                f"sum by (topic, reason) (rate(redelivery_discarded_total{{{_L}}}[$__rate_interval]))",
                "{{topic}} {{reason}} dropped",
            ),
            stacked=True,
            runbook="RedeliveryDeadLettersGrowing",
        ),
        graph(
            "Share of the records that die",
            "Of all that ended. Above 5 %: a release or a dependency is broken; roll back, or stop the workers.",
            "percentunit",
            Query(f"{died} / {ended}", "{{topic}}"),
            levels=Levels(0.01, 0.05),
            runbook="RedeliveryDeadLetterRatio",
        ),
    ]


def _kept() -> list[Panel]:
    return [
        graph(
            "Kept by origin and reason",
            "A pile that stays is old work; one that grows is a bleed.",
            "short",
            Query(f"sum by (topic, reason) (redelivery_dead_letter_depth{{{_L}}})", "{{topic}} {{reason}}"),
            stacked=True,
            runbook="RedeliveryDeadLettersGrowing",
        ),
        graph(
            "Age of the oldest, by origin and reason",
            "It falls only when the oldest is deleted or expires.",
            "s",
            Query(
                f"time() - min by (topic, reason) (redelivery_dead_letter_oldest_timestamp_seconds{{{_L}}})",
                "{{topic}} {{reason}}",
            ),
        ),
        graph(
            "Time until deletion",
            "By topic, of the first that retention may delete before it has expired; without any it is not there.",
            "s",
            Query(
                f"min by (dead_letter_topic) (redelivery_dead_letter_deletion_timestamp_seconds{{{_G}}}) - time()",
                "{{dead_letter_topic}}",
            ),
            levels=Levels(7 * _DAY, _DAY, reverse=True),
            runbook="RedeliveryDeadLetterNearRetention",
            width=8,
        ),
        graph(
            "Not counted yet",
            "Falls to 0 after a start. Growing: more die than can be counted.",
            "short",
            Query(
                f"sum by (dead_letter_topic) (redelivery_dead_letter_unread{{{_G}}})",
                "{{dead_letter_topic}}",
            ),
            runbook="RedeliveryDeadLettersUncounted",
            width=8,
        ),
        listing(
            "Retention of the topics",
            "In seconds, as configured in Kafka. Not listed: kept for ever.",
            Query(f"max by (group, dead_letter_topic) (redelivery_dead_letter_retention_seconds{{{_G}}})"),
            width=8,
        ),
    ]


def _expiration() -> list[Panel]:
    return [
        graph(
            "Expired and removed",
            "Removed for good when nothing that is kept stands before them; moved before, if there is an expiry topic.",
            "ops",
            Query(
                f"sum by (dead_letter_topic) (rate(redelivery_expired_removed_total{{{_G}}}[$__rate_interval]))",
                "{{dead_letter_topic}} removed",
            ),
            Query(
                f"sum by (dead_letter_topic) (rate(redelivery_expired_moved_total{{{_G}}}[$__rate_interval]))",
                "{{dead_letter_topic}} moved",
            ),
        ),
        graph(
            "Why partitions are not swept on",
            "not_yet: the first dead letter expires later, as it should be. never, others: it keeps those behind it, "
            "expired or not; redrive or delete it. refused: see the scheduler's log.",
            "short",
            Query(
                f"sum by (dead_letter_topic, reason) (redelivery_sweep_resting_partitions{{{_G}}})",
                "{{dead_letter_topic}} {{reason}}",
            ),
            stacked=True,
        ),
        graph(
            "Time until the next one expires",
            "Of those that are first in their partition. Below zero: the sweeper is late, look at the scheduler's log.",
            "s",
            Query(
                f"min by (dead_letter_topic) (redelivery_sweep_next_timestamp_seconds{{{_G}}}) - time()",
                "{{dead_letter_topic}}",
            ),
        ),
        graph(
            "Faults of the sweeper",
            "Refused: the right to delete or to write is missing, or a copy does not fit. Clock: a machine's clock is "
            "ahead of Kafka's; nothing is removed by it, but set it right.",
            "short",
            Query(
                f"sum by (dead_letter_topic) (increase(redelivery_sweep_refused_total{{{_G}}}[$__rate_interval]))",
                "{{dead_letter_topic}} refused",
            ),
            Query(
                f"sum by (group) (increase(redelivery_sweep_clock_faults_total{{{_G}}}[$__rate_interval]))",
                "{{group}} clock",
            ),
        ),
    ]
