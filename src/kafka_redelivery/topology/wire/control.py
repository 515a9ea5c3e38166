"""The records of the control topic, in which a group keeps what it knows about itself.

The topic has one partition and is compacted: of each key the newest record counts. A value is JSON with a ``version``.
A reader ignores keys and fields that it does not know.

============================  ==================================  ======================================
key                           fields of the value                 written by
============================  ==================================  ======================================
``source/{topic}``            ``partitions``: how many the source ``redelivery topology apply``, once
                              had when the group began;
                              ``topicMark``: of the source
``partition/{topic}/{n}``     ``offset``: a committed offset, so   the member that is assigned the
                              that one is known to have existed;   partition: once, at its shutdown with
                              ``topicMark``: of the topic;         ``metadata``, and without it before
                              ``metadata``: of the last commit,    the partition is read again; withdrawn
                              if the partition is not in use;      by ``redelivery topology apply`` when
                              ``cluster``: the id of its cluster   it creates the topic
``former/{topic}/{n}``        ``offset``: that the group had in    the member that is assigned the
                              an older topic of that name          partition, once; withdrawn by
                                                                   ``redelivery topology apply``
``unstarted/{topic}/{n}``      ``firstSeenMs``: since when it is    the member that is assigned the
                              unknown where a partition that      partition, once; of no meaning when it
                              would start at its end starts       has had an offset
``tier/{topic}``              ``retiredMs``: since when no policy  ``redelivery topology apply``
                              needs the tier; ``null``: it is used
``width``                     ``partitions``: how many tiers and   ``redelivery topology apply``, once for
                              ready topics get at most, unless     a new group
                              the configuration says
``feature-level``             ``level``: the highest feature that  ``redelivery topology apply``
                              all members of the group support
============================  ==================================  ======================================

Each value also has ``firstSeenMs``, the time of its writer (epoch ms). A ``topicMark`` is what
:mod:`kafka_redelivery.topology.wire.topic_mark` describes; records of older versions have none.
:mod:`kafka_redelivery.topology.wire.pauses` has the records of pauses, and names the modules of others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.topic_mark import is_other_topic

VERSION = 1
_MAX_PARTITIONS = 2**31


_Partition = tuple[str, int]


class ControlRecord(NamedTuple):
    """A record of the control topic."""

    key: bytes
    value: bytes | None
    """``None`` withdraws the record of this key."""


@dataclass(frozen=True, slots=True)
class ControlState:
    """The content of the control topic."""

    exists: bool = False
    """Whether there is a control topic. Without one nothing is known."""

    sources: Mapping[str, int] = field(default_factory=dict)
    """The number of partitions that each source had when the group began."""

    committed: Mapping[_Partition, int] = field(default_factory=dict)
    """A committed offset of each partition, by topic and number, that is known to have had one."""

    saved: Mapping[_Partition, Checkpoint] = field(default_factory=dict)
    """The last commit of each partition that no process has read since its owner stopped."""

    marks: Mapping[_Partition | str, str] = field(default_factory=dict)
    """The marks of the topics that what is known is about: of a partition, or of a source by its name."""

    former: Mapping[_Partition, int] = field(default_factory=dict)
    """Partitions of topics that were created again, each with an offset that the group had in the older topic."""

    unstarted: Mapping[_Partition, int] = field(default_factory=dict)
    """Partitions that could not be started at their end, each with the time since when that is so (epoch ms)."""

    cluster: str = ""
    """The id of the cluster that the topic was read from."""

    retired: Mapping[str, int | None] = field(default_factory=dict)
    """The tiers, each with the time since when no policy needs it (epoch ms); ``None`` for one that is used."""

    width: int | None = None
    """The largest number of partitions of tiers and ready topics, unless the configuration has one.

    ``None`` for a group that began before there was such a default."""

    level: int = 1
    """The feature level: the highest feature that all members of the group support."""

    def of_topics(self, marks: Mapping[Any, str], former: Mapping[_Partition, int] | None = None) -> ControlState:
        """Return what holds for the topics that exist now: what was known of an older topic of a name is void.

        Args:
            marks: the mark of each topic that exists, as far as it is known, by its name or for each of its partitions.
            former: partitions of which it is known from elsewhere that the group had this offset in an older topic.
        """
        void = {
            key
            for key, mark in self.marks.items()
            if not isinstance(key, str) and is_other_topic(mark, marks.get(key) or marks.get(key[0], ""))
        }
        void |= {key for key in former or () if key not in self.marks}
        if not (void or former):
            return self
        return replace(
            self,
            committed={each: offset for each, offset in self.committed.items() if each not in void},
            saved={each: point for each, point in self.saved.items() if each not in void},
            marks={key: mark for key, mark in self.marks.items() if key not in void},
            former={
                **self.former,
                **{each: offset for each, offset in self.committed.items() if each in void},
                **(former or {}),
            },
        )

    def is_new(self, topic: str, number: int) -> bool:
        """Whether the group has never committed an offset in a partition."""
        return self.exists and (topic, number) not in self.committed

    def was_added(self, topic: str, number: int, mark: str = "") -> bool:
        """Whether a partition was added to a source after the group began, or with a new topic of its name.

        Args:
            topic: the source.
            number: the number of the partition.
            mark: of the topic that exists now, if it is known.
        """
        if topic not in self.sources:
            return False
        return number >= self.sources[topic] or is_other_topic(self.marks.get(topic, ""), mark)


def source_record(topic: str, partitions: int, now_ms: int, mark: str = "") -> ControlRecord:
    """Return the record of a source that the group begins to read. ``mark``: of the topic, if it is known."""
    return control_record(f"source/{topic}", now_ms, partitions=partitions, **_of_topic(mark))


def first_offset_record(topic: str, number: int, offset: int, now_ms: int, mark: str = "") -> ControlRecord:
    """Return the record of a partition in which the group has committed an offset. ``mark``: of its topic."""
    return control_record(f"partition/{topic}/{number}", now_ms, offset=offset, **_of_topic(mark))


def saved_record(topic: str, number: int, last: Checkpoint, cluster: str, now_ms: int, mark: str = "") -> ControlRecord:
    """Return the record of a partition whose owner stops after its last commit. ``mark``: of its topic."""
    fields: dict[str, int | str | None] = {"offset": last.offset, "metadata": last.metadata, "cluster": cluster}
    return control_record(f"partition/{topic}/{number}", now_ms, **fields, **_of_topic(mark))


def former_record(topic: str, number: int, offset: int, now_ms: int) -> ControlRecord:
    """Return the record of a partition of a topic that was created again. ``offset``: of the group in the older one."""
    return control_record(f"former/{topic}/{number}", now_ms, offset=offset)


def unstarted_record(topic: str, number: int, since_ms: int) -> ControlRecord:
    """Return the record of a partition that cannot be started at its end since then (epoch ms)."""
    return control_record(f"unstarted/{topic}/{number}", since_ms)


def withdrawn_records(topic: str, number: int) -> list[ControlRecord]:
    """Return the records that withdraw what is known of a partition."""
    return [ControlRecord(f"{kind}/{topic}/{number}".encode(), None) for kind in ("partition", "former", "unstarted")]


def withdrawn_former_record(topic: str, number: int) -> ControlRecord:
    """Return the record that withdraws what is known of a partition of an older topic."""
    return withdrawn_records(topic, number)[1]


def _of_topic(mark: str) -> dict[str, int | str | None]:
    return {"topicMark": mark} if mark else {}


def tier_record(topic: str, retired_ms: int | None, now_ms: int) -> ControlRecord:
    """Return the record of a tier that is used, or retired."""
    return control_record(f"tier/{topic}", now_ms, retiredMs=retired_ms)


def width_record(partitions: int, now_ms: int) -> ControlRecord:
    """Return the record of the default width of a group's tiers and ready topics."""
    return control_record("width", now_ms, partitions=partitions)


def level_record(level: int, now_ms: int) -> ControlRecord:
    """Return the record of a feature level."""
    return control_record("feature-level", now_ms, level=level)


def control_state(  # noqa: C901, PLR0912 - a case for each kind of record
    records: Iterable[tuple[bytes | None, bytes | None]], cluster: str = ""
) -> ControlState:
    """Return the state that all records of an existing control topic describe, in the order of their offsets.

    Positions that were saved in another cluster than ``cluster`` are ignored: a mirror has copied them, and its offsets
    are others.

    Raises:
        ControlRecordError: a record was not written by this project.
    """
    newest = ((key, value) for key, value in dict(records).items() if key is not None and value is not None)
    sources: dict[str, int] = {}
    committed: dict[_Partition, int] = {}
    saved: dict[_Partition, Checkpoint] = {}
    marks: dict[_Partition | str, str] = {}
    former: dict[_Partition, int] = {}
    unstarted: dict[_Partition, int] = {}
    retired: dict[str, int | None] = {}
    width: int | None = None
    level = 1
    for key, value in newest:
        try:
            match key.decode().split("/"):
                case ["source", topic]:
                    fields = fields_of(value)
                    sources[topic] = whole(fields["partitions"], most=_MAX_PARTITIONS)
                    if "topicMark" in fields:
                        marks[topic] = str(fields["topicMark"])
                case ["partition", topic, digits]:
                    fields, number = fields_of(value), whole(int(digits), most=_MAX_PARTITIONS - 1)
                    offset = committed[topic, number] = whole(fields["offset"])
                    if "metadata" in fields and fields.get("cluster") == cluster:
                        saved[topic, number] = Checkpoint(offset, str(fields["metadata"]))
                    if "topicMark" in fields:
                        marks[topic, number] = str(fields["topicMark"])
                case ["former", topic, digits]:
                    number = whole(int(digits), most=_MAX_PARTITIONS - 1)
                    former[topic, number] = whole(fields_of(value)["offset"])
                case ["unstarted", topic, digits]:
                    number = whole(int(digits), most=_MAX_PARTITIONS - 1)
                    unstarted[topic, number] = whole(fields_of(value)["firstSeenMs"], most=LATEST_MS)
                case ["tier", topic]:
                    since = fields_of(value)["retiredMs"]
                    retired[topic] = None if since is None else whole(since, most=LATEST_MS)
                case ["width"]:
                    width = whole(fields_of(value)["partitions"], least=1, most=_MAX_PARTITIONS)
                case ["feature-level"]:
                    level = whole(fields_of(value)["level"], least=1)
                case _:
                    pass
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise ControlRecordError(repr(key)[2:-1], str(error)) from None
    return ControlState(
        exists=True,
        sources=sources,
        committed=committed,
        saved=saved,
        marks=marks,
        former=former,
        unstarted=unstarted,
        retired=retired,
        width=width,
        level=level,
        cluster=cluster,
    )


def control_record(key: str, now_ms: int, **fields: object) -> ControlRecord:
    """Return a record with these fields, a version and the time of its writer (epoch ms)."""
    value = {"version": VERSION, "firstSeenMs": now_ms, **fields}
    return ControlRecord(key.encode(), json.dumps(value, separators=(",", ":")).encode())


def whole(value: object, *, least: int = 0, most: int = LONG_MAX) -> int:
    """Return a whole number. To a Kafka client a negative offset means the start or the end of the log."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"not a number from {least} to {most}: {value!r:.50}")
    return value


def fields_of(value: bytes) -> dict[str, Any]:
    """Return the fields of a value.

    Raises:
        ValueError: it is not JSON.
    """
    fields: dict[str, Any] = json.loads(value)
    return fields
