"""Where a record goes when it leaves its tier: into its ready topic, a lower tier, or among the dead letters."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from consumers.errors import HaltedError
from consumers.observer import OutcomeLabel
from consumers.release import UNKNOWN_SOURCE, Release, Releaser
from consumers.tier import Held
from tests.unit.consumers.records import BORN, NOW, Fetched, lineage, waiting_headers
from topology.configuration import load_settings
from topology.decision import AckType
from topology.headers import read_due, read_expiration, read_lineage
from topology.lineage import Lineage
from topology.settings import Settings
from topology.tiers import TierSet
from transport.protocols import Copy, Partition

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


def configured(orders: str = "{}", invoices: str = "{}") -> Settings:
    """The group ``billing`` with two sources, each with its dead-letter strategy."""
    return load_settings(
        f"""
        group: billing
        kafka: {{bootstrap.servers: "localhost:9092"}}
        sources:
        - topic: orders
          policy: {{deadLetterStrategy: {orders}}}
        - topic: invoices
          policy: {{deadLetterStrategy: {invoices}}}
        """
    )


def releaser(settings: Settings | None = None, counts: Mapping[str, int] = COUNTS) -> Releaser:
    """What makes the copies, over a ladder of two tiers and the mixed topic."""
    return Releaser(configured() if settings is None else settings, TierSet((1000, 2000), mixed=True), counts)


def held(
    origin: Lineage,
    *,
    due_ms: int = NOW,
    final: bool = True,
    offset: int = 7,
    own: list[tuple[str, bytes | None]] | None = None,
) -> Held:
    """A record that leaves now."""
    headers = waiting_headers(origin, delay_ms=2000, due_ms=due_ms, own=own or [])
    message = Fetched(TIER.topic, TIER.number, offset, b"\x00key", b"\x00value", headers, NOW - 2000)
    return Held(NOW, offset, due_ms, final, message)


def released(one: Held, *, by: Releaser | None = None, refusal: str | None = None) -> Release:
    """The write with that record alone."""
    release = Release()
    (releaser() if by is None else by).add(release, TIER, one, NOW, refusal)
    assert release.owners == [(TIER, one.offset)] * len(release.copies)
    return release


def cause(copy: Copy) -> dict[str, Any]:
    """Why a dead letter is one."""
    found: dict[str, Any] = json.loads(dict(copy.headers or [])["dlqDeliveryFailureCause"] or b"")
    return found


class TestReady:
    def test_what_is_due_becomes_ready(self) -> None:
        """The bytes unchanged, in the origin's partition, still knowing when it was due."""
        origin = lineage(42, partition=5, deliveries=2)
        release = released(held(origin, due_ms=NOW - 3, own=[("traceparent", b"00-1")]))
        [copy] = release.copies
        assert copy[:4] == ("billing.ready.orders", 5, b"\x00key", b"\x00value")
        assert (copy.headers or [])[0] == ("traceparent", b"00-1")
        assert "AMQ_SCHEDULED_DELAY" not in dict(copy.headers or [])
        assert read_lineage(copy.headers or ()) == origin
        assert read_due(copy.headers or ()) == NOW - 3
        assert release.due_ms == [NOW - 3]
        assert (release.moved, release.outcomes) == (0, {})

    def test_null_stays_null(self) -> None:
        """A tombstone waits like any record."""
        message = Fetched(*TIER, 7, None, None, waiting_headers(lineage()), NOW)
        [copy] = released(Held(NOW, 7, NOW, True, message)).copies  # noqa: FBT003 - a named tuple
        assert (copy.key, copy.value) == (None, None)

    def test_each_source_has_its_own(self) -> None:
        """By the origin's topic."""
        origin = Lineage("invoices", 1, 2, BORN, 1)
        assert released(held(origin)).copies[0].topic == "billing.ready.invoices"

    def test_final_is_final(self) -> None:
        """Within a millisecond of rounding, or where a clock is wrong, it is not sent round again."""
        release = released(held(lineage(), due_ms=NOW + 1))
        assert release.copies[0].topic == "billing.ready.orders"
        assert release.due_ms == [NOW + 1]

    def test_what_became_due_while_it_stayed_is_ready(self) -> None:
        """The scheduler was away for longer than the lower tiers take."""
        assert released(held(lineage(), due_ms=NOW, final=False)).copies[0].topic == "billing.ready.orders"


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
    def test_into_the_largest_tier_not_above_what_remains(self, remaining_ms: int, topic: str, partitions: int) -> None:
        """All headers as they were: it is the same wait."""
        one = held(lineage(partition=5), due_ms=NOW + remaining_ms, final=False)
        release = released(one)
        [copy] = release.copies
        assert (copy.topic, copy.partition) == (topic, 5 % partitions)
        assert copy.headers == one.message.headers()
        assert (release.moved, release.due_ms) == (1, [])


class TestDeadLetter:
    def test_a_refused_copy(self) -> None:
        """With the broker's reason, and the deliveries made."""
        release = released(held(lineage(deliveries=2)), refusal="too large")
        [copy] = release.copies
        assert (copy.topic, copy.partition) == ("DLQ.orders", 5 % 2)
        assert (copy.key, copy.value) == (b"\x00key", b"\x00value")
        assert cause(copy) == {"reason": "undeliverable", "exception": "Undeliverable", "message": "too large"}
        assert read_lineage(copy.headers or ()).deliveries == 2
        assert release.dead_letters == {("orders", "undeliverable"): 1}
        assert release.outcomes == {OutcomeLabel("orders", "dead_lettered", AckType.POISON): 1}
        assert release.due_ms == []

    def test_a_refused_move(self) -> None:
        """A record that is not due yet can be refused, too."""
        release = released(held(lineage(), due_ms=NOW + 1500, final=False), refusal="too large")
        assert [copy.topic for copy in release.copies] == ["DLQ.orders"]
        assert release.moved == 0

    def test_an_origin_that_is_not_configured(self) -> None:
        """Its source was taken out of the configuration: somebody has to decide about the record."""
        release = released(held(Lineage("gone", 3, 9, BORN, 1)))
        [copy] = release.copies
        assert copy.topic == "DLQ.orders"
        assert "gone is not among the sources of group billing" in cause(copy)["message"]
        assert dict(copy.headers or [])["_AMQ_ORIG_ADDRESS"] == b"gone"
        assert release.dead_letters == {(UNKNOWN_SOURCE, "undeliverable"): 1}

    @pytest.mark.parametrize("missing", ["_AMQ_ORIG_MESSAGE_ID", "JMSTimestamp", "JMSXDeliveryCount"])
    def test_damaged_headers(self, missing: str) -> None:
        """Known by where it lies; the cause names the header."""
        headers = [pair for pair in waiting_headers(lineage()) if pair[0] != missing]
        message = Fetched(*TIER, 7, None, b"value", headers, NOW - 2000)
        [copy] = released(Held(NOW, 7, NOW, True, message)).copies  # noqa: FBT003 - a named tuple
        assert (copy.topic, copy.partition) == ("DLQ.orders", 1 % 2)
        assert (cause(copy)["reason"], cause(copy)["exception"]) == ("bad_headers", "HeaderError")
        assert missing in cause(copy)["message"]
        assert read_lineage(copy.headers or ()) == Lineage(TIER.topic, TIER.number, 7, NOW - 2000)

    def test_a_ready_topic_that_is_gone(self) -> None:
        """It would be made anew by nobody, and must not block the tier."""
        counts = {topic: count for topic, count in COUNTS.items() if topic != "billing.ready.orders"}
        [copy] = released(held(lineage()), by=releaser(counts=counts)).copies
        assert copy.topic == "DLQ.orders"
        assert "no topic billing.ready.orders" in cause(copy)["message"]

    def test_without_a_dead_letter_topic_the_scheduler_halts(self) -> None:
        """There is nowhere left to put the record; the message names both and the mend."""
        counts = {topic: count for topic, count in COUNTS.items() if topic != "DLQ.orders"}
        with pytest.raises(HaltedError, match=r"billing\.retry\.2s-1@7 .*too large.* no topic DLQ\.orders .*apply"):
            released(held(lineage()), by=releaser(counts=counts), refusal="too large")

    def test_it_lives_as_long_as_the_strategy_says(self) -> None:
        """Like every dead letter of its source."""
        settings = configured(orders="{expiration: 60000}")
        [copy] = released(held(lineage()), by=releaser(settings), refusal="no").copies
        assert read_expiration(copy.headers or ()) == NOW + 60_000

    def test_a_shared_dead_letter_topic(self) -> None:
        """By its own name."""
        settings = configured(orders="{kind: shared}")
        counts = {**COUNTS, "ActiveMQ.DLQ": 6}
        [copy] = released(held(lineage()), by=releaser(settings, counts), refusal="no").copies
        assert (copy.topic, copy.partition) == ("ActiveMQ.DLQ", 5)


class TestDiscard:
    COUNTS = {topic: count for topic, count in COUNTS.items() if topic != "DLQ.orders"}  # noqa: RUF012 - not changed

    def test_a_source_that_discards_has_no_dead_letters(self) -> None:
        """Nor a topic for them; it is counted, and the tier goes on."""
        settings = configured(orders="{kind: discarding}")
        release = released(held(lineage()), by=releaser(settings, self.COUNTS), refusal="no")
        assert release.copies == []
        assert release.dead_letters == {}
        assert release.outcomes == {OutcomeLabel("orders", "discarded", AckType.POISON): 1}

    def test_the_others_dead_letter_topic_takes_what_belongs_to_nobody(self) -> None:
        """What is not configured is not discarded while there is a place for it."""
        settings = configured(orders="{kind: discarding}")
        release = released(held(Lineage("gone", 3, 9, BORN, 1)), by=releaser(settings, self.COUNTS))
        assert [copy.topic for copy in release.copies] == ["DLQ.invoices"]


def test_a_write_is_many_records() -> None:
    """Each copy with its owner, in step, whatever became of the others."""
    settings = configured(orders="{kind: discarding}")
    by, release = releaser(settings, TestDiscard.COUNTS), Release()
    by.add(release, TIER, held(lineage(), offset=1), NOW, None)
    by.add(release, TIER, held(lineage(), offset=2), NOW, "refused")
    by.add(release, Partition("billing.retry.1s", 0), held(lineage(), offset=2), NOW, None)
    by.add(release, TIER, held(lineage(), due_ms=NOW + 1500, final=False, offset=3), NOW, None)
    assert [copy.topic for copy in release.copies] == [
        "billing.ready.orders",
        "billing.ready.orders",
        "billing.retry.1s",
    ]
    assert release.owners == [(TIER, 1), (Partition("billing.retry.1s", 0), 2), (TIER, 3)]
    assert (len(release.due_ms), release.moved, release.outcomes.total()) == (2, 1, 1)
