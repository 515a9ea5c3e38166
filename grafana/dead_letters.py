"""Dashboard of dead letters: number, reason, age, and time until deletion."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.frame import GROUPS, REASON, TOPIC, Section, framed
from grafana.panels import Levels, Panel, Query, figure, graph, listing

_L = 'group=~"$group", topic=~"$topic", reason=~"$reason"'
_G = 'group=~"$group"'
_DAY = 86_400


def dead_letters() -> Dashboard:
    """The dashboard for clearing up dead letters."""
    return framed(
        "redelivery-dead-letters",
        "Redelivery / Dead letters",
        "Records that could not be processed, by origin and reason, with age and time until deletion.",
        [GROUPS, TOPIC, REASON],
        [
            Section("Now", _now()),
            Section("Arrivals", _arrivals()),
            Section("Kept dead letters", _kept()),
            Section("Sent again", _sent_again()),
            Section("Expiration", _expiration()),
        ],
    )


def _now() -> list[Panel]:
    return [
        figure(
            "Kept",
            "Dead letters that have not expired.",
            "short",
            Query(f"sum(redelivery_dead_letter_depth{{{_L}}})"),
            levels=Levels(warning=1),
            none="0",
            view="failures",
        ),
        figure(
            "Age of the oldest",
            "Age of the oldest dead letter that has not expired.",
            "s",
            Query(f"time() - min(redelivery_dead_letter_oldest_timestamp_seconds{{{_L}}})"),
            levels=Levels(_DAY, 7 * _DAY),
            none="none",
            view="letters?order=oldest",
        ),
        figure(
            "Time until first deletion",
            "Retention may then delete a dead letter that has not expired. Raise retention.ms to gain time.",
            "s",
            Query(f"min(redelivery_dead_letter_deletion_timestamp_seconds{{{_G}}}) - time()"),
            levels=Levels(7 * _DAY, _DAY, reverse=True),
            runbook="RedeliveryDeadLetterNearRetention",
            none="never",
            view="letters?order=oldest",
        ),
        figure(
            "Growth in an hour",
            "Kept now minus kept an hour ago; negative while dead letters are cleared up.",
            "short",
            Query(f"sum(delta(redelivery_dead_letter_depth{{{_L}}}[1h]))"),
            levels=Levels(warning=1),
            runbook="RedeliveryDeadLettersGrowing",
        ),
        figure(
            "Expired",
            "Still in the topic after their expiration. They need no attention.",
            "short",
            Query(f"sum(redelivery_dead_letter_expired{{{_L}}})"),
            none="0",
        ),
        figure(
            "Not counted yet",
            "A scheduler counts all dead letters after its start. Until this is 0, all figures here are too low.",
            "short",
            Query(f"sum(redelivery_dead_letter_unread{{{_G}}})"),
            levels=Levels(warning=1000),
            runbook="RedeliveryDeadLettersUncounted",
        ),
    ]


def _arrivals() -> list[Panel]:
    dead = f"sum by (group, topic) (rate(redelivery_dead_letters_total{{{_L}}}[$__rate_interval]))"
    ended = (
        "sum by (group, topic) "
        '(rate(redelivery_deliveries_total{group=~"$group", topic=~"$topic", outcome!="retried"}[$__rate_interval]))'
    )
    return [
        graph(
            "New dead letters by reason",
            "Look at the handler for rejected and redeliveries_exceeded, at the producer for undecodable and "
            "invalid_value, at lag for expired. dropped: discarded by configuration, or a duplicate.",
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
            view="failures?since=3h",
        ),
        graph(
            "Share of dead letters",
            "Of all finished records. Above 5 %: a release or a dependency is broken; roll back, or stop the workers.",
            "percentunit",
            Query(f"{dead} / {ended}", "{{topic}}"),
            levels=Levels(0.01, 0.05),
            runbook="RedeliveryDeadLetterRatio",
        ),
    ]


def _kept() -> list[Panel]:
    return [
        graph(
            "Kept by origin and reason",
            "Constant: old failures. Growing: records fail now.",
            "short",
            Query(f"sum by (topic, reason) (redelivery_dead_letter_depth{{{_L}}})", "{{topic}} {{reason}}"),
            stacked=True,
            runbook="RedeliveryDeadLettersGrowing",
            view="failures",
        ),
        graph(
            "Age of the oldest, by origin and reason",
            "Falls only when the oldest dead letter is deleted or expires.",
            "s",
            Query(
                f"time() - min by (topic, reason) (redelivery_dead_letter_oldest_timestamp_seconds{{{_L}}})",
                "{{topic}} {{reason}}",
            ),
        ),
        graph(
            "Time until deletion",
            "By topic, of the first dead letter that retention may delete before it expires; absent if there is none.",
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
            "Falls to 0 after a start. Growing: records are dead-lettered faster than they are counted.",
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
            "In seconds, as configured in Kafka. Not listed: unlimited.",
            Query(f"max by (group, dead_letter_topic) (redelivery_dead_letter_retention_seconds{{{_G}}})"),
            width=8,
        ),
    ]


def _sent_again() -> list[Panel]:
    chosen = 'group=~"$group", topic=~"$topic"'
    redriven = f"redelivery_redriven_total{{{chosen}}}"
    recovered, dead = (
        f'redelivery_redriven_total{{{chosen}, outcome="{outcome}"}}' for outcome in ("recovered", "dead_again")
    )
    arrived = f"redelivery_redriven_arrived_total{{{chosen}}}"
    rate = "sum by (topic) (rate({}[$__rate_interval]))"
    return [
        graph(
            "Sent again",
            "Counted when their first delivery since is over. Those that have not ended yet are retried.",
            "ops",
            Query(rate.format(arrived), "{{topic}}"),
            width=8,
        ),
        graph(
            "What became of them",
            "recovered: the cause is gone. dead_again: it is not; cancel the job, and fix it first.",
            "ops",
            Query(f"sum by (topic, outcome) (rate({redriven}[$__rate_interval]))", "{{topic}} {{outcome}}"),
            stacked=True,
            width=8,
            runbook="RedeliveryRedriveInVain",
            view="jobs",
        ),
        graph(
            "Share that dies again",
            "Of the records that were sent again and have ended. Above 50 %: the job is in vain.",
            "percentunit",
            Query(f"{rate.format(dead)} / {rate.format(redriven)}", "{{topic}}"),
            levels=Levels(0.1, 0.5),
            width=8,
            runbook="RedeliveryRedriveInVain",
        ),
        figure(
            "Recovered",
            "In the time shown. How many a job has sent and parked: `redelivery dlq jobs`.",
            "short",
            Query(f"sum(increase({recovered}[$__range]))"),
            none="0",
        ),
        figure(
            "Died again",
            "In the time shown. Each is a dead letter again.",
            "short",
            Query(f"sum(increase({dead}[$__range]))"),
            levels=Levels(warning=1),
            none="0",
        ),
    ]


def _expiration() -> list[Panel]:
    return [
        graph(
            "Expired and removed",
            "Removed when no kept record precedes them; moved first if there is an expiry topic.",
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
            "Partitions at rest, by reason",
            "not_yet: the first dead letter expires later, which is normal. never, others: the first record keeps all "
            "behind it; redrive or delete it. refused: see the scheduler's log.",
            "short",
            Query(
                f"sum by (dead_letter_topic, reason) (redelivery_sweep_resting_partitions{{{_G}}})",
                "{{dead_letter_topic}} {{reason}}",
            ),
            stacked=True,
        ),
        graph(
            "Time until the next expiration",
            "Of the first dead letters of all partitions. Below zero: the sweeper is late; see the scheduler's log.",
            "s",
            Query(
                f"min by (dead_letter_topic) (redelivery_sweep_next_timestamp_seconds{{{_G}}}) - time()",
                "{{dead_letter_topic}}",
            ),
            signed=True,
        ),
        graph(
            "Sweeper errors",
            "Refused: the right to delete or write is missing, or a record is too large. Clock: a machine's clock is "
            "ahead of Kafka's. Nothing is removed because of it; correct it.",
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
