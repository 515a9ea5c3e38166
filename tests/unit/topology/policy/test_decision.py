"""Decisions lose no record, and deliver none more often than its policy allows."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.artemis.address_settings import AddressSettings
from kafka_redelivery.topology.classic.layers import LayeredRedelivery
from kafka_redelivery.topology.classic.policy import BackOffAlgorithm, RedeliveryPolicy
from kafka_redelivery.topology.java.numbers import LONG_MAX, LONG_MIN
from kafka_redelivery.topology.policy.decision import (
    NOT_DELIVERED,
    Ack,
    AckType,
    DeadLetter,
    Decision,
    Discard,
    Failure,
    FailureKind,
    Halt,
    Reason,
    Retry,
    decide,
)
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry, RetryPolicy
from kafka_redelivery.topology.policy.lineage import Lineage

SOURCE = Lineage("orders", partition=3, offset=42, timestamp_ms=1_700_000_000_000)
NOW = 1_780_000_000_000

RETRYABLE = (FailureKind.RAISED, FailureKind.REDELIVER, FailureKind.DEADLINE, FailureKind.DIED)
"""Failures that count as deliveries and can be retried."""

LAST = dict.fromkeys(RETRYABLE, Reason.REDELIVERIES_EXCEEDED) | {FailureKind.DIED: Reason.CLIENT_DIED}
"""The reason of the dead letter after the last delivery."""

POISON = {
    FailureKind.EXHAUSTED: Reason.REDELIVERIES_EXCEEDED,
    FailureKind.UNDECODABLE: Reason.UNDECODABLE,
    FailureKind.INVALID_VALUE: Reason.INVALID_VALUE,
    FailureKind.REJECTED: Reason.REJECTED,
    FailureKind.BAD_HEADERS: Reason.BAD_HEADERS,
    FailureKind.UNDELIVERABLE: Reason.UNDELIVERABLE,
    FailureKind.OPERATOR: Reason.OPERATOR,
}
"""Failures that no further delivery can fix, and the reason of the dead letter."""

LONGS = st.integers(LONG_MIN, LONG_MAX)

POLICIES = st.builds(
    RedeliveryPolicy,
    maximum_redeliveries=st.integers(-5, 12),
    initial_redelivery_delay=LONGS | st.integers(-10, 10_000),
    redelivery_delay=LONGS | st.integers(-10, 10_000),
    use_exponential_back_off=st.booleans(),
    back_off_multiplier=st.floats(-10, 10),
    maximum_redelivery_delay=LONGS | st.integers(-10, 10_000),
    use_collision_avoidance=st.booleans(),
    collision_avoidance_factor=st.floats(-327.68, 327.67),
    algorithm=st.sampled_from(BackOffAlgorithm),
)
SETTINGS = st.builds(
    AddressSettings,
    max_delivery_attempts=st.integers(-5, 12),
    redelivery_delay=LONGS | st.integers(-10, 10_000),
    redelivery_delay_multiplier=st.floats(-10, 10),
    redelivery_collision_avoidance_factor=st.floats(0, 1),
    max_redelivery_delay=LONGS | st.integers(-10, 10_000),
)
REDELIVERIES = POLICIES | SETTINGS | st.builds(LayeredRedelivery, POLICIES, POLICIES)
"""Policies of both dialects, and of Classic's client and broker together."""

ENTRIES = st.builds(
    PolicyEntry,
    redelivery_policy=REDELIVERIES,
    dead_letter_strategy=st.builds(
        DeadLetterStrategy,
        kind=st.sampled_from(DeadLetterKind),
        process_expired=st.booleans(),
        expiration=st.integers(0, 10**12),
    ),
    maximum_handler_delay=st.none() | st.integers(0, 10**10),
)
FAILURES = st.builds(
    Failure, st.sampled_from(FailureKind), st.text(), st.text(), after_ms=st.none() | LONGS | st.integers(-10, 10_000)
)
DRAWS = st.floats(-1, 1, exclude_max=True).map(repeat)


def entry(
    policy: RetryPolicy | None = None,
    strategy: DeadLetterStrategy | None = None,
    maximum_handler_delay: int | None = None,
) -> PolicyEntry:
    """Return an entry with Classic's defaults for all that is not given."""
    return PolicyEntry(
        redelivery_policy=RedeliveryPolicy() if policy is None else policy,
        dead_letter_strategy=DeadLetterStrategy() if strategy is None else strategy,
        maximum_handler_delay=maximum_handler_delay,
    )


def after(deliveries: int, policy: PolicyEntry, kind: FailureKind = FailureKind.RAISED) -> Decision:
    """Return the decision after the delivery with this number failed."""
    return decide(Failure(kind), SOURCE.delivered(deliveries), policy, NOW, repeat(0.5))


class TestTotality:
    """There is exactly one decision for every failure."""

    @given(FAILURES | st.none(), st.integers(1, 30), ENTRIES, DRAWS)
    def test_every_failure_under_every_policy_is_decided(
        self, failure: Failure | None, deliveries: int, policy: PolicyEntry, jitter: Iterable[float]
    ) -> None:
        """No combination raises, and the same arguments give the same decision."""
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)
        assert isinstance(decision, Decision)
        assert decision == decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)

    def test_a_failure_before_the_handler_is_not_a_delivery(self) -> None:
        """Failures found before the handler is called do not count as deliveries."""
        assert {FailureKind.EXPIRED, FailureKind.UNAVAILABLE, *POISON} - {FailureKind.REJECTED} == NOT_DELIVERED

    @given(FAILURES, ENTRIES)
    def test_a_record_without_deliveries_is_decided_too(self, failure: Failure, policy: PolicyEntry) -> None:
        """Failures before the first delivery need no count."""
        if failure.kind not in RETRYABLE:
            assert isinstance(decide(failure, SOURCE, policy, NOW), Decision)

    @given(FAILURES, st.integers(1, 30), ENTRIES, DRAWS)
    def test_a_failure_is_never_acknowledged(
        self, failure: Failure, deliveries: int, policy: PolicyEntry, jitter: Iterable[float]
    ) -> None:
        """A failed record is kept, unless the configuration explicitly drops it."""
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)
        assert not isinstance(decision, Ack)
        strategy = policy.dead_letter_strategy
        if isinstance(decision, Discard):
            dropped_as_expired = failure.kind is FailureKind.EXPIRED and not strategy.process_expired
            filtered = failure.kind is FailureKind.FILTERED  # with `on_missing="discard"`
            assert strategy.kind is DeadLetterKind.DISCARDING or dropped_as_expired or filtered

    @given(FAILURES, st.integers(1, 30), ENTRIES, DRAWS)
    def test_the_failure_travels_with_the_decision(
        self, failure: Failure, deliveries: int, policy: PolicyEntry, jitter: Iterable[float]
    ) -> None:
        """Dead letters, discards and halts contain the failure."""
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)
        if isinstance(decision, DeadLetter | Discard | Halt):
            assert decision.failure is failure


def test_success_is_a_standard_acknowledgement() -> None:
    """A successful delivery is acknowledged with ActiveMQ's standard type."""
    assert decide(None, SOURCE.delivered(1), entry(), NOW) == Ack(AckType.STANDARD)


class TestRedelivery:
    @given(st.sampled_from(RETRYABLE), REDELIVERIES.filter(lambda policy: policy.max_deliveries is not None), DRAWS)
    def test_a_record_that_always_fails_is_delivered_exactly_as_often_as_allowed(
        self, kind: FailureKind, policy: RetryPolicy, jitter: Iterable[float]
    ) -> None:
        """Each failed delivery is retried until the limit; the last one is dead-lettered."""
        for deliveries in count(1):
            decision = decide(Failure(kind), SOURCE.delivered(deliveries), entry(policy), NOW, jitter)
            if not isinstance(decision, Retry):
                break
        assert isinstance(decision, DeadLetter)
        assert decision.reason is LAST[kind]
        assert deliveries == max(1, policy.max_deliveries or 0)

    @given(POLICIES, st.sampled_from(RETRYABLE), st.integers(1, 10_000) | st.just(2**31))
    def test_without_a_maximum_it_never_ends(
        self, policy: RedeliveryPolicy, kind: FailureKind, deliveries: int
    ) -> None:
        """A maximum of -1 means unlimited redeliveries."""
        endless = entry(replace(policy, maximum_redeliveries=-1, use_collision_avoidance=False))
        assert isinstance(after(deliveries, endless, kind), Retry)

    def test_zero_redeliveries_is_one_delivery(self) -> None:
        """A maximum of 0 allows one delivery; it does not mean "no limit"."""
        assert isinstance(after(1, entry(RedeliveryPolicy(maximum_redeliveries=0))), DeadLetter)

    def test_below_minus_one_there_is_not_even_a_first_delivery(self) -> None:
        """Such a policy is exceeded when the record arrives, which is dead-lettered without a delivery."""
        policy = RedeliveryPolicy(maximum_redeliveries=-5)
        assert policy.exceeded(SOURCE.deliveries)
        decision = decide(Failure(FailureKind.EXHAUSTED), SOURCE, entry(policy), NOW)
        assert isinstance(decision, DeadLetter)
        assert decision.reason is Reason.REDELIVERIES_EXCEEDED

    @given(POLICIES, st.integers(1, 12), DRAWS)
    def test_the_delay_is_the_policys_and_due_is_that_much_from_now(
        self, policy: RedeliveryPolicy, deliveries: int, jitter: Iterable[float]
    ) -> None:
        """Delivery n is followed by redelivery n; due times stay within 64 bits."""
        decision = decide(Failure(FailureKind.RAISED), SOURCE.delivered(deliveries), entry(policy), NOW, jitter)
        if isinstance(decision, Retry):
            assert decision.delay_ms == policy.delay_ms(deliveries, jitter)
            assert decision.due_ms == min(NOW + decision.delay_ms, LONG_MAX)
            assert decision.ack_type is AckType.REDELIVERED

    def test_the_due_time_of_the_longest_delay_saturates(self) -> None:
        """A due time has 64 bits and saturates like delays."""
        decision = after(1, entry(RedeliveryPolicy(initial_redelivery_delay=LONG_MAX)))
        assert decision == Retry(LONG_MAX, due_ms=LONG_MAX)

    def test_a_negative_delay_is_immediate(self) -> None:
        """No record is due in the past."""
        assert after(1, entry(RedeliveryPolicy(initial_redelivery_delay=-3))) == Retry(0, NOW)

    def test_a_close_before_the_commit_redelivers_immediately(self) -> None:
        """The record did not fail, so the policy's delay does not apply."""
        assert after(0, entry(), FailureKind.CLOSED) == Retry(0, NOW)
        assert after(6, entry(), FailureKind.CLOSED) == Retry(0, NOW)

    def test_a_record_that_always_kills_its_worker_is_dead_lettered(self) -> None:
        """Deliveries that end in a crash count towards the limit."""
        decision = after(7, entry(), FailureKind.CLOSED)
        assert isinstance(decision, DeadLetter)
        assert decision.reason is Reason.CLIENT_DIED


class TestHandlersOwnDelay:
    @staticmethod
    def retry(after_ms: int | None, maximum: int | None, deliveries: int = 1) -> Decision:
        """Return the decision after a handler asks for a delay."""
        failure = Failure(FailureKind.REDELIVER, after_ms=after_ms)
        return decide(failure, SOURCE.delivered(deliveries), entry(maximum_handler_delay=maximum), NOW)

    def test_it_replaces_the_policys(self) -> None:
        """The handler's delay applies where the entry allows it."""
        assert self.retry(after_ms=2500, maximum=60_000) == Retry(2500, NOW + 2500)

    def test_zero_is_a_delay(self) -> None:
        """A delay of 0 is immediate; no delay means the policy's."""
        assert self.retry(after_ms=0, maximum=60_000) == Retry(0, NOW)
        assert self.retry(after_ms=None, maximum=60_000) == Retry(1000, NOW + 1000)

    def test_it_is_clamped(self) -> None:
        """The delay is limited to the range from 0 to the maximum."""
        assert self.retry(after_ms=60_001, maximum=60_000) == Retry(60_000, NOW + 60_000)
        assert self.retry(after_ms=-1, maximum=60_000) == Retry(0, NOW)
        assert self.retry(after_ms=5, maximum=0) == Retry(0, NOW)

    def test_it_is_ignored_where_it_is_not_allowed(self) -> None:
        """Without a maximum, the policy's delay applies."""
        assert self.retry(after_ms=2500, maximum=None) == Retry(1000, NOW + 1000)

    def test_it_does_not_allow_another_delivery(self) -> None:
        """A redelivery that the handler asks for counts towards the limit."""
        assert isinstance(self.retry(after_ms=2500, maximum=60_000, deliveries=7), DeadLetter)

    @given(FAILURES, st.integers(1, 30), ENTRIES, DRAWS)
    def test_nothing_waits_longer_than_its_policy_allows(
        self, failure: Failure, deliveries: int, policy: PolicyEntry, jitter: Iterable[float]
    ) -> None:
        """A delay is never negative, and either the policy's or at most the handler's maximum."""
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)
        if isinstance(decision, Retry) and failure.kind is not FailureKind.UNAVAILABLE:
            usual = policy.redelivery_policy.delay_ms(deliveries, jitter)
            allowed = {0, usual} if policy.maximum_handler_delay is None else range(policy.maximum_handler_delay + 1)
            assert decision.delay_ms in allowed or decision.delay_ms == usual

    @given(st.integers(0, 30), ENTRIES, st.none() | st.integers(0, 10**9))
    def test_a_record_waits_for_what_is_away(self, deliveries: int, policy: PolicyEntry, after_ms: int | None) -> None:
        """Whatever the policy, and as long as it says: the outage is not the record's fault."""
        failure = Failure(FailureKind.UNAVAILABLE, after_ms=after_ms, dependency="bank", key_only=True)
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW)
        assert decision == Retry(after_ms or 0, NOW + (after_ms or 0))


class TestDeadLetters:
    def test_the_tables_of_this_file_name_every_kind(self) -> None:
        """A new kind of failure must be added to these tables."""
        others = {FailureKind.CLOSED, FailureKind.EXPIRED, FailureKind.CRITICAL, FailureKind.UNAVAILABLE}
        others |= {FailureKind.FILTERED}
        assert {*RETRYABLE, *POISON, *others} == set(FailureKind)

    @pytest.mark.parametrize(("kind", "reason"), POISON.items())
    def test_poison_is_dead_lettered_immediately(self, kind: FailureKind, reason: Reason) -> None:
        """A failure that no delivery can fix is dead-lettered even if redeliveries are unlimited."""
        endless = entry(RedeliveryPolicy(maximum_redeliveries=-1))
        assert after(1, endless, kind) == DeadLetter(reason, Failure(kind), 0, AckType.POISON)

    @pytest.mark.parametrize(("kind", "reason"), POISON.items())
    def test_a_discarding_strategy_drops_it(self, kind: FailureKind, reason: Reason) -> None:
        """The record is discarded with the same reason."""
        discarding = entry(strategy=DeadLetterStrategy(kind=DeadLetterKind.DISCARDING))
        assert after(1, discarding, kind) == Discard(reason, Failure(kind), AckType.POISON)

    @pytest.mark.parametrize("kind", RETRYABLE)
    def test_a_discarding_strategy_drops_only_what_is_exhausted(self, kind: FailureKind) -> None:
        """A discarding strategy does not prevent redeliveries."""
        discarding = entry(strategy=DeadLetterStrategy(kind=DeadLetterKind.DISCARDING))
        assert isinstance(after(6, discarding, kind), Retry)
        assert after(7, discarding, kind) == Discard(LAST[kind], Failure(kind))

    @pytest.mark.parametrize(("expiration", "expires"), [(0, 0), (1, NOW + 1), (86_400_000, NOW + 86_400_000)])
    @pytest.mark.parametrize("kind", [FailureKind.REJECTED, FailureKind.EXPIRED, FailureKind.EXHAUSTED])
    def test_a_dead_letter_lives_as_long_as_its_strategy_says(
        self, kind: FailureKind, expiration: int, expires: int
    ) -> None:
        """The expiration counts from the decision; 0 means never."""
        decision = after(1, entry(strategy=DeadLetterStrategy(expiration=expiration)), kind)
        assert isinstance(decision, DeadLetter)
        assert decision.expiration_ms == expires


class TestExpired:
    @pytest.mark.parametrize("kind", [DeadLetterKind.INDIVIDUAL, DeadLetterKind.SHARED])
    def test_an_expired_record_is_dead_lettered(self, kind: DeadLetterKind) -> None:
        """By default, expired records become dead letters."""
        policy = entry(strategy=DeadLetterStrategy(kind=kind))
        failure = Failure(FailureKind.EXPIRED)
        assert decide(failure, SOURCE, policy, NOW) == DeadLetter(Reason.EXPIRED, failure, 0, AckType.EXPIRED)

    def test_it_does_not_expire_again_where_expired_records_have_a_topic_of_their_own(self) -> None:
        """An expired record in an expiry topic does not expire; other dead letters do."""
        policy = entry(strategy=DeadLetterStrategy(expiry_topic="EXP.{topic}", expiration=1000))
        failure = Failure(FailureKind.EXPIRED)
        assert decide(failure, SOURCE, policy, NOW) == DeadLetter(Reason.EXPIRED, failure, 0, AckType.EXPIRED)
        poison = after(1, policy, FailureKind.REJECTED)
        assert isinstance(poison, DeadLetter)
        assert poison.expiration_ms == NOW + 1000

    @pytest.mark.parametrize("kind", DeadLetterKind)
    def test_it_is_dropped_where_expired_records_are_not_processed(self, kind: DeadLetterKind) -> None:
        """``processExpired: false`` applies to every strategy."""
        policy = entry(strategy=DeadLetterStrategy(kind=kind, process_expired=False))
        failure = Failure(FailureKind.EXPIRED)
        assert decide(failure, SOURCE, policy, NOW) == Discard(Reason.EXPIRED, failure, AckType.EXPIRED)

    def test_it_is_dropped_by_a_discarding_strategy(self) -> None:
        """A discarding strategy has no topic for it."""
        policy = entry(strategy=DeadLetterStrategy(kind=DeadLetterKind.DISCARDING, process_expired=True))
        failure = Failure(FailureKind.EXPIRED)
        assert decide(failure, SOURCE, policy, NOW) == Discard(Reason.EXPIRED, failure, AckType.EXPIRED)

    @pytest.mark.parametrize("kind", [FailureKind.REJECTED, FailureKind.EXHAUSTED, FailureKind.UNDECODABLE])
    def test_what_fails_for_good_after_its_time_counts_as_expired_too(self, kind: FailureKind) -> None:
        """As in the broker, the strategy depends on the record's expiration and not on the reason."""
        policy = entry(strategy=DeadLetterStrategy(process_expired=False))
        late, in_time = (SOURCE._replace(expiration_ms=NOW + offset) for offset in (-1, 0))
        assert isinstance(decide(Failure(kind), late, policy, NOW), Discard)
        assert isinstance(decide(Failure(kind), in_time, policy, NOW), DeadLetter)

    def test_it_is_kept_where_only_what_failed_for_good_is_dropped(self) -> None:
        """A plugin that drops poison messages ignores expired ones."""
        policy = entry(strategy=DeadLetterStrategy(process_poison=False))
        assert isinstance(decide(Failure(FailureKind.EXPIRED), SOURCE, policy, NOW), DeadLetter)
        assert isinstance(after(1, policy, FailureKind.REJECTED), Discard)

    def test_process_expired_says_nothing_about_other_failures(self) -> None:
        """A rejected record becomes a dead letter."""
        policy = entry(strategy=DeadLetterStrategy(process_expired=False))
        assert isinstance(after(1, policy, FailureKind.REJECTED), DeadLetter)


@pytest.mark.parametrize("kind", [FailureKind.REJECTED, FailureKind.EXPIRED])
def test_a_record_that_is_not_persistent_is_dropped_where_its_strategy_says_so(kind: FailureKind) -> None:
    """``processNonPersistent: false`` drops only non-persistent records."""
    lossy = SOURCE._replace(persistent=False)
    choosy = entry(strategy=DeadLetterStrategy(process_non_persistent=False))
    assert isinstance(decide(Failure(kind), lossy, choosy, NOW), Discard)
    assert isinstance(decide(Failure(kind), SOURCE, choosy, NOW), DeadLetter)
    assert isinstance(decide(Failure(kind), lossy, entry(), NOW), DeadLetter)


@given(ENTRIES, st.integers(0, 30))
def test_a_record_that_was_filtered_away_is_discarded(policy: PolicyEntry, deliveries: int) -> None:
    """Whatever the policy. In ActiveMQ's words: it does not match the selector."""
    failure = Failure(FailureKind.FILTERED)
    discarded = Discard(Reason.FILTERED, failure, AckType.UNMATCHED)
    assert decide(failure, SOURCE.delivered(deliveries), policy, NOW) == discarded


@given(ENTRIES, st.integers(0, 30))
def test_a_critical_failure_stops_and_touches_no_record(policy: PolicyEntry, deliveries: int) -> None:
    """The record is not retried, dead-lettered or dropped because of, for example, a lack of memory."""
    failure = Failure(FailureKind.CRITICAL, "MemoryError")
    assert decide(failure, SOURCE.delivered(deliveries), policy, NOW) == Halt(failure)


def test_acknowledgement_types_have_activemqs_numbers() -> None:
    """The numbers label metrics that operators compare with those of their broker."""
    assert {ack.name: ack.value for ack in AckType} == {
        "DELIVERED": 0,
        "POISON": 1,
        "STANDARD": 2,
        "REDELIVERED": 3,
        "INDIVIDUAL": 4,
        "UNMATCHED": 5,
        "EXPIRED": 6,
    }
