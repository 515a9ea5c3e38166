"""The story of a dead letter: which letters it was before, and what became of it."""

from __future__ import annotations

from kafka_redelivery.consumers.redrive.ledger import Ledger
from kafka_redelivery.topology.redrive.letter import Letter


def predecessor(ledger: Ledger, letter: Letter) -> str | None:
    """Return the id of the letter that this one was before it was sent again; ``None`` if it is not known."""
    mark = letter.mark
    job = None if mark is None else ledger.jobs.jobs.get(mark.job)
    if mark is None or job is None or mark.slice >= len(job.spec.slices):
        return None
    topic, partition = job.spec.slices[mark.slice]
    return f"{topic}-{partition}@{mark.offset}"
