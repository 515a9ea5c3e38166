"""Has batches written, one at a time while the next one grows, and knows what to do when the broker says no."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from consumers.batch import Batch, Owner, Shared
from consumers.clock import monotonic_s
from consumers.errors import HaltedError
from consumers.observer import Observer
from consumers.patience import Patience
from consumers.unit import Assigned
from topology.acknowledgement import LazyAcknowledgement
from topology.decision import Failure, FailureKind
from topology.progress import Checkpoint
from transport.errors import WriteRefusedError, WriteUndoneError
from transport.protocols import BackgroundWriter, Partition

_log = logging.getLogger(__name__)

LINGER_S = 0.01
"""How long outcomes may wait for more to be written with them while more are under way."""

MOST_REST_S = 0.05
"""Between two writes that are not full."""


class Committer:
    """Collects outcomes into a batch and writes it. Owned by the polling thread."""

    def __init__(
        self,
        shared: Shared,
        writer: BackgroundWriter,
        observer: Observer,
        most: int,
        most_bytes: int = 2**24,
        lazy: LazyAcknowledgement | None = None,
    ) -> None:
        """Prepare.

        Args:
            shared: what all batches have in common.
            writer: the only way to Kafka.
            observer: told of every write.
            most: so many outcomes make a batch full.
            most_bytes: the same in bytes of records and outputs.
            lazy: how long successes wait to be acknowledged together; ``None`` = they do not.
        """
        self._lazy = lazy
        self._acknowledged_s = monotonic_s()
        self._shared = shared
        self._writer = writer
        self._observer = observer
        self._most = most
        self._most_bytes = most_bytes
        self._patience = Patience()
        self._since_s = 0.0
        self._rested_s = 0.0
        self._written: Batch | None = None
        """What is being written; its outcomes are finished in our books, and may still be undone."""

        self._checkpoints: Mapping[Partition, Checkpoint] = {}
        self.batch = Batch(shared)

    @property
    def writing(self) -> bool:
        """Whether a write has begun that is not settled."""
        return self._written is not None

    @property
    def full(self) -> bool:
        """Whether nothing more should be added before the next write."""
        return self.batch.size >= self._most or self.batch.bytes >= self._most_bytes

    @property
    def bytes(self) -> int:
        """What is held by the batches that are not written yet."""
        return self.batch.bytes + (0 if self._written is None else self._written.bytes)

    def ripe(self, *, more_to_come: bool) -> bool:
        """Whether it is time to write: an idle system is prompt, a loaded one efficient, and a halt does not wait.

        Never while a write is under way, and then only after as long again: what comes meanwhile is written
        together, so that small writes do not keep the broker busy for nothing.
        """
        if not self.batch.size:
            self._since_s = 0.0
            return False
        now = monotonic_s()
        self._since_s = self._since_s or now
        if self.writing:
            return False
        if self.full or self.batch.halts:
            return True
        if self._lazy is not None and not self.batch.pressing:
            return self._lazy.now(self.batch.size, self._unacknowledged_ms())
        return now >= self._rested_s and (not more_to_come or now - self._since_s >= LINGER_S)

    def due_in_s(self, most_s: float) -> float:
        """How long what there is to write may wait, if nothing else happens; at most ``most_s``."""
        if not self.batch.size:
            return most_s
        if self._lazy is None or self.batch.pressing or self.full or self.batch.halts:
            return 0.0
        left_ms = self._lazy.left_ms(self._unacknowledged_ms())
        return most_s if left_ms is None else min(most_s, left_ms / 1000)

    def _unacknowledged_ms(self) -> int:
        return round((monotonic_s() - self._acknowledged_s) * 1000)

    @property
    def halting(self) -> bool:
        """Whether a decision halts the worker, once what ended before it is written: nothing more may be begun."""
        return bool(self.batch.halts or (self._written is not None and self._written.halts))

    def begin(self, dirty: Iterable[Assigned]) -> None:
        """Begin to write the batch, and start the next. No write may be under way.

        Args:
            dirty: partitions whose position is to be committed though no outcome of theirs is in it.

        Raises:
            Exception: it has not begun; what is finished in the books must not be committed by a later one.
        """
        batch, self.batch = self.batch, Batch(self._shared)
        self._since_s = 0.0
        for assigned in dirty:
            batch.touch(assigned)
        checkpoints = batch.checkpoints()
        if not checkpoints and not batch.copies:
            return
        batch.close()
        self._writer.begin(batch.copies, checkpoints)
        self._written, self._checkpoints = batch, checkpoints

    def settle(self, within_s: float | None = 0.0) -> list[Assigned] | None:
        """See how the write under way ended, if it has.

        Args:
            within_s: how long to wait for that; ``None`` = until it ends.

        Returns:
            ``None`` if there is nothing to be done; else the worker has to go back to the committed
            offsets, and the partitions named must not be read any more.

        Raises:
            HaltedError: a decision says so, or writes are undone again and again.
            WriterFencedError: this worker has been replaced.
        """
        batch = self._written
        if batch is None:
            return None
        try:
            written = self._writer.ended(within_s)
        except WriteRefusedError as error:
            batch.undo()
            owners = batch.owners
            halted = [self._judge(owners[refusal.index], refusal.reason) for refusal in error.refusals]
            self._note_undone(str(error))
            return [assigned for assigned in halted if assigned is not None]
        except WriteUndoneError as error:
            if not error.copied:
                batch.undo()
            self._note_undone(str(error))
            return []
        finally:
            if not self._writer.busy:
                self._written = None
        if written is None:
            return None
        self._patience.succeeded()
        self._acknowledged_s = monotonic_s()
        self._rested_s = monotonic_s() + min(written.seconds, MOST_REST_S)
        self._drop_verdicts(batch.judged, self._checkpoints)
        self._shared.report.add(batch.dropped)
        self._observer.committed(batch.committed(written.seconds))
        if batch.halts:
            assigned, offset, failure = batch.halts[0]
            place = assigned.partition
            raise HaltedError(
                f"{failure.exception}: {failure.message}; nothing is committed past "
                f"{place.topic}-{place.number}@{offset}"
            )
        return None

    def discard(self) -> None:
        """Forget what no write has begun for; it will be done again."""
        self.batch.undo()
        self.batch = Batch(self._shared)

    def forget(self, assigned: Assigned) -> None:
        """This partition comes or goes; what others do of it meanwhile is not known."""
        self._shared.audits.leave(assigned.route.source, assigned.partition.number)

    def close(self) -> None:
        """Release the writer."""
        self._writer.close()

    def _judge(self, owner: Owner | None, reason: str) -> Assigned | None:
        """Decide how a record whose copy is refused is treated when it comes again.

        Returns:
            its partition, if that has to halt because even its dead letter is refused.
        """
        if owner is None:
            raise HaltedError(f"the broker refuses the journal: {reason}")
        place = owner.assigned.partition
        where = f"{place.topic}-{place.number}@{owner.offset}"
        _log.warning("the %s of %s is refused: %s", owner.role, where, reason)
        if owner.role == "dead letter":
            cause = f"the dead letter of {where} is refused: {reason}"
            _log.error("partition halted, it is not read on until a restart: %s", cause)
            self._observer.halted(cause)
            return owner.assigned
        kind = FailureKind.RAISED if owner.role == "output" else FailureKind.UNDELIVERABLE
        self._shared.verdicts[place, owner.offset] = Failure(kind, "WriteRefused", reason)
        return None

    def _drop_verdicts(
        self, judged: Iterable[tuple[Partition, int]], checkpoints: Mapping[Partition, Checkpoint]
    ) -> None:
        """Forget those that are carried out, though their record may wait in place, and those whose record is done."""
        verdicts = self._shared.verdicts
        for record in judged:
            verdicts.pop(record, None)
        for place, offset in list(verdicts):
            if place in checkpoints and offset < checkpoints[place].offset:
                del verdicts[place, offset]

    def _note_undone(self, cause: str) -> None:
        self._patience.undone(cause)
        _log.warning("going back to the committed offsets: %s", cause)
        self._observer.undone(cause)
