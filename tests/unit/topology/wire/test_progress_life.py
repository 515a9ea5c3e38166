"""The life of a partition: crashes at any time repeat no finished record and skip no unfinished one."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT, WaitingRecord
from tests.examples import share

WAITS = st.builds(WaitingRecord, deliveries=st.integers(0, 2**21 - 1), due_ms=st.integers(0, 2**63 - 1))
DISTANCES = st.lists(st.sampled_from([1, 1, 2, 4]), min_size=1, max_size=20)
PATTERNS = st.integers(1, 2**20 - 1) | st.sampled_from([0, 0xFFFFF, 0xFFFFE, 0xFF00E])
"""A selection of twenty records as bits; often none, all, all but the first, or long runs."""


class PartitionLife(RuleBasedStateMachine):
    """A partition with holes, several owners in turn, and crashes at any time.

    The attributes model the expected progress without any encoding.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[int] = []
        """Offsets that exist in the partition, ascending."""
        self.end = 3
        """The next offset that will be written."""
        self.committed = Checkpoint(3, "")
        self.committed_done: set[int] = set()
        self.committed_waiting: dict[int, WaitingRecord] = {}
        self.crash()

    @rule()
    def crash(self) -> None:
        """The owner dies: progress that is not committed is lost."""
        self.progress = Progress.restore(self.committed.offset, self.committed.metadata)
        self.held: set[int] = set()
        """Records delivered since the last crash and not finished."""
        self.done = set(self.committed_done)
        self.waiting = dict(self.committed_waiting)

    @initialize(distances=DISTANCES)
    def begin(self, distances: list[int]) -> None:
        """The partition contains records from the start."""
        self.write(distances)

    @rule(distances=DISTANCES)
    def write(self, distances: list[int]) -> None:
        """Records arrive, with holes between them where transactions ended."""
        for distance in distances:
            self.end += distance
            self.log.append(self.end - 1)

    @rule(place=st.integers(0, 5))
    def compact(self, place: int) -> None:
        """A record that is not finished is deleted."""
        left = [offset for offset in self.log if offset >= self.committed.offset]
        if left:
            self.log.remove(left[place % len(left)])

    @rule(most=st.integers(0, 20), pattern=PATTERNS, commits=st.booleans())
    def work(self, most: int, pattern: int, commits: bool) -> None:  # noqa: FBT001 - drawn by name
        """Fetch some records, finish some in any order, and possibly commit."""
        self.fetch(most)
        if pattern:
            self.finish({offset for place, offset in enumerate(sorted(self.held)) if pattern >> place % 20 & 1})
        if commits:
            self.commit()

    @rule(place=st.integers(0, 5), record=WAITS)
    def wait(self, place: int, record: WaitingRecord) -> None:
        """A record waits in place."""
        if self.held:
            offset = sorted(self.held)[place % len(self.held)]
            self.progress.wait_in_place(offset, record.deliveries, record.due_ms)
            self.waiting[offset] = record

    def fetch(self, most: int) -> None:
        """Exactly the unfinished records are delivered."""
        for offset in [offset for offset in self.log if offset >= self.progress.next_offset][:most]:
            assert self.progress.track(offset) == (offset not in self.done)
            if offset not in self.done:
                self.held.add(offset)

    def finish(self, finished: set[int]) -> None:
        """The records are finished and no longer wait."""
        self.progress.complete(finished)
        self.held -= finished
        self.done |= finished
        self.waiting = {offset: record for offset, record in self.waiting.items() if offset not in finished}

    def commit(self) -> None:
        """The metadata is within the limit, and the offset is the watermark."""
        self.committed = self.progress.checkpoint()
        self.committed_done = set(self.done)
        self.committed_waiting = dict(self.waiting)
        assert len(self.committed.metadata) <= METADATA_LIMIT
        assert self.committed.offset == self.progress.watermark

    @invariant()
    def nothing_unfinished_is_passed_over(self) -> None:
        """All existing records below the watermark are finished."""
        assert all(offset in self.done for offset in self.log if offset < self.progress.watermark)
        assert all(offset >= self.progress.watermark for offset in self.held)

    @invariant()
    def nothing_held_is_forgotten(self) -> None:
        """Every delivered record is finished or outstanding."""
        assert self.progress.outstanding == len(self.held)

    @invariant()
    def whoever_waits_is_known(self) -> None:
        """Unfinished records have the expected count and due time; finished ones have none."""
        open_ones = self.held.union(offset for offset in self.log if offset >= self.progress.next_offset) - self.done
        for offset in open_ones:
            assert self.progress.waiting.get(offset) == self.waiting.get(offset)
        assert self.progress.waiting.keys().isdisjoint(self.done)

    def teardown(self) -> None:
        """After a final crash, all unfinished records are delivered and finished."""
        self.commit()
        self.crash()
        left = {offset for offset in self.log if offset not in self.done}
        self.fetch(len(self.log))
        assert self.held == left
        self.commit()
        self.finish(left)
        assert self.progress.watermark > max(self.log, default=0)


TestPartitionLife = PartitionLife.TestCase
TestPartitionLife.settings = settings(max_examples=share(200), stateful_step_count=40)
