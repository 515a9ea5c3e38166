"""Where a partition without a committed offset starts. Its member commits that offset with its next write."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from typing import NamedTuple

from kafka_redelivery.consumers.clock import Clock, wall_clock_ms
from kafka_redelivery.consumers.flow.control import Control, NoControl, NoTopics, Topics
from kafka_redelivery.consumers.flow.stops import LostPosition
from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import BOUND_LEVEL
from kafka_redelivery.topology.wire.topic_mark import MARK_LEVEL, is_other_topic, is_void, split_mark
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.protocols import Partition, Reader

_log = logging.getLogger(__name__)

KEEP_EVERY_S = 6 * 3600.0
"""How often the offset of an idle partition is committed again. Kafka deletes the offsets of a group without members
that are older than ``offsets.retention.minutes`` (7 days by default)."""


class Start(NamedTuple):
    """Where a partition is read from."""

    offset: int
    found: Progress | LostPosition
    """Its progress, or why it is not read."""

    waits: bool = False
    """Whether no record may be fetched before this offset is committed; see :meth:`FirstOffsets.source`."""


class FirstOffsets:
    """Chooses where one process starts to read partitions. Only its polling thread uses it.

    What the group remembers of a partition is about a topic, not about its name. If the topic was deleted and created
    again, that memory is void: the new topic is read from its log start, whatever ``source_start`` says.
    """

    def __init__(
        self,
        reader: Reader,
        source_start: str = "earliest",
        control: Control | None = None,
        topics: Topics | None = None,
        found: Mapping[str, FoundTopic] | None = None,
        clock: Clock = wall_clock_ms,
    ) -> None:
        """Start without partitions.

        Args:
            reader: returns the bounds of partitions and committed offsets.
            source_start: where a source partition starts that is as old as the group: ``earliest`` or ``latest``.
            control: what the group knows of its partitions.
            topics: which topics stand behind their names. Without it, names are believed.
            found: the topics that this process has read before, as they were then; ``None`` = none.
            clock: epoch ms.
        """
        self._clock = clock
        self._reader = reader
        self.topics: Topics = NoTopics() if topics is None else topics
        self.found: dict[str, FoundTopic] = dict(found or {})
        """The topics as the last look has found them."""

        self._marks: dict[Partition, str] = {}
        """The mark of the topic of each partition, as it was when the partition was opened. Empty if it is unknown."""

        self._older: set[str] = set()
        """Marks of topics that were deleted. A broker that lags may still report one."""

        self._polled: dict[str, str] = {}
        """The mark of each topic in the last answer. Two equal ones in a row are believed: a broker may lag."""

        self._restarting: dict[Partition, str] = {}
        """Partitions that are to be opened again, with the mark of the topic that they were opened in."""

        self._void: dict[Partition, Checkpoint] = {}
        """The committed offset of an older topic, until an offset of the present one is committed."""

        self.gone: set[Partition] = set()
        """Partitions that the group has assigned to this process although they do not exist.

        A static member that starts within its session gets its former assignment back."""

        self._created_again: set[Partition] = set()
        """Partitions without a committed offset because the group had read an older topic of that name."""

        self._warned: set[Partition] = set()
        """Those of them that a warning has named."""

        self._from_start = source_start == "earliest"
        self._control = NoControl() if control is None else control
        self._ends: dict[Partition, int] = {}
        """The start offset of each partition that starts at its end, for the case that its first commit is aborted."""

        self._unstarted: dict[Partition, int] = {}
        """Since when it is unknown where a partition starts. With ``latest`` it starts where its end was then: it is
        asked for again up to 30 s after its leader is back, and producers write meanwhile."""

        self.restored: set[Partition] = set()
        """Partitions that go on at a saved position, which is to be committed."""

        self.unknown: dict[Partition, str] = {}
        """Partitions without a committed offset whose start is unknown, because the control topic cannot be read."""

    def positions(
        self, partitions: Iterable[Partition], owned: Container[Partition] = ()
    ) -> dict[Partition, Checkpoint | None]:
        """Return the committed offsets; where one has expired, the position that its last owner saved when it stopped.

        A partition that does not exist is missing, and in :attr:`gone`. An offset or a position of an older topic
        counts as none.

        While the control topic cannot be read, partitions with a committed offset need not wait for it: what was saved
        of them is dropped later, by :meth:`note_first_offsets`. The others are in :attr:`unknown`.

        Args:
            partitions: the partitions.
            owned: those that this process owns already, and starts again after an aborted write. Their topics stay what
                they were: :meth:`to_restart` says if there are new ones.

        Raises:
            TransportError: Kafka does not answer, or refuses.
        """
        partitions = list(partitions)
        opened = [each for each in partitions if each not in owned or each not in self._marks]
        # First the topics, then the offsets: if a topic is created again in between, :meth:`to_restart` will say so.
        replaced = self._look(opened)
        partitions = [each for each in partitions if each not in self.gone]
        found = dict(self._reader.committed(partitions))
        void = {
            partition: committed
            for partition, committed in found.items()
            if committed is not None and self._is_older(partition, committed, replaced)
        }
        self._take_away(void, found)
        new = [partition for partition in found if partition not in owned]
        if new:
            self._control.begin([partition for partition in new if found[partition] is not None])
            self._take_away(self._born_in_older(new, found), found)
        problem = self._control.problem()
        self._note_created_again(found, replaced, opened)
        for partition, committed in found.items():
            self.restored.discard(partition)
            self.unknown.pop(partition, None)
            if committed is not None or partition in self._created_again:
                continue
            if problem is not None:
                self.unknown[partition] = problem
            else:
                self._restore_saved(partition, found)
        return found

    def _take_away(self, void: Mapping[Partition, Checkpoint], found: dict[Partition, Checkpoint | None]) -> None:
        self._void |= void
        found |= dict.fromkeys(void)
        self._control.know(self._marks, {each: committed.offset for each, committed in void.items()})

    def _born_in_older(
        self, partitions: Iterable[Partition], found: Mapping[Partition, Checkpoint | None]
    ) -> dict[Partition, Checkpoint]:
        """Return the offsets that name no topic, of partitions whose first offset was noted in an older topic.

        Before feature level 3 no offset names its topic. Who commits the first one in the new topic notes it within a
        second, so such an offset is most likely that of a process that had not noticed the new topic.
        """
        state = self._control.state
        return {
            partition: committed
            for partition in partitions
            if (committed := found[partition]) is not None and not split_mark(committed.metadata)[0]
            if partition in state.former and partition not in state.committed
        }

    def _look(self, opened: Collection[Partition]) -> set[Partition]:
        """Find out which topics stand behind the names of partitions that are opened.

        Returns:
            the partitions whose topics were created again while this process read them. Of these, also an offset that
            names no topic is one of the older topic.
        """
        read = {(each.topic, mark) for each, mark in self._marks.items()}
        read |= {(topic, each.mark) for topic, each in self.found.items()}
        found = self.topics.look({each.topic for each in opened})
        for topic, each in found.items():
            known = self.found.get(topic, each).mark
            missing_or_lagging = not each.mark or each.mark in self._older
            self.found[topic] = each._replace(mark=known if missing_or_lagging else each.mark)
            self._older |= {
                mark for name, mark in read if name == topic and is_other_topic(mark, self.found[topic].mark)
            }
        gone = {each for each in opened if not self._exists(each, found)}
        if gone - self.gone:
            _log.warning("left out until they exist: %s", ", ".join(map(str, sorted(gone))))
        self.gone = (self.gone - set(opened)) | gone
        self._marks |= {
            each: self.found[each.topic].mark for each in opened if each.topic in found and each not in gone
        }
        older = {topic for topic, mark in read if mark in self._older}
        before = {each: self._restarting.pop(each, "") for each in opened}
        return {each for each in opened if each.topic in older or is_other_topic(before[each], self.mark_of(each))}

    def _is_older(self, partition: Partition, position: Checkpoint, replaced: Collection[Partition] = ()) -> bool:
        """Whether a position is one in an older topic.

        A process that has not noticed a new topic yet commits its position in the older one by name.
        """
        unnamed = partition in replaced and not split_mark(position.metadata)[0]
        known = self._void.get(partition) == position
        return unnamed or known or is_void(position.metadata, self.mark_of(partition))

    def committed_now(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint | None]:
        """Return what :meth:`Reader.committed_now` returns, without the offsets of older topics."""
        return {
            partition: None if committed is None or self._is_older(partition, committed) else committed
            for partition, committed in self._reader.committed_now(partitions).items()
        }

    def _note_created_again(
        self,
        found: Mapping[Partition, Checkpoint | None],
        replaced: Collection[Partition],
        opened: Collection[Partition],
    ) -> None:
        """Find out which of these partitions have no offset because the group has read an older topic; warn once."""
        state = self._control.state
        self._created_again -= {each for each, committed in found.items() if committed is not None or each in opened}
        news: defaultdict[str, list[str]] = defaultdict(list)
        for partition in sorted(each for each, committed in found.items() if committed is None):
            saved, former, void = state.saved.get(partition), state.former.get(partition), self._void.get(partition)
            if saved is not None and self._is_older(partition, saved):
                former = saved.offset
            elif void is not None:
                former = void.offset
            elif partition in replaced:
                former = former or self._ends.get(partition, 0)
            elif former is None or partition in state.committed:
                continue
            self._created_again.add(partition)
            self._ends.pop(partition, None)
            if partition not in self._warned:
                self._warned.add(partition)
                news[partition.topic].append(f"{partition.number} (to offset {former})")
        for topic, read in news.items():
            _log.warning(
                "topic %s was deleted and created again: the group had read partition %s of the older topic, and "
                "reads the new one from its start; records of the older one that were not handled are gone with it",
                topic,
                ", ".join(read),
            )

    def _restore_saved(self, partition: Partition, found: dict[Partition, Checkpoint | None]) -> None:
        saved = self._control.state.saved.get(partition)
        if saved is None:
            return
        found[partition] = saved
        self.restored.add(partition)
        known = self.mark_of(partition) and self._control.state.marks.get(partition)
        _log.log(
            logging.INFO if known else logging.WARNING,
            "%s-%d has no committed offset and goes on at the saved one, %d%s",
            *partition,
            saved.offset,
            "" if known else "; whether that was in this topic, or in an older one of its name, is unknown",
        )

    def mark_of(self, partition: Partition) -> str:
        """Return the mark that the topic of a partition had when the partition was opened; empty if it is unknown."""
        return self._marks.get(partition, "")

    @property
    def names_topics(self) -> bool:
        """Whether the metadata of commits names the topic, because all members can read that."""
        return self._control.state.level >= MARK_LEVEL

    @staticmethod
    def _exists(partition: Partition, found: Mapping[str, FoundTopic]) -> bool:
        return partition.topic not in found or partition.number < found[partition.topic].partitions

    def changed(self, topics: Collection[str], owned: Iterable[Partition]) -> list[Partition]:
        """Return :meth:`to_restart`, if there is a new answer about these topics. Does not wait."""
        answer = self.topics.poll(topics, self.found)
        return [] if answer is None else self.to_restart(answer, owned)

    def to_restart(self, now: Mapping[str, FoundTopic], owned: Iterable[Partition]) -> list[Partition]:
        """Return the partitions whose topics were created again since they were opened, and those that were missing.

        A new topic counts with the second answer in a row that names it. Close partitions before you open them again.
        """
        answer = {topic: each.mark for topic, each in now.items() if each.mark}
        marks = {topic: mark for topic, mark in answer.items() if self._polled.get(topic) == mark}
        self._polled = answer
        self._older.difference_update(marks.values())
        again = {each: mark for each in owned if (mark := self.mark_of(each)) and marks.get(each.topic, mark) != mark}
        self._restarting |= again
        return [*again] + [each for each in self.gone if each.topic in now and self._exists(each, now)]

    def close(self, partition: Partition) -> None:
        """Drop what is known of a partition that this process gives up, but for where its first commit was to be."""
        self._marks.pop(partition, None)
        self._void.pop(partition, None)
        self._warned.discard(partition)
        self.gone.discard(partition)

    def start(
        self,
        partition: Partition,
        positions: Mapping[Partition, Checkpoint | None],
        *,
        internal: bool,
        repeated: str,
        author: int | None = None,
        bounds: tuple[int, int] | None = None,
    ) -> Start:
        """Return where a partition is read from, or why it is not.

        Args:
            partition: the partition.
            positions: what :meth:`positions` has returned.
            internal: whether it belongs to a tier or ready topic.
            repeated: what would be done again with its records if its offset has expired, as a participle.
            author: see :class:`Progress`.
            bounds: where its log begins and ends. ``None``: its leader is asked, for a moment.
        """
        at_end, now_ms = not (internal or self._from_start), self._clock()
        if partition not in positions:
            return self._wait(LostPosition.forbidden(partition), now_ms, at_end=at_end)
        committed = positions[partition]
        if committed is not None:
            self._ends.pop(partition, None)
            self._unstarted.pop(partition, None)
            return Start(committed.offset, self.restore(partition, committed, author))
        if partition in self.unknown:
            return self._wait(LostPosition.control(partition, self.unknown[partition]), now_ms, at_end=at_end)
        bounds = bounds or self._reader.bounds_now(partition)
        if bounds is None:
            return self._wait(LostPosition.offline(partition), now_ms, at_end=at_end)
        expired = self.expired(partition, internal=internal, bounds=bounds)
        if expired is not None:
            first, records = expired
            return Start(first, LostPosition.expired(partition, records, repeated))
        known = (self._unstarted, self._control.state.unstarted)
        since_ms = min((each[partition] for each in known if partition in each), default=None)
        if at_end and since_ms is not None:
            end = self._reader.end_at(partition, since_ms, bounds[1])
            if end is None:
                return self._wait(LostPosition.offline(partition), now_ms, at_end=at_end)
            bounds = bounds[0], end
        offset, waits = (self.internal(partition, bounds), False) if internal else self.source(partition, bounds)
        return Start(offset, self.new_progress(partition, offset, author), waits)

    def _wait(self, lost: LostPosition, now_ms: int, *, at_end: bool) -> Start:
        """Remember since when a partition does not start. Its next owner learns that from the control topic."""
        partition, control = lost.partition, self._control
        if at_end:
            since_ms = self._unstarted.setdefault(partition, now_ms)
            known = control.state
            if control.problem() is None and known.is_new(*partition) and partition not in known.unstarted:
                control.note_unstarted(partition, since_ms)
        return Start(0, lost)

    def answers(self, partition: Partition) -> bool:
        """Whether the leader of a partition says now where its log begins and ends. Waits for a moment."""
        return self._reader.bounds_now(partition) is not None

    def new_progress(self, partition: Partition, start: int, author: int | None = None) -> Progress:
        """Return the progress of a partition that has none, from its first offset on."""
        return Progress(start, author=author, bound=self.bound, mark=self._mark_of_commits(partition))

    def _mark_of_commits(self, partition: Partition) -> str:
        return self.mark_of(partition) if self.names_topics else ""

    def control_problem(self) -> str | None:
        """Return why the control topic was not read since the last partitions were assigned; ``None`` = it was."""
        return self._control.problem()

    def save(self, partitions: Iterable[Partition]) -> None:
        """Save the committed positions of partitions that this process gives up because it stops."""
        if not self._control.state.exists:
            return
        found = self.committed_now(partitions)
        self._control.save({partition: committed for partition, committed in found.items() if committed is not None})

    @property
    def bound(self) -> bool:
        """Whether the metadata of commits names the offset, because all members can read that."""
        return self._control.state.level >= BOUND_LEVEL

    def restore(
        self, partition: Partition, committed: Checkpoint, author: int | None = None
    ) -> Progress | LostPosition:
        """Return the progress that a position of a partition describes, or why it halts: its metadata is unreadable."""
        try:
            progress = Progress.restore(committed.offset, committed.metadata, author)
        except ProgressError as error:
            return LostPosition.metadata(partition, committed, str(error), saved=partition in self.restored)
        progress.bound, progress.mark = self.bound, self._mark_of_commits(partition)
        if progress.moved:
            _log.warning(
                "%s-%d: the metadata of the committed offset %d belongs to another offset: a mirror or another tool "
                "has moved it; records above it that are finished are handled again",
                *partition,
                committed.offset,
            )
        return progress

    def source(self, partition: Partition, bounds: tuple[int, int] | None = None) -> tuple[int, bool]:
        """Return the first offset of a source partition, and whether no record may be fetched before its commit.

        A partition that was added after the group began, or whose topic was created again, starts at its log start. One
        that starts at its end is fetched after that commit: a successor would start at the end that the log has then.

        Args:
            partition: the partition.
            bounds: where its log begins and ends. ``None``: wait until its leader says so.
        """
        if partition in self._ends:
            return self._ends[partition], True
        low, high = bounds or self._reader.bounds(partition)
        from_start = self._from_start or partition in self._created_again
        if from_start or self._control.read().was_added(*partition, self.mark_of(partition)):
            return _logged(partition, low), False
        self._ends[partition] = high
        return _logged(partition, high), True

    def internal(self, partition: Partition, bounds: tuple[int, int] | None = None) -> int:
        """Return the log start of a partition of a tier or ready topic. Call :meth:`expired` before.

        ``bounds`` are those of :meth:`source`.
        """
        low, _ = bounds or self._reader.bounds(partition)
        return _logged(partition, low)

    def expired(
        self, partition: Partition, *, internal: bool = False, bounds: tuple[int, int] | None = None
    ) -> tuple[int, int] | None:
        """Return the log start of a partition whose committed offset has expired, and how many records are above it.

        ``None`` if the group has never had an offset there, or nothing is left that could be repeated.

        Args:
            partition: the partition.
            internal: whether it belongs to a tier or ready topic. Without a control topic the group may have had an
                offset there: any start could lose or repeat the records that wait.
            bounds: see :meth:`source`.
        """
        state = self._control.read()
        if state.is_new(*partition) or partition in self._created_again or not (state.exists or internal):
            return None
        low, high = bounds or self._reader.bounds(partition)
        return (low, high - low) if low < high else None

    def note_first_offsets(self, committed: Mapping[Partition, int]) -> None:
        """Note in the control topic which partitions have their first committed offset, so that its loss is noticed.

        Their saved positions are dropped by that. Called about once a second, it also lets the topic be read again.

        Args:
            committed: the partitions that have a committed offset, each with it or a little more.
        """
        self._control.problem()
        self._void = {each: void for each, void in self._void.items() if each not in committed}
        state = self._control.state
        if not state.exists:
            return
        for partition, offset in committed.items():
            mark = self.mark_of(partition)
            other = mark and state.marks.get(partition) != mark  # noted by an older version, or of an older topic
            if other or state.is_new(*partition) or partition in state.saved:
                self._control.note_first_offset(partition, offset)
                self.restored.discard(partition)


def _logged(partition: Partition, offset: int) -> int:
    _log.info("%s-%d has no committed offset and starts at offset %d", partition.topic, partition.number, offset)
    return offset
