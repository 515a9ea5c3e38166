"""Dead letters with the headers that workers write, written from outside, with any expiration and of any group."""

import time

from tests.scenarios.cluster import Pairs, Sent
from tests.scenarios.running import Group


def now_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def letter(group: Group, n: int, expires_ms: int | None, *, partition: int = 0, of: str | None = None) -> Sent:
    """Make a dead letter that carries a number.

    Args:
        group: the group whose topics exist.
        n: the number, which is its value.
        expires_ms: epoch ms; ``None`` = never.
        partition: the partition it is written to.
        of: the consumer group that dead-lettered it; ``group`` by default.
    """
    headers: Pairs = [
        ("_AMQ_ORIG_ADDRESS", group.source.encode()),
        ("_AMQ_ORIG_QUEUE", (of or group.name).encode()),
        *([] if expires_ms is None else [("JMSExpiration", b"%d" % expires_ms)]),
        ("traceparent", b"00-%d" % n),
    ]
    return Sent(b"%d" % n, b"k%d" % n, headers, partition)


def kept(group: Group, topic: str | None = None) -> list[int]:
    """Return the numbers of the dead letters that are still in the topic."""
    return sorted(int(record.value or b"") for record in group.cluster.read(topic or group.dead_letters))


def emptied(group: Group) -> bool:
    """Return whether the dead-letter topic is empty: no record and no transaction marker is left."""
    return group.cluster.starts(group.dead_letters) == group.cluster.ends(group.dead_letters)


def expiring(ms: int, **strategy: object) -> dict[str, object]:
    """Make a policy that redelivers nothing and whose dead letters expire after ``ms`` milliseconds."""
    return {
        "redeliveryPolicy": {"maximumRedeliveries": 0},
        "deadLetterStrategy": {"expiration": ms, **strategy},
    }
