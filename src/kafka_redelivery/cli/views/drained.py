"""What an import from ActiveMQ has done, as text and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from kafka_redelivery.dead_letters.draining import Drained


def print_drained(console: Console, found: Drained, done: str) -> None:
    """Print how many messages become dead letters, where, and why others are left in the queue.

    Args:
        console: where to print.
        found: the numbers.
        done: ``imported`` or ``to import``.
    """
    for topic, number in sorted(found.topics.items()):
        console.print(f"{number} messages {done} as dead letters in {topic}", markup=False)
    if found.present:
        console.print(f"{found.present} are there already, from an import that was interrupted")
    for destination, number in sorted(found.without_source.items()):
        where = f"destination {destination}" if destination else "no destination"
        console.print(f"{number} with {where} are left in the queue: no source has it (--origin)", markup=False)
    for reason, number in sorted(found.unknown_content.items()):
        console.print(f"{number} are left in the queue, whose content may not arrive whole: {reason}", markup=False)
    for reason, number in sorted(found.refused.items()):
        console.print(
            f"{number} are left in the queue, because Kafka refuses their dead letters: {reason}", markup=False
        )
    if found.held:
        console.print(
            f"{found.held} more are in the queue and were not delivered: another reader holds them, or one that was "
            "killed; or the broker cannot show them, such as compressed large texts of Artemis; import again later"
        )
    if not found.topics:
        console.print(f"nothing {done}")


def drained_document(found: Drained) -> dict[str, Any]:
    """Return the same as plain data for JSON."""
    return {
        "letters": found.topics.total(),
        "topics": dict(found.topics),
        "present": found.present,
        "withoutSource": dict(found.without_source),
        "withoutBody": found.unknown_content.total(),
        "unknownContent": dict(found.unknown_content),
        "refused": dict(found.refused),
        "held": found.held,
    }
