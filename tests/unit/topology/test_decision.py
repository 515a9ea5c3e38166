"""The one decision about a record: nothing is lost, nothing is tried more often than the policy says."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.decision import (
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
from topology.java_numbers import LONG_MAX, LONG_MIN
from topology.lineage import Lineage
from topology.policy import (
    AddressSettings,
    BackOffAlgorithm,
    DeadLetterKind,
    DeadLetterStrategy,
    LayeredRedelivery,
    PolicyEntry,
    Redelivery,
    RedeliveryPolicy,
)
from topology.redelivery import most_deliveries, redelivery_delay

SOURCE = Lineage("orders", partition=3, offset=42, timestamp_ms=1_700_000_000_000)
NOW = 1_780_000_000_000

RETRYABLE = (FailureKind.RAISED, FailureKind.REDELIVER, FailureKind.DEADLINE, FailureKind.DIED)
"""The handler had its chance and may have another."""

LAST = dict.fromkeys(RETRYABLE, Reason.REDELIVERIES_EXCEEDED) | {FailureKind.DIED: Reason.CLIENT_DIED}
"""Why it had its last."""

POISON = {
    FailureKind.EXHAUSTED: Reason.REDELIVERIES_EXCEEDED,
    FailureKind.UNDECODABLE: Reason.UNDECODABLE,
    FailureKind.REJECTED: Reason.REJECTED,
    FailureKind.BAD_HEADERS: Reason.BAD_HEADERS,
    FailureKind.UNDELIVERABLE: Reason.UNDELIVERABLE,
}
"""No further delivery can help; why."""

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
"""Both dialects, and Classic's client and broker together."""

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
    policy: Redelivery | None = None,
    strategy: DeadLetterStrategy | None = None,
    maximum_handler_delay: int | None = None,
) -> PolicyEntry:
    """An entry that is Classic's default but for what is given."""
    return PolicyEntry(
        redelivery_policy=RedeliveryPolicy() if policy is None else policy,
        dead_letter_strategy=DeadLetterStrategy() if strategy is None else strategy,
        maximum_handler_delay=maximum_handler_delay,
    )


def after(deliveries: int, policy: PolicyEntry, kind: FailureKind = FailureKind.RAISED) -> Decision:
    """What is decided when the delivery of that number failed."""
    return decide(Failure(kind), SOURCE.delivered(deliveries), policy, NOW, repeat(0.5))


class TestTotality:
    """Whatever happens, there is exactly one decision."""

    @given(FAILURES | st.none(), st.integers(1, 30), ENTRIES, DRAWS)
    def test_every_failure_under_every_policy_is_decided(
        self, failure: Failure | None, deliveries: int, policy: PolicyEntry, jitter: Iterable[float]
    ) -> None:
        """No combination raises, and the same arguments give the same decision."""
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)
        assert isinstance(decision, Decision)
        assert decision == decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)

    def test_what_no_handler_saw_is_not_a_delivery(self) -> None:
        """All poison but what the handler itself rejected, and what expired before it got there."""
        assert {FailureKind.EXPIRED, *POISON} - {FailureKind.REJECTED} == NOT_DELIVERED

    @given(FAILURES, ENTRIES)
    def test_a_record_that_no_handler_saw_yet_is_decided_too(self, failure: Failure, policy: PolicyEntry) -> None:
        """What goes wrong before the first delivery needs no count."""
        if failure.kind not in RETRYABLE:
            assert isinstance(decide(failure, SOURCE, policy, NOW), Decision)

    @given(FAILURES, st.integers(1, 30), ENTRIES, DRAWS)
    def test_a_failure_is_never_acknowledged(
        self, failure: Failure, deliveries: int, policy: PolicyEntry, jitter: Iterable[float]
    ) -> None:
        """A failed record is kept somewhere, unless the configuration says in so many words to drop it."""
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)
        assert not isinstance(decision, Ack)
        strategy = policy.dead_letter_strategy
        if isinstance(decision, Discard):
            dropped_as_expired = failure.kind is FailureKind.EXPIRED and not strategy.process_expired
            assert strategy.kind is DeadLetterKind.DISCARDING or dropped_as_expired

    @given(FAILURES, st.integers(1, 30), ENTRIES, DRAWS)
    def test_the_failure_travels_with_the_decision(
        self, failure: Failure, deliveries: int, policy: PolicyEntry, jitter: Iterable[float]
    ) -> None:
        """Whoever buries, drops or stops knows why."""
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)
        if isinstance(decision, DeadLetter | Discard | Halt):
            assert decision.failure is failure


def test_success_is_a_standard_acknowledgement() -> None:
    """Nothing went wrong: commit past it."""
    assert decide(None, SOURCE.delivered(1), entry(), NOW) == Ack(AckType.STANDARD)


class TestRedelivery:
    @given(st.sampled_from(RETRYABLE), REDELIVERIES.filter(lambda policy: most_deliveries(policy) != -1), DRAWS)
    def test_a_record_that_always_fails_is_delivered_exactly_as_often_as_allowed(
        self, kind: FailureKind, policy: Redelivery, jitter: Iterable[float]
    ) -> None:
        """Delivery after delivery is retried, and the one after the last redelivery ends it, kept or dropped."""
        for deliveries in count(1):
            decision = decide(Failure(kind), SOURCE.delivered(deliveries), entry(policy), NOW, jitter)
            if not isinstance(decision, Retry):
                break
        assert isinstance(decision, DeadLetter)
        assert decision.reason is LAST[kind]
        assert deliveries == max(1, most_deliveries(policy))

    @given(POLICIES, st.sampled_from(RETRYABLE), st.integers(1, 10_000) | st.just(2**31))
    def test_without_a_maximum_it_never_ends(
        self, policy: RedeliveryPolicy, kind: FailureKind, deliveries: int
    ) -> None:
        """-1 retries for ever."""
        endless = entry(replace(policy, maximum_redeliveries=-1, use_collision_avoidance=False))
        assert isinstance(after(deliveries, endless, kind), Retry)

    def test_zero_redeliveries_is_one_delivery(self) -> None:
        """A maximum of 0 is a maximum, not the absence of one."""
        assert isinstance(after(1, entry(RedeliveryPolicy(maximum_redeliveries=0))), DeadLetter)

    def test_below_minus_one_there_is_not_even_a_first_delivery(self) -> None:
        """Such a policy is exceeded when the record arrives, and what was never delivered is dead-lettered."""
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
            assert decision.delay_ms == redelivery_delay(policy, deliveries, jitter)
            assert decision.due_ms == min(NOW + decision.delay_ms, LONG_MAX)
            assert decision.ack_type is AckType.REDELIVERED

    def test_a_delay_without_end_is_due_at_the_end_of_time(self) -> None:
        """A due time has 64 bits, and saturates as delays do."""
        decision = after(1, entry(RedeliveryPolicy(initial_redelivery_delay=LONG_MAX)))
        assert decision == Retry(LONG_MAX, due_ms=LONG_MAX)

    def test_a_negative_delay_is_at_once(self) -> None:
        """Nothing is ever due in the past."""
        assert after(1, entry(RedeliveryPolicy(initial_redelivery_delay=-3))) == Retry(0, NOW)

    def test_a_close_before_the_commit_redelivers_at_once(self) -> None:
        """The record is not to blame: no delay, whatever the policy says."""
        assert after(0, entry(), FailureKind.CLOSED) == Retry(0, NOW)
        assert after(6, entry(), FailureKind.CLOSED) == Retry(0, NOW)

    def test_a_record_that_kills_its_worker_each_time_comes_to_an_end(self) -> None:
        """Counted deliveries that ended in a crash are limited like all others."""
        decision = after(7, entry(), FailureKind.CLOSED)
        assert isinstance(decision, DeadLetter)
        assert decision.reason is Reason.CLIENT_DIED


class TestHandlersOwnDelay:
    @staticmethod
    def retry(after_ms: int | None, maximum: int | None, deliveries: int = 1) -> Decision:
        """What is decided when a handler asks for a delay of its own."""
        failure = Failure(FailureKind.REDELIVER, after_ms=after_ms)
        return decide(failure, SOURCE.delivered(deliveries), entry(maximum_handler_delay=maximum), NOW)

    def test_it_replaces_the_policys(self) -> None:
        """Where a handler may choose, its delay is taken."""
        assert self.retry(after_ms=2500, maximum=60_000) == Retry(2500, NOW + 2500)

    def test_zero_is_a_delay(self) -> None:
        """At once is not the same as not asking."""
        assert self.retry(after_ms=0, maximum=60_000) == Retry(0, NOW)
        assert self.retry(after_ms=None, maximum=60_000) == Retry(1000, NOW + 1000)

    def test_it_is_clamped(self) -> None:
        """No tier is longer than the maximum, and nothing is due before now."""
        assert self.retry(after_ms=60_001, maximum=60_000) == Retry(60_000, NOW + 60_000)
        assert self.retry(after_ms=-1, maximum=60_000) == Retry(0, NOW)
        assert self.retry(after_ms=5, maximum=0) == Retry(0, NOW)

    def test_it_is_ignored_where_it_is_not_allowed(self) -> None:
        """Without a maximum there is no tier for it: the policy's delay is taken."""
        assert self.retry(after_ms=2500, maximum=None) == Retry(1000, NOW + 1000)

    def test_it_buys_no_further_delivery(self) -> None:
        """Asking for a redelivery counts as every other failure."""
        assert isinstance(self.retry(after_ms=2500, maximum=60_000, deliveries=7), DeadLetter)

    @given(FAILURES, st.integers(1, 30), ENTRIES, DRAWS)
    def test_nothing_waits_longer_than_its_policy_allows(
        self, failure: Failure, deliveries: int, policy: PolicyEntry, jitter: Iterable[float]
    ) -> None:
        """A delay is never negative, and either the policy's or at most the handler's maximum."""
        decision = decide(failure, SOURCE.delivered(deliveries), policy, NOW, jitter)
        if isinstance(decision, Retry):
            usual = redelivery_delay(policy.redelivery_policy, deliveries, jitter)
            allowed = {0, usual} if policy.maximum_handler_delay is None else range(policy.maximum_handler_delay + 1)
            assert decision.delay_ms in allowed or decision.delay_ms == usual


class TestDeadLetters:
    def test_the_tables_of_this_file_name_every_kind(self) -> None:
        """A new kind of failure must be thought about here."""
        others = {FailureKind.CLOSED, FailureKind.EXPIRED, FailureKind.CRITICAL}
        assert {*RETRYABLE, *POISON, *others} == set(FailureKind)

    @pytest.mark.parametrize(("kind", "reason"), POISON.items())
    def test_poison_is_dead_lettered_at_once(self, kind: FailureKind, reason: Reason) -> None:
        """What no delivery can mend goes after the first one, even where redeliveries are without limit."""
        endless = entry(RedeliveryPolicy(maximum_redeliveries=-1))
        assert after(1, endless, kind) == DeadLetter(reason, Failure(kind), 0, AckType.POISON)

    @pytest.mark.parametrize(("kind", "reason"), POISON.items())
    def test_a_discarding_strategy_drops_it(self, kind: FailureKind, reason: Reason) -> None:
        """The same end without a dead letter, counted under the same reason."""
        discarding = entry(strategy=DeadLetterStrategy(kind=DeadLetterKind.DISCARDING))
        assert after(1, discarding, kind) == Discard(reason, Failure(kind), AckType.POISON)

    @pytest.mark.parametrize("kind", RETRYABLE)
    def test_a_discarding_strategy_drops_only_what_is_exhausted(self, kind: FailureKind) -> None:
        """Redeliveries come first, also where nothing is kept in the end."""
        discarding = entry(strategy=DeadLetterStrategy(kind=DeadLetterKind.DISCARDING))
        assert isinstance(after(6, discarding, kind), Retry)
        assert after(7, discarding, kind) == Discard(LAST[kind], Failure(kind))

    @pytest.mark.parametrize(("expiration", "expires"), [(0, 0), (1, NOW + 1), (86_400_000, NOW + 86_400_000)])
    @pytest.mark.parametrize("kind", [FailureKind.REJECTED, FailureKind.EXPIRED, FailureKind.EXHAUSTED])
    def test_a_dead_letter_lives_as_long_as_its_strategy_says(
        self, kind: FailureKind, expiration: int, expires: int
    ) -> None:
        """The expiration counts from the decision; 0 is for ever."""
        decision = after(1, entry(strategy=DeadLetterStrategy(expiration=expiration)), kind)
        assert isinstance(decision, DeadLetter)
        assert decision.expiration_ms == expires


class TestExpired:
    @pytest.mark.parametrize("kind", [DeadLetterKind.INDIVIDUAL, DeadLetterKind.SHARED])
    def test_an_expired_record_is_dead_lettered(self, kind: DeadLetterKind) -> None:
        """By default what came too late is kept."""
        policy = entry(strategy=DeadLetterStrategy(kind=kind))
        failure = Failure(FailureKind.EXPIRED)
        assert decide(failure, SOURCE, policy, NOW) == DeadLetter(Reason.EXPIRED, failure, 0, AckType.EXPIRED)

    def test_it_does_not_expire_again_where_expired_records_have_a_topic_of_their_own(self) -> None:
        """Whoever gives them one wants to keep them; other dead letters live as long as is said."""
        policy = entry(strategy=DeadLetterStrategy(expiry_topic="EXP.{topic}", expiration=1000))
        failure = Failure(FailureKind.EXPIRED)
        assert decide(failure, SOURCE, policy, NOW) == DeadLetter(Reason.EXPIRED, failure, 0, AckType.EXPIRED)
        poison = after(1, policy, FailureKind.REJECTED)
        assert isinstance(poison, DeadLetter)
        assert poison.expiration_ms == NOW + 1000

    @pytest.mark.parametrize("kind", DeadLetterKind)
    def test_it_is_dropped_where_expired_records_are_not_processed(self, kind: DeadLetterKind) -> None:
        """``processExpired: false`` says so for every strategy."""
        policy = entry(strategy=DeadLetterStrategy(kind=kind, process_expired=False))
        failure = Failure(FailureKind.EXPIRED)
        assert decide(failure, SOURCE, policy, NOW) == Discard(Reason.EXPIRED, failure, AckType.EXPIRED)

    def test_it_is_dropped_by_a_discarding_strategy(self) -> None:
        """There is no topic to keep it in."""
        policy = entry(strategy=DeadLetterStrategy(kind=DeadLetterKind.DISCARDING, process_expired=True))
        failure = Failure(FailureKind.EXPIRED)
        assert decide(failure, SOURCE, policy, NOW) == Discard(Reason.EXPIRED, failure, AckType.EXPIRED)

    @pytest.mark.parametrize("kind", [FailureKind.REJECTED, FailureKind.EXHAUSTED, FailureKind.UNDECODABLE])
    def test_what_fails_for_good_after_its_time_counts_as_expired_too(self, kind: FailureKind) -> None:
        """As in the broker: the strategy is asked about the record, not about the reason."""
        policy = entry(strategy=DeadLetterStrategy(process_expired=False))
        late, in_time = (SOURCE._replace(expiration_ms=NOW + offset) for offset in (-1, 0))
        assert isinstance(decide(Failure(kind), late, policy, NOW), Discard)
        assert isinstance(decide(Failure(kind), in_time, policy, NOW), DeadLetter)

    def test_process_expired_says_nothing_about_other_failures(self) -> None:
        """A rejected record is a dead letter all the same."""
        policy = entry(strategy=DeadLetterStrategy(process_expired=False))
        assert isinstance(after(1, policy, FailureKind.REJECTED), DeadLetter)


@pytest.mark.parametrize("kind", [FailureKind.REJECTED, FailureKind.EXPIRED])
def test_a_record_that_is_not_persistent_is_dropped_where_its_strategy_says_so(kind: FailureKind) -> None:
    """``processNonPersistent: false`` drops those and no others."""
    lossy = SOURCE._replace(persistent=False)
    choosy = entry(strategy=DeadLetterStrategy(process_non_persistent=False))
    assert isinstance(decide(Failure(kind), lossy, choosy, NOW), Discard)
    assert isinstance(decide(Failure(kind), SOURCE, choosy, NOW), DeadLetter)
    assert isinstance(decide(Failure(kind), lossy, entry(), NOW), DeadLetter)


@given(ENTRIES, st.integers(0, 30))
def test_a_critical_failure_stops_and_touches_no_record(policy: PolicyEntry, deliveries: int) -> None:
    """Out of memory is not the record's fault: under no policy is it retried, buried or dropped for that."""
    failure = Failure(FailureKind.CRITICAL, "MemoryError")
    assert decide(failure, SOURCE.delivered(deliveries), policy, NOW) == Halt(failure)


def test_acknowledgement_types_have_activemqs_numbers() -> None:
    """They label metrics that people compare with their broker's."""
    assert {ack.name: ack.value for ack in AckType} == {
        "DELIVERED": 0,
        "POISON": 1,
        "STANDARD": 2,
        "REDELIVERED": 3,
        "INDIVIDUAL": 4,
        "UNMATCHED": 5,
        "EXPIRED": 6,
    }
