"""Dead letters as workers write them, written by a bystander: with any expiration, of any group."""

import time

from tests.scenarios.cluster import Pairs, Sent
from tests.scenarios.running import Group


def now_ms() -> int:
    """Epoch ms."""
    return time.time_ns() // 1_000_000


def letter(group: Group, n: int, expires_ms: int | None, *, partition: int = 0, of: str | None = None) -> Sent:
    """A dead letter that bears a number.

    Args:
        group: whose topics there are.
        n: its value.
        expires_ms: epoch ms; ``None`` = never.
        partition: where it goes.
        of: the consumer group that gave it up, ``group`` itself if it is not given.
    """
    headers: Pairs = [
        ("_AMQ_ORIG_ADDRESS", group.source.encode()),
        ("_AMQ_ORIG_QUEUE", (of or group.name).encode()),
        *([] if expires_ms is None else [("JMSExpiration", b"%d" % expires_ms)]),
        ("traceparent", b"00-%d" % n),
    ]
    return Sent(b"%d" % n, b"k%d" % n, headers, partition)


def kept(group: Group, topic: str | None = None) -> list[int]:
    """The numbers of the dead letters that are still there."""
    return sorted(int(record.value or b"") for record in group.cluster.read(topic or group.dead_letters))


def emptied(group: Group) -> bool:
    """Whether nothing is left in the dead-letter topic, not even a marker."""
    return group.cluster.starts(group.dead_letters) == group.cluster.ends(group.dead_letters)


def expiring(ms: int, **strategy: object) -> dict[str, object]:
    """A policy whose dead letters live so long, and that redelivers nothing."""
    return {
        "redeliveryPolicy": {"maximumRedeliveries": 0},
        "deadLetterStrategy": {"expiration": ms, **strategy},
    }
