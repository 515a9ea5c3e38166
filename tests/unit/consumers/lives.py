"""Lives of a worker over the same partitions, one after the other: each ends by death, in order, or with the work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from random import Random

from consumers.assignment import Assignment
from consumers.batch import Shared
from consumers.committer import Committer
from consumers.handler import as_handler
from consumers.keyed_lane import MOST_IN_PLACE
from consumers.lanes import Lanes
from consumers.observer import Silent
from consumers.parts import Parts
from consumers.processor import Processor
from consumers.record import Context, Record
from consumers.routes import Route
from consumers.session import Sessions
from consumers.session_processor import SessionProcessor
from consumers.unit import Unit
from consumers.worker import Worker
from tests.unit.consumers.batches import shared
from tests.unit.consumers.doubles import ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import NOW, Fetched, entry, record, route
from topology.acknowledgement import AcknowledgementMode
from topology.policy import RedeliveryPolicy
from topology.progress import Checkpoint
from topology.settings import HandlerSection, LimitsSection, Ordering
from transport.errors import Refusal, WriteRefusedError, WriteUndoneError
from transport.protocols import Copy, Message, Partition, Written

TOO_LARGE = b"too large"


class DiedError(BaseException):
    """The worker is gone, without a last word."""


@dataclass
class World:
    """What outlives a worker: the partitions, what is committed and written, and the time."""

    records: dict[Partition, list[Fetched]]
    random: Random
    killers: frozenset[int] = frozenset()
    """Offsets of partition 0 that kill whoever handles them."""

    failing: frozenset[int] = frozenset()
    """Offsets of every partition that fail at their first two deliveries."""

    poison: frozenset[int] = frozenset()
    """Offsets of every partition that always fail."""

    refused: frozenset[int] = frozenset()
    """Offsets of every partition whose first delivery emits what the broker refuses."""

    critical: frozenset[int] = frozenset()
    """Offsets of partition 0 that no worker goes on after."""

    ordering: Ordering = Ordering.PARTITION
    slots: int = 1
    blocking: bool = False
    noting: bool = True
    slow: bool = False
    """While it is true, no write ends."""

    mode: AcknowledgementMode = AcknowledgementMode.TRANSACTED
    undone: float = 0.0
    """How probable it is that a write is undone."""

    policy: RedeliveryPolicy = field(default_factory=lambda: RedeliveryPolicy(maximum_redeliveries=2))
    now_ms: int = NOW
    commits: dict[Partition, Checkpoint] = field(default_factory=dict)
    written: list[Copy] = field(default_factory=list)
    handled: list[tuple[Partition, int, int, int]] = field(default_factory=list)
    """Partition, offset, attempt and time of each call of the handler."""

    longest_metadata: int = 0
    lives: int = 0

    @property
    def done(self) -> bool:
        """Whether everything is committed."""
        return all(
            place in self.commits and self.commits[place].offset == len(records)
            for place, records in self.records.items()
        )

    def attempts(self) -> dict[tuple[Partition, int], list[int]]:
        """For each record the attempts that it was delivered with."""
        found: dict[tuple[Partition, int], list[int]] = defaultdict(list)
        for place, offset, attempt, _ in self.handled:
            found[place, offset].append(attempt)
        return found


def world(numbers: Sequence[int], seed: int = 0, *, keys: int = 5, **more: object) -> World:
    """Partitions of so many records each."""
    records = {
        Partition("orders", n): [record(i, key=b"%d" % (i % keys), partition=n) for i in range(number)]
        for n, number in enumerate(numbers)
    }
    return World(records, Random(seed), **more)  # type: ignore[arg-type]  # noqa: S311 - no secret


class _Log(StoredOffsets):
    def __init__(self, around: World, on_fetch: Callable[[], None]) -> None:
        super().__init__(around.commits, {place: (0, len(r)) for place, r in around.records.items()})
        self._world = around
        self._on_fetch = on_fetch
        self._positions: dict[Partition, int] = {}

    def start(self, positions: dict[Partition, int]) -> None:
        self._positions |= positions

    def stop(self, places: Iterable[Partition]) -> None:
        for place in places:
            del self._positions[place]

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        self._on_fetch()
        self._world.now_ms += max(1, round(timeout_s * 1000))
        found: list[Message] = []
        for place, position in self._positions.items():
            if place not in self.paused:
                most = min(maximum - len(found), self._world.random.randint(0, 40))
                some = self._world.records[place][position : position + most]
                self._positions[place] += len(some)
                found += some
        return found

    def seek(self, partition: Partition, offset: int) -> None:
        self._positions[partition] = offset


class _Commits(ScriptedWriter):
    def __init__(self, around: World) -> None:
        super().__init__()
        self._world = around

    def ended(self, within_s: float | None = 0.0) -> Written | None:
        around = self._world
        if within_s is not None and (around.slow or around.random.random() < 0.5):
            return None
        large = [n for n, copy in enumerate(self.tried[-1][0]) if copy.value == TOO_LARGE]
        if large:
            self.script.append(WriteRefusedError([Refusal(n, "too large") for n in large]))
        elif around.random.random() < around.undone:
            self.script.append(WriteUndoneError("so it goes"))
        written = super().ended(within_s)
        copies, checkpoints = self.confirmed[-1]
        around.written += copies
        around.commits |= checkpoints
        around.longest_metadata = max(
            around.longest_metadata, *(len(point.metadata) for point in checkpoints.values()), 0
        )
        return written


class _Slots:
    """Units are worked on in any order, some of them at each turn."""

    def __init__(self, around: World, processor: Processor, done: SimpleQueue[Unit | None]) -> None:
        self.capacity = around.slots
        self._random = around.random
        self._processor = processor
        self._done = done
        self._todo: list[Unit] = []
        self.submitted: list[list[tuple[int, int]]] = []
        """Partition and offset of the records of each unit that was handed out."""

    def submit(self, unit: Unit) -> None:
        self.submitted.append([(message.partition(), message.offset()) for message in unit.messages])
        self._todo.append(unit)

    @property
    def busy(self) -> bool:
        return bool(self._todo)

    def work(self) -> None:
        while self._todo and self._random.random() < 0.7:
            unit = self._todo.pop(self._random.randrange(min(self.capacity, len(self._todo))))
            self._processor.run(unit)
            unit.started_s = 0.0
            self._done.put(unit)

    def close(self, timeout_s: float) -> None:
        """Nothing runs between two turns."""


class Life:
    """One worker, from its start."""

    def __init__(self, around: World, places: Iterable[Partition] | None = None) -> None:
        self._world = around
        around.lives += 1
        self._dead = False
        self._fate = 10**9
        done: SimpleQueue[Unit | None] = SimpleQueue()
        common = _shared(around)
        lanes = Lanes(around.ordering, around.slots, noting=around.noting, clock=lambda: around.now_ms)
        handler = as_handler(self._handle_by_session if around.mode.by_handler else self._handle)
        sessions = Sessions(individual=around.mode is AcknowledgementMode.INDIVIDUAL)
        self._left: list[Record] = []
        processor = (
            SessionProcessor(sessions, handler, {}, lambda: around.now_ms, None)
            if around.mode.by_handler
            else Processor(handler, {}, lambda: around.now_ms, None, blocking=around.blocking)
        )
        self._slots = _Slots(around, processor, done)
        self.reader = _Log(around, self._on_fetch)
        self.writer = _Commits(around)
        way: Route = route(entry(around.policy))
        self.worker = Worker(
            Parts(
                reader=self.reader,
                committer=Committer(common, self.writer, Silent(), 50),
                assignment=Assignment(
                    [way],
                    "earliest",
                    self.reader,
                    author=around.lives if around.noting else None,
                    most_in_place=MOST_IN_PLACE + 2,
                ),
                lanes=lanes,
                slots=self._slots,
                done=done,
                verdicts=common.verdicts,
                limits=LimitsSection(batch=50, buffer_records=400),
                handler=HandlerSection(
                    callable="tests:handle", ordering=around.ordering, non_blocking_redelivery=not around.blocking
                ),
                observer=Silent(),
                mode=around.mode,
                sessions=sessions,
            )
        )
        self.take(around.records if places is None else places)

    @property
    def handed_out(self) -> list[list[tuple[int, int]]]:
        """Partition and offset of the records of each unit that was handed out so far."""
        return list(self._slots.submitted)

    def take(self, places: Iterable[Partition]) -> None:
        """These are assigned."""
        self.reader.start(dict(self.worker.assigned(list(places))))

    def give(self, places: Iterable[Partition]) -> None:
        """These are given back in order."""
        while self._slots.busy:
            self._slots.work()
        self.worker.revoked(list(places))
        self.reader.stop(places)

    def live(self, turns: int = 10**9, *, dying_after: int = 10**9) -> None:
        """Work for so many turns, or until all is done.

        Raises:
            DiedError: by a killer, or by fate after so many turns.
        """
        self._fate = dying_after
        for _ in range(turns):
            if self._world.done:
                return
            self.worker._turn()

    def _on_fetch(self) -> None:
        self._fate -= 1
        self._slots.work()
        if self._left and self._world.random.random() < 0.5:
            self._left.pop(self._world.random.randrange(len(self._left))).acknowledge()  # another thread, much later
        if self._dead or self._fate < 0:
            raise DiedError

    def _handle(self, record: Record, context: Context) -> None:
        if self._dead:
            return
        place = Partition(record.topic, record.partition)
        self._world.handled.append((place, record.offset, context.attempt, self._world.now_ms))
        if place.number == 0 and record.offset in self._world.killers:
            self._dead = True
        elif place.number == 0 and record.offset in self._world.critical:
            raise MemoryError("no room")
        elif record.offset in self._world.poison or (record.offset in self._world.failing and context.attempt < 3):
            raise ValueError("not yet")
        elif record.offset in self._world.refused and context.attempt == 1:
            context.send("totals", TOO_LARGE)
        else:
            context.send("totals", b"%d@%d" % (place.number, record.offset))

    def _handle_by_session(self, record: Record, context: Context) -> None:
        self._handle(record, context)
        what = self._world.random.random()
        if what < 0.2:
            record.acknowledge()
        elif what < 0.25:
            context.recover()
        else:
            self._left.append(record)


def _shared(around: World) -> Shared:
    common = shared()
    return Shared(
        group=common.group,
        waiting=common.waiting,
        clock=lambda: around.now_ms,
        jitter=common.jitter,
        verdicts={},
        blocking=around.blocking,
    )
