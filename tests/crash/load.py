"""The records of these groups, and what has to become of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

SCRIPTS: Final[Mapping[int, Sequence[str]]] = {
    0: ["raise"],
    1: ["reject"],
    2: ["raise", "ok"],
    3: ["raise", "ok"],
    4: ["raise", "quiet"],
    5: ["quiet"],
    6: ["sleep 0.01"],
}
"""By the last digit of a record's number; the others succeed at once."""

BY_HANDLER: Final[Mapping[int, Sequence[str]]] = {
    0: ["raise"],
    1: ["reject"],
    2: ["raise", "ack"],
    3: ["recover", "ack"],
    4: ["leave", "ack"],
    5: ["leave", "ack"],
    6: ["leave", "ack"],
}
"""The same where the handler acknowledges. What it leaves is acknowledged with a later one, recovered, or fails of its
time-out; the second time it acknowledges, as it does with the others."""

_DEAD: Final = frozenset({0, 1})
_QUIET: Final = frozenset({4, 5})

TRANSACTION_MS: Final = 2000
SESSION_MS: Final = 2500
BROKER: Final = {
    # What is dead is noticed in seconds, instead of tens of them.
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "300",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
"""Properties of the broker that all of these groups share."""

HASTY: Final = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 300,
    "producer.transaction.timeout.ms": TRANSACTION_MS,
}
"""Client settings with which a group misses the dead soon."""

HASTY_NEW: Final = {"group.protocol": "consumer", "producer.transaction.timeout.ms": TRANSACTION_MS}
"""The same with the new consumer protocol, where the broker says how long a session lasts."""


def scripts(number: int, *, first: int = 0) -> list[Sequence[str]]:
    """So many records, numbered from ``first``."""
    return [SCRIPTS.get(n % 10, ["ok"]) for n in range(first, first + number)]


def expected(number: int, *, by_handler: bool = False) -> tuple[set[int], set[int]]:
    """Of the first so many records, those that end among the outputs, and those among the dead letters."""
    dead = {n for n in range(number) if n % 10 in _DEAD}
    quiet = frozenset() if by_handler else _QUIET
    return {n for n in range(number) if n % 10 not in quiet} - dead, dead


def settings(delay_ms: int = 100, **sections: object) -> dict[str, Any]:
    """The sections of a configuration that writes many small transactions, and retries each record once."""
    return {
        "journal": True,
        "handler": {"slots": 2},
        "limits": {"batch": 5, "bufferRecords": 40},
        "policyEntry": {
            "redeliveryPolicy": {
                "maximumRedeliveries": 1,
                "initialRedeliveryDelay": delay_ms,
                "redeliveryDelay": delay_ms,
            }
        },
    } | sections
