"""Simulates the deliveries of one message without a broker: what a worker does under one policy entry.

:func:`decide` makes each decision and :func:`effect` gives the effect of each trigger.
"""

from dataclasses import dataclass, field
from itertools import count, repeat

from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.policy.decision import DeadLetter, Discard, Failure, FailureKind, Reason, Retry, decide
from kafka_redelivery.topology.policy.entry import PolicyEntry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import HeaderList, dead_letter_headers
from tests.parity.effects import Dialect, Effect, Trigger, effect

SENT = 1_700_000_000_000

_MODES = {"dups": AcknowledgementMode.DUPS_OK} | {mode.value: mode for mode in AcknowledgementMode}
_TRIGGERS = {
    "rollback": Trigger.ROLLBACK,
    "recover": Trigger.RECOVER,
    "throw": Trigger.RAISED,
    "session": Trigger.CLOSED,
    "consumer": Trigger.CLOSED,
    "connection": Trigger.CLOSED,
    "receive": Trigger.RECEIVED,
}
EXPIRY_CHECKED_AFTER_MS = 5000
"""Milliseconds after sending at which the recording looked whether a message had expired."""

MODES_WITHOUT_CONSUMER = ("no-consumer", "expired-receive", "expired-offline-receive")
"""Modes in which a message expires before a consumer receives it."""


@dataclass(slots=True)
class MessageOutcome:
    """The outcome of one message."""

    delays: list[int] = field(default_factory=list)
    """The delay before each redelivery, in milliseconds."""

    dead_letter: DeadLetter | None = None
    headers: HeaderList = field(default_factory=list)
    discarded: Discard | None = None
    stopped: bool = False
    delivered: int = 0


def effect_of(mode: str, dialect: Dialect) -> Effect:
    """Return the effect of a recorded mode."""
    words = mode.split("-")
    return effect(_MODES[words[0]], _TRIGGERS[words[-1]], dialect)


def simulate(
    entry: PolicyEntry, mode: str, dialect: Dialect, *, ttl_ms: int = 0, persistent: bool = True, stop_after: int = 12
) -> MessageOutcome:
    """Simulate one message whose every delivery fails.

    Args:
        entry: the policy entry of its destination.
        mode: the recorded mode: acknowledgement mode and trigger.
        dialect: the dialect whose rules the mode follows.
        ttl_ms: time to live in milliseconds; 0 = no expiration.
        persistent: whether its delivery mode is persistent.
        stop_after: number of deliveries after which the recording stopped.
    """
    outcome = MessageOutcome()
    expiration = entry.expiration_ms(SENT + ttl_ms if ttl_ms else 0, SENT)
    lineage = Lineage("orders", 0, 1, SENT, 0, expiration, persistent)
    if mode in MODES_WITHOUT_CONSUMER:
        if expiration and expiration <= SENT + EXPIRY_CHECKED_AFTER_MS:
            _end(outcome, entry, lineage, FailureKind.EXPIRED, expiration)
        return outcome
    effect_of_mode = effect_of(mode, dialect)
    now = SENT
    for deliveries in count(1):
        if deliveries > stop_after:
            outcome.stopped = True
            return outcome
        if expiration and now > expiration:
            _end(outcome, entry, lineage, FailureKind.EXPIRED, now)
            return outcome
        outcome.delivered = deliveries
        lineage = lineage.delivered(deliveries)
        if not effect_of_mode.redelivered:
            return outcome
        decision = decide(Failure(FailureKind.RAISED), lineage, entry, now, repeat(0.0))
        if effect_of_mode.limited and not isinstance(decision, Retry):
            _end(outcome, entry, lineage, FailureKind.RAISED, now)
            return outcome
        delay = decision.delay_ms if effect_of_mode.delayed and isinstance(decision, Retry) else 0
        outcome.delays.append(delay)
        now += delay
    raise AssertionError


def _end(outcome: MessageOutcome, entry: PolicyEntry, lineage: Lineage, kind: FailureKind, now: int) -> None:
    decision = decide(Failure(kind, "Recorded", "as recorded"), lineage, entry, now, repeat(0.0))
    if isinstance(decision, DeadLetter):
        outcome.dead_letter = decision
        outcome.headers = dead_letter_headers(lineage, "group", [("colour", b"blue")], decision, now)
    elif isinstance(decision, Discard):
        outcome.discarded = decision


def topic_of(entry: PolicyEntry, outcome: MessageOutcome, topic: str) -> str | None:
    """Return the topic of an outcome's dead letter, or ``None`` without one."""
    if outcome.dead_letter is None:
        return None
    strategy = entry.dead_letter_strategy
    expired = outcome.dead_letter.reason is Reason.EXPIRED and strategy.expiry_topic is not None
    template = strategy.expiry_topic if expired and strategy.expiry_topic is not None else strategy.topic
    return template.replace("{topic}", topic).replace("{group}", "group")
