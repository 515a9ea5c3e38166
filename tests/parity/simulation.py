"""A consumer and its messages without any broker: what a worker does with one policy entry.

Every decision is :func:`topology.decision.decide`; what a trigger leads to is :func:`topology.acknowledgement.effect`.
"""

from dataclasses import dataclass, field
from itertools import count, repeat

from topology.acknowledgement import AcknowledgementMode, Dialect, Effect, Trigger, effect
from topology.decision import DeadLetter, Discard, Failure, FailureKind, Reason, Retry, decide
from topology.headers import HeaderList, dead_letter_headers
from topology.lineage import Lineage
from topology.policy import PolicyEntry

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
LOOKED_AFTER_MS = 5000
"""How long the recording waited for a message to expire."""

UNREAD = ("no-consumer", "expired-receive", "expired-offline-receive")
"""Modes in which a message expires before anybody asks for it."""


@dataclass(slots=True)
class Story:
    """What became of one message."""

    delays: list[int] = field(default_factory=list)
    """Before each redelivery."""

    dead_letter: DeadLetter | None = None
    headers: HeaderList = field(default_factory=list)
    discarded: Discard | None = None
    stopped: bool = False
    delivered: int = 0


def effect_of(mode: str, dialect: Dialect) -> Effect:
    """What a recorded mode leads to."""
    words = mode.split("-")
    return effect(_MODES[words[0]], _TRIGGERS[words[-1]], dialect)


def tell(
    entry: PolicyEntry, mode: str, dialect: Dialect, *, ttl_ms: int = 0, persistent: bool = True, stop_after: int = 12
) -> Story:
    """Follow one message that always fails.

    Args:
        entry: of its destination.
        mode: as recorded, how it fails.
        dialect: whose rules the mode follows.
        ttl_ms: how long it lives; 0 = for ever.
        persistent: whether it may not be lost.
        stop_after: deliveries after which nobody looks any more.
    """
    story = Story()
    expiration = entry.expiration_ms(SENT + ttl_ms if ttl_ms else 0, SENT)
    lineage = Lineage("orders", 0, 1, SENT, 0, expiration, persistent)
    if mode in UNREAD:
        if expiration and expiration <= SENT + LOOKED_AFTER_MS:
            _end(story, entry, lineage, FailureKind.EXPIRED, expiration)
        return story
    leads_to = effect_of(mode, dialect)
    now = SENT
    for deliveries in count(1):
        if deliveries > stop_after:
            story.stopped = True
            return story
        if expiration and now > expiration:
            _end(story, entry, lineage, FailureKind.EXPIRED, now)
            return story
        story.delivered = deliveries
        lineage = lineage.delivered(deliveries)
        if not leads_to.redelivered:
            return story
        decision = decide(Failure(FailureKind.RAISED), lineage, entry, now, repeat(0.0))
        if leads_to.limited and not isinstance(decision, Retry):
            _end(story, entry, lineage, FailureKind.RAISED, now)
            return story
        delay = decision.delay_ms if leads_to.delayed and isinstance(decision, Retry) else 0
        story.delays.append(delay)
        now += delay
    raise AssertionError


def _end(story: Story, entry: PolicyEntry, lineage: Lineage, kind: FailureKind, now: int) -> None:
    decision = decide(Failure(kind, "Recorded", "as recorded"), lineage, entry, now, repeat(0.0))
    if isinstance(decision, DeadLetter):
        story.dead_letter = decision
        story.headers = dead_letter_headers(lineage, "group", [("colour", b"blue")], decision, now)
    elif isinstance(decision, Discard):
        story.discarded = decision


def topic_of(entry: PolicyEntry, story: Story, topic: str) -> str | None:
    """Where the dead letter of a story went."""
    if story.dead_letter is None:
        return None
    strategy = entry.dead_letter_strategy
    expired = story.dead_letter.reason is Reason.EXPIRED and strategy.expiry_topic is not None
    template = strategy.expiry_topic if expired and strategy.expiry_topic is not None else strategy.topic
    return template.replace("{topic}", topic).replace("{group}", "group")
