"""The records of the crash tests and their expected results."""

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
"""Scripts by the last digit of a record's number; the others succeed at the first attempt."""

BY_HANDLER: Final[Mapping[int, Sequence[str]]] = {
    0: ["raise"],
    1: ["reject"],
    2: ["raise", "ack"],
    3: ["recover", "ack"],
    4: ["leave", "ack"],
    5: ["leave", "ack"],
    6: ["leave", "ack"],
}
"""The same for the modes in which the handler acknowledges. A record that it leaves is acknowledged with a later one,
recovered, or fails by its time-out; at the second attempt the handler acknowledges it, as it does with all others."""

_DEAD: Final = frozenset({0, 1})
_QUIET: Final = frozenset({4, 5})

TRANSACTION_MS: Final = 2000
SESSION_MS: Final = 2500
BROKER: Final = {
    # Short sessions and time-outs, so that the broker notices a dead process within seconds.
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "300",
}
"""Properties of the brokers of the crash tests."""

LASTING: Final = BROKER | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
"""The same for a broker that is not restarted. One that ends old transactions while it starts, before its partitions
have leaders, may meet the fault of Kafka that docs/guarantees.md names. By default a broker waits ten seconds."""

RESTARTED: Final = BROKER | {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""The same for a broker that is restarted. It starts when the session of the time before has ended."""

SHORT_SESSION: Final = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 300,
    "producer.transaction.timeout.ms": TRANSACTION_MS,
}
"""Client settings with which a group soon removes a dead member."""

SHORT_SESSION_CONSUMER: Final = {"group.protocol": "consumer", "producer.transaction.timeout.ms": TRANSACTION_MS}
"""The same for the new consumer protocol, in which the broker sets the session time-out."""


def scripts(number: int, *, first: int = 0) -> list[Sequence[str]]:
    """Return the scripts of ``number`` records, numbered from ``first``."""
    return [SCRIPTS.get(n % 10, ["ok"]) for n in range(first, first + number)]


def expected(number: int, *, by_handler: bool = False) -> tuple[set[int], set[int]]:
    """Return which of the first ``number`` records end in the outputs and which in the dead letters."""
    dead = {n for n in range(number) if n % 10 in _DEAD}
    quiet = frozenset() if by_handler else _QUIET
    return {n for n in range(number) if n % 10 not in quiet} - dead, dead


def settings(delay_ms: int = 100, **sections: object) -> dict[str, Any]:
    """Return configuration sections that write many small transactions and redeliver each record once."""
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
