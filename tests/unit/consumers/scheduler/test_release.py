"""Where a record goes when it leaves its tier: to its ready topic, to a shorter tier, or to the dead letters."""

import json
from collections.abc import Mapping, Sized
from typing import Any

import pytest

from kafka_redelivery.consumers.routes import UNKNOWN_SOURCE
from kafka_redelivery.consumers.scheduler.release import CommitLeadTime, Release, ReleaseBuilder, TopicMissingError
from kafka_redelivery.consumers.scheduler.tier_partition import TierRecord
from kafka_redelivery.consumers.telemetry.observers import OutcomeLabel
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import AckType
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.topics.tiers import TierSet
from kafka_redelivery.topology.wire.headers import read_due, read_expiration, read_lineage
from kafka_redelivery.topology.wire.journal import journalled_outcome
from kafka_redelivery.transport.protocols import Partition, ProducerRecord
from tests.unit.consumers.records import BORN, NOW, Fetched, lineage, waiting_headers

TIER = Partition("billing.retry.2s", 1)
COUNTS = {
    "orders": 6,
    "invoices": 6,
    "billing.retry.1s": 4,
    "billing.retry.2s": 4,
    "billing.retry.mixed": 3,
    "billing.ready.orders": 6,
    "billing.ready.invoices": 6,
    "DLQ.orders": 2,
    "DLQ.invoices": 2,
}


def configured(orders: str = "{}", invoices: str = "{}", journal: str = "false") -> Settings:
    """The group ``billing`` with two sources that have these dead-letter strategies."""
    return load_settings(
        f"""
        group: billing
        kafka: {{bootstrap.servers: "localhost:9092"}}
        sources:
        - topic: orders
          policy: {{deadLetterStrategy: {orders}}}
        - topic: invoices
          policy: {{deadLetterStrategy: {invoices}}}
        journal: {journal}
        """
    )


def builder(settings: Settings | None = None, counts: Mapping[str, int] = COUNTS) -> ReleaseBuilder:
    """A builder for two tiers and the mixed topic."""
    return ReleaseBuilder(configured() if settings is None else settings, TierSet((1000, 2000), mixed=True), counts)


def waiting(
    origin: Lineage,
    *,
    due_ms: int = NOW,
    final: bool = True,
    offset: int = 7,
    own: list[tuple[str, bytes | None]] | None = None,
) -> TierRecord:
    """A record that leaves now."""
    headers = waiting_headers(origin, delay_ms=2000, due_ms=due_ms, own=own or [])
    message = Fetched(TIER.topic, TIER.number, offset, b"\x00key", b"\x00value", headers, NOW - 2000)
    return TierRecord(NOW, offset, due_ms, final, message, 0)


def released(record: TierRecord, *, by: ReleaseBuilder | None = None, refusal: str | None = None) -> Release:
    """The write with this record alone."""
    release = Release()
    (builder() if by is None else by).add(release, TIER, record, NOW, refusal)
    assert release.origins == [(TIER, record.offset)] * len(release.produced)
    return release


def cause(produced: ProducerRecord) -> dict[str, Any]:
    """The failure cause of a dead letter."""
    found: dict[str, Any] = json.loads(dict(produced.headers or [])["dlqDeliveryFailureCause"] or b"")
    return found


class TestReady:
    def test_a_due_record_becomes_ready(self) -> None:
        """Its bytes are unchanged, it goes to the partition of its origin and keeps its due time."""
        origin = lineage(42, partition=5, deliveries=2)
        release = released(waiting(origin, due_ms=NOW - 3, own=[("traceparent", b"00-1")]))
        [produced] = release.produced
        assert produced[:4] == ("billing.ready.orders", 5, b"\x00key", b"\x00value")
        assert (produced.headers or [])[0] == ("traceparent", b"00-1")
        assert "AMQ_SCHEDULED_DELAY" not in dict(produced.headers or [])
        assert read_lineage(produced.headers or ()) == origin
        assert read_due(produced.headers or ()) == NOW - 3
        assert release.due_ms == [NOW - 3]
        assert (release.moved, release.outcomes) == (0, {})

    def test_null_stays_null(self) -> None:
        """A tombstone waits like any record."""
        message = Fetched(*TIER, 7, None, None, waiting_headers(lineage()), NOW)
        [produced] = released(TierRecord(NOW, 7, NOW, True, message, 0)).produced  # noqa: FBT003 - a named tuple
        assert (produced.key, produced.value) == (None, None)

    def test_each_source_has_its_own_ready_topic(self) -> None:
        """The topic of the origin decides."""
        origin = Lineage("invoices", 1, 2, BORN, 1)
        assert released(waiting(origin)).produced[0].topic == "billing.ready.invoices"

    def test_a_source_that_is_not_configured_keeps_its_ready_topic(self, caplog: pytest.LogCaptureFixture) -> None:
        """Its retries wait there for a worker that reads it; the log says so once."""
        by, release = builder(counts={**COUNTS, "billing.ready.gone": 2}), Release()
        for offset in (7, 8):
            by.add(release, TIER, waiting(Lineage("gone", 3, 9, BORN, 1), offset=offset), NOW, None)
        assert [(each.topic, each.partition) for each in release.produced] == [("billing.ready.gone", 1)] * 2
        assert release.dead_letters == {}
        [warning] = caplog.records
        assert warning.message.startswith("gone is not among the sources of group billing: its retries are released to")

    def test_a_final_record_never_moves(self) -> None:
        """Rounding by 1 ms or a wrong clock must not send it to another tier."""
        release = released(waiting(lineage(), due_ms=NOW + 1))
        assert release.produced[0].topic == "billing.ready.orders"
        assert release.due_ms == [NOW + 1]

    def test_a_record_that_became_due_meanwhile_is_ready(self) -> None:
        """The scheduler was down for longer than the shorter tiers take."""
        assert released(waiting(lineage(), due_ms=NOW, final=False)).produced[0].topic == "billing.ready.orders"


class TestMoved:
    @pytest.mark.parametrize(
        ("remaining_ms", "topic", "partitions"),
        [
            (1, "billing.retry.mixed", 3),
            (999, "billing.retry.mixed", 3),
            (1000, "billing.retry.1s", 4),
            (1999, "billing.retry.1s", 4),
            (2000, "billing.retry.2s", 4),
            (86_400_000, "billing.retry.2s", 4),
        ],
    )
    def test_to_the_largest_tier_not_above_the_remaining_time(
        self, remaining_ms: int, topic: str, partitions: int
    ) -> None:
        """The headers stay as they are."""
        record = waiting(lineage(partition=6), due_ms=NOW + remaining_ms, final=False)
        release = released(record)
        [produced] = release.produced
        # From tier to tier it stays in the partition of this number, so that a write has few.
        assert (produced.topic, produced.partition) == (topic, 6 % partitions if "mixed" in topic else TIER.number)
        assert produced.headers == record.message.headers()
        assert (release.moved, release.due_ms) == (1, [])

    def test_out_of_the_mixed_topic_to_the_number_of_the_origin(self) -> None:
        """There each record has the partition of its origin."""
        release, mixed = Release(), Partition("billing.retry.mixed", 2)
        builder().add(release, mixed, waiting(lineage(partition=5), due_ms=NOW + 1500, final=False), NOW, None)
        [produced] = release.produced
        assert (produced.topic, produced.partition) == ("billing.retry.1s", 5 % 4)


class TestDeadLetter:
    def test_a_refused_record(self) -> None:
        """The dead letter has the broker's reason and the number of deliveries."""
        release = released(waiting(lineage(deliveries=2)), refusal="too large")
        [produced] = release.produced
        assert (produced.topic, produced.partition) == ("DLQ.orders", 5 % 2)
        assert (produced.key, produced.value) == (b"\x00key", b"\x00value")
        assert cause(produced) == {
            "reason": "undeliverable",
            "exception": "Undeliverable",
            "message": "too large",
            "frames": [],
        }
        assert read_lineage(produced.headers or ()).deliveries == 2
        assert release.dead_letters == {("orders", "undeliverable"): 1}
        assert release.outcomes == {OutcomeLabel("orders", "dead_lettered", AckType.POISON): 1}
        assert release.due_ms == []

    def test_a_refused_move(self) -> None:
        """A record that is not due yet can be refused, too."""
        release = released(waiting(lineage(), due_ms=NOW + 1500, final=False), refusal="too large")
        assert [produced.topic for produced in release.produced] == ["DLQ.orders"]
        assert release.moved == 0

    def test_a_source_that_is_not_configured_and_has_no_ready_topic(self) -> None:
        """The source and its topic were removed, so an operator decides about the record."""
        release = released(waiting(Lineage("gone", 3, 9, BORN, 1)))
        [produced] = release.produced
        assert produced.topic == "DLQ.orders"
        assert "gone is not among the sources of group billing" in cause(produced)["message"]
        assert dict(produced.headers or [])["_AMQ_ORIG_ADDRESS"] == b"gone"
        assert release.dead_letters == {(UNKNOWN_SOURCE, "undeliverable"): 1}

    @pytest.mark.parametrize(
        ("missing", "expected"),
        [
            ("_AMQ_ORIG_MESSAGE_ID", Lineage(TIER.topic, TIER.number, 7, BORN, 1)),
            ("JMSTimestamp", lineage()._replace(timestamp_ms=NOW - 2000)),
            ("JMSXDeliveryCount", lineage(deliveries=0)),
        ],
    )
    def test_damaged_headers(self, missing: str, expected: Lineage) -> None:
        """The cause names the header. The dead letter keeps what can be read; the rest is that of the record here."""
        headers = [pair for pair in waiting_headers(lineage()) if pair[0] != missing]
        message = Fetched(*TIER, 7, None, b"value", headers, NOW - 2000)
        [produced] = released(TierRecord(NOW, 7, NOW, True, message, 0)).produced  # noqa: FBT003 - a named tuple
        assert (produced.topic, produced.partition) == ("DLQ.orders", expected.partition % 2)
        assert (cause(produced)["reason"], cause(produced)["exception"]) == ("bad_headers", "HeaderError")
        assert missing in cause(produced)["message"]
        assert read_lineage(produced.headers or ()) == expected
        assert dict(produced.headers or [])["_AMQ_ORIG_ADDRESS"] == b"orders"

    def test_damaged_headers_with_a_readable_address(self) -> None:
        """The address alone selects the policy and the dead-letter topic."""
        headers: list[tuple[str, bytes | None]] = [("_AMQ_ORIG_ADDRESS", b"invoices")]
        message = Fetched(*TIER, 7, None, b"value", headers, NOW - 2000)
        release = released(TierRecord(NOW, 7, NOW, True, message, 0))  # noqa: FBT003 - a named tuple
        [produced] = release.produced
        assert produced.topic == "DLQ.invoices"
        assert dict(produced.headers or [])["_AMQ_ORIG_ADDRESS"] == b"invoices"
        assert release.dead_letters == {("invoices", "bad_headers"): 1}

    def test_records_with_damaged_headers_are_no_duplicates(self) -> None:
        """Two records that name one origin may be different records, so both are dead-lettered."""
        headers = [pair for pair in waiting_headers(lineage()) if pair[0] != "JMSXDeliveryCount"]
        by, release = builder(), Release()
        for offset in (7, 8):
            message = Fetched(*TIER, offset, None, b"value", headers, NOW - 2000)
            by.add(release, TIER, TierRecord(NOW, offset, NOW, True, message, 0), NOW, None)  # noqa: FBT003
        assert len(release.produced) == 2

    def test_without_a_ready_topic_its_partition_halts(self) -> None:
        """The source is configured, so the topic was deleted, or may not be described."""
        counts = {topic: count for topic, count in COUNTS.items() if topic != "billing.ready.orders"}
        with pytest.raises(TopicMissingError, match=r"there is no topic billing\.ready\.orders") as caught:
            released(waiting(lineage()), by=builder(counts=counts))
        assert caught.value.origin == (TIER, 7)
        assert caught.value.record.topic == "billing.ready.orders"

    def test_without_a_dead_letter_topic_its_partition_halts(self) -> None:
        """There is no other topic for the record."""
        counts = {topic: count for topic, count in COUNTS.items() if topic != "DLQ.orders"}
        with pytest.raises(TopicMissingError, match=r"there is no topic DLQ\.orders") as caught:
            released(waiting(lineage()), by=builder(counts=counts), refusal="too large")
        assert caught.value.origin == (TIER, 7)
        assert caught.value.record.topic == "DLQ.orders"

    def test_a_dead_letter_has_the_expiration_of_its_strategy(self) -> None:
        """Like every dead letter of its source."""
        settings = configured(orders="{expiration: 60000}")
        [produced] = released(waiting(lineage()), by=builder(settings), refusal="no").produced
        assert read_expiration(produced.headers or ()) == NOW + 60_000

    def test_a_shared_dead_letter_topic(self) -> None:
        """It has its own name."""
        settings = configured(orders="{kind: shared}")
        counts = {**COUNTS, "ActiveMQ.DLQ": 6}
        [produced] = released(waiting(lineage()), by=builder(settings, counts), refusal="no").produced
        assert (produced.topic, produced.partition) == ("ActiveMQ.DLQ", 5)


class TestDiscard:
    COUNTS = {topic: count for topic, count in COUNTS.items() if topic != "DLQ.orders"}  # noqa: RUF012 - not changed

    def test_a_source_that_discards_has_no_dead_letters(self) -> None:
        """Its records are counted, and the tier goes on."""
        settings = configured(orders="{kind: discarding}")
        release = released(waiting(lineage()), by=builder(settings, self.COUNTS), refusal="no")
        assert release.produced == []
        assert release.dead_letters == {}
        assert release.outcomes == {OutcomeLabel("orders", "discarded", AckType.POISON): 1}

    def test_a_source_that_is_not_configured_uses_any_dead_letter_topic(self) -> None:
        """Its records are not discarded while a source keeps its dead letters."""
        settings = configured(orders="{kind: discarding}")
        release = released(waiting(Lineage("gone", 3, 9, BORN, 1)), by=builder(settings, self.COUNTS))
        assert [produced.topic for produced in release.produced] == ["DLQ.invoices"]


class TestJournal:
    COUNTS = {**COUNTS, "billing.journal": 4}  # noqa: RUF012 - not changed

    def test_what_cannot_be_released_is_noted_with_its_origin(self) -> None:
        """A record for each source partition, in the write of the dead letters. What is released needs none."""
        by, release = builder(configured(orders="{kind: discarding}", journal="true"), self.COUNTS), Release()
        origins = [lineage(5), lineage(6), Lineage("invoices", 1, 2, BORN, 1), lineage(7)]
        for offset, (origin, refusal) in enumerate(zip(origins, ["no", "no", "no", None], strict=True)):
            by.add(release, TIER, waiting(origin, offset=offset), NOW, refusal)
        release.close()
        assert [produced.topic for produced in release.produced] == [
            "DLQ.invoices",
            "billing.ready.orders",
            "billing.journal",
            "billing.journal",
        ]
        assert release.origins == [(TIER, 2), (TIER, 3), (TIER, 0), (TIER, 2)]
        [orders, invoices] = release.produced[2:]
        assert ((orders.key, orders.partition), (invoices.key, invoices.partition)) == (
            (b"orders-5", 1),
            (b"invoices-1", 1),
        )
        assert [journalled_outcome(orders.value, offset) for offset in (5, 6, 7)] == ["discarded", "discarded", None]
        assert journalled_outcome(invoices.value, 2) == "dead_lettered"

    def test_without_its_topic_the_partition_halts(self) -> None:
        """As it does without a dead-letter topic: the outcome must be known."""
        by = builder(configured(journal="true"))
        with pytest.raises(TopicMissingError, match=r"there is no topic billing\.journal") as caught:
            released(waiting(lineage()), by=by, refusal="too large")
        assert caught.value.origin == (TIER, 7)


def test_a_write_of_many_records() -> None:
    """Each produced record has its origin, in order."""
    settings = configured(orders="{kind: discarding}")
    by, release = builder(settings, TestDiscard.COUNTS), Release()
    by.add(release, TIER, waiting(lineage(), offset=1), NOW, None)
    by.add(release, TIER, waiting(lineage(), offset=2), NOW, "refused")
    by.add(release, Partition("billing.retry.1s", 0), waiting(lineage(), offset=2), NOW, None)
    by.add(release, TIER, waiting(lineage(), due_ms=NOW + 1500, final=False, offset=3), NOW, None)
    assert [produced.topic for produced in release.produced] == [
        "billing.ready.orders",
        "billing.ready.orders",
        "billing.retry.1s",
    ]
    assert release.origins == [(TIER, 1), (Partition("billing.retry.1s", 0), 2), (TIER, 3)]
    assert (len(release.due_ms), release.moved, release.outcomes.total()) == (2, 1, 1)


def test_what_it_remembers_does_not_grow() -> None:
    """The partition of an origin is read from a header, so it may be any number."""
    by, sizes = builder(), set[tuple[int, ...]]()
    for number in range(100):
        origin = lineage(partition=number)
        [produced] = released(waiting(origin)._replace(origin=origin[:2]), by=by).produced
        assert (produced.topic, produced.partition) == ("billing.ready.orders", number % 6)
        sizes.add(tuple(len(each) for each in vars(by).values() if isinstance(each, Sized)))
    assert len(sizes) == 1


def test_the_lead_time_follows_recent_writes() -> None:
    """A fifth of the difference at each write. One that took much longer counts as 50 ms."""
    lead = CommitLeadTime(0.0)
    found = []
    for prepared_s in (0.041, 30.0, 0.0):
        lead.measure(prepared_s)
        found.append(lead.ms)
    assert found == [9, 17, 14]
