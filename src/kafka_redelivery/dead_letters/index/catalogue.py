"""What an index consists of: its files, and how far it has read each topic."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

VERSION = 6
"""Of the format of all files. An index of another version is built anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One immutable file."""

    name: str
    rows: int
    size: int
    checksum: int
    modified_ns: int
    """With the size, it shows that a file is unchanged without reading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One partition of one dead-letter topic. A topic that is created again gets other slots."""

    number: int
    topic: str
    partition: int
    topic_id: str
    """Empty if the brokers give none."""

    start: int
    """Letters before this offset are deleted."""

    position: int
    """The offset to read next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How far the topics of the jobs and the actions are read, and the files that say what is in them."""

    topic_ids: tuple[str, str] = ("", "")
    starts: Mapping[str, int] = field(default_factory=dict)
    """The first offset of each partition, by ``topic-partition``. If it has moved, records were deleted."""

    jobs: int = 0
    """The end of the jobs that were read."""

    actions: Mapping[int, int] = field(default_factory=dict)
    """The offset to read next, by partition."""

    sequence: int = 0
    """How many rows of actions there are; a later row has a higher number."""

    owned_file: StoredFile | None = None
    action_files: tuple[StoredFile, ...] = ()
    unread_jobs: int = 0
    """How many records of the jobs cannot be read."""

    unread_actions: int = 0
    """The same of the actions."""

    @property
    def unread(self) -> int:
        """How many records of both topics cannot be read."""
        return self.unread_jobs + self.unread_actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What an index depends on beside the topics. Another basis needs another index."""

    version: int
    cluster: str
    group: str
    values: bool
    """Whether keys, header values and values are kept."""

    class_only: bool
    undecodable: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The state of an index. Files that it does not name mean nothing."""

    basis: Basis
    next_slot: int = 0
    slots: tuple[Slot, ...] = ()
    letter_files: tuple[StoredFile, ...] = ()
    facts: Facts = field(default_factory=Facts)
    standings_file: StoredFile | None = None
    standings_slots: tuple[int, ...] = ()
    """The slots that the file was computed for. They may be others if the process was killed in a refresh."""

    refreshed_ms: int = 0

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """All files that it names."""
        single = (each for each in (self.facts.owned_file, self.standings_file) if each is not None)
        return (*self.letter_files, *self.facts.action_files, *single)

    def with_positions(self, positions: Mapping[Any, int]) -> Self:
        """Return the catalogue of an index that has read some partitions further."""
        slots = [
            replace(each, position=positions.get((each.topic, each.partition), each.position)) for each in self.slots
        ]
        return replace(self, slots=tuple(slots))

    def text(self) -> str:
        """Return it as text that :func:`read_catalogue` reads."""
        document = json.dumps(asdict(self), separators=(",", ":"))
        return f"{zlib.crc32(document.encode()):08x}\n{document}\n"


def read_catalogue(text: str) -> Catalogue | None:
    """Read a catalogue; ``None`` if the text is damaged, or of another version."""
    checksum, _, document = text.partition("\n")
    document = document.rstrip("\n")
    if checksum != f"{zlib.crc32(document.encode()):08x}":
        return None
    try:
        return _catalogue(json.loads(document))
    except (ValueError, TypeError, LookupError):  # another version
        return None


def _catalogue(found: dict[str, Any]) -> Catalogue:
    basis, facts, standings = found.pop("basis"), found.pop("facts"), found.pop("standings_file")
    if basis["version"] != VERSION:
        raise ValueError("another version")
    return Catalogue(
        basis=Basis(**basis | {"undecodable": tuple(basis["undecodable"])}),
        slots=tuple(Slot(**each) for each in found.pop("slots")),
        letter_files=_files(found.pop("letter_files")),
        facts=Facts(
            topic_ids=tuple(facts.pop("topic_ids")),
            actions={int(number): offset for number, offset in facts.pop("actions").items()},
            owned_file=_file(facts.pop("owned_file")),
            action_files=_files(facts.pop("action_files")),
            **facts,
        ),
        standings_slots=tuple(found.pop("standings_slots")),
        standings_file=_file(standings),
        **found,
    )


def _file(found: Mapping[str, Any] | None) -> StoredFile | None:
    return None if found is None else StoredFile(**found)


def _files(found: Iterable[Mapping[str, Any]]) -> tuple[StoredFile, ...]:
    return tuple(StoredFile(**each) for each in found)
