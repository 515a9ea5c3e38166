"""What an audit cannot tell, in sentences for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.audit_result import Part
from pipeline.audit_snapshot import Kind, Snapshot
from transport.protocols import Partition


def notes(
    snapshot: Snapshot, parts: Sequence[Part], begins: Mapping[Partition, int], unattributed: Mapping[str, int]
) -> Iterator[str]:
    """Every reservation about a result.

    Args:
        snapshot: the positions.
        parts: the counts.
        begins: from where on the journal tells of each source partition; one it tells nothing of is missing.
        unattributed: topic of ours -> records without an origin.
    """
    yield from _about_the_journal(snapshot, parts, begins)
    for source in snapshot.sources:
        if source.standing is None:
            yield f"The group has committed nothing in {_name(source.place)}: nothing of it was read yet."
    for place in snapshot.damaged:
        yield f"The commit in {_name(place)} has metadata that cannot be read: only its offset counts."
    if snapshot.removed:
        yield (
            "Where offsets are gone before anybody read them, some of them may have been markers of transactions: the "
            "number is the most that can be missing."
        )
    if unattributed:
        yield "Records without a readable origin stand in topics of ours; whose they are cannot be told."


def _about_the_journal(snapshot: Snapshot, parts: Sequence[Part], begins: Mapping[Partition, int]) -> Iterator[str]:
    if snapshot.journal:
        for part in parts:
            place, number = Partition(part.topic, part.partition), part.states["untraced"]
            if number:
                since = f"only from offset {begins[place]} on" if place in begins else "nothing"
                yield (
                    f"The journal tells {since} of {_name(place)}: {number} records without a trace were read before "
                    "it was there, or dropped by a scheduler, or are lost."
                )
        return
    yield (
        "The journal is not used: of a record that was read and left no copy nobody can tell whether it was acked or "
        "lost."
    )
    letters = [_name(span.place) for span in snapshot.spans[Kind.LETTER] if span.start > 0]
    if letters:
        yield f"Dead letters have been removed from {', '.join(letters)}: such a record has left no trace, either."
    if snapshot.discarding:
        dropping = ", ".join(sorted(snapshot.discarding))
        yield f"Dead letters of {dropping} are dropped by its policy, which leaves no trace, either."


def _name(place: Partition) -> str:
    return f"{place.topic}-{place.number}"
