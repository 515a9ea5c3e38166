"""Writes batches, and knows what to do when the broker says no."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from consumers.batch import Batch, Owner, Shared
from consumers.clock import monotonic_s
from consumers.errors import HaltedError
from consumers.observer import Observer
from consumers.patience import Patience
from consumers.unit import Assigned
from topology.decision import Failure, FailureKind
from topology.progress import Checkpoint
from transport.errors import WriteRefusedError, WriteUndoneError
from transport.protocols import Partition, Writer

_log = logging.getLogger(__name__)

LINGER_S = 0.01
"""How long outcomes may wait for more to be written with them while more are under way."""


class Committer:
    """Collects outcomes into a batch and writes it. Owned by the polling thread."""

    def __init__(self, shared: Shared, writer: Writer, observer: Observer, most: int, most_bytes: int = 2**24) -> None:
        """Prepare.

        Args:
            shared: what all batches have in common.
            writer: the only way to Kafka.
            observer: told of every write.
            most: so many outcomes make a batch full.
            most_bytes: the same in bytes of records and outputs.
        """
        self._shared = shared
        self._writer = writer
        self._observer = observer
        self._most = most
        self._most_bytes = most_bytes
        self._patience = Patience()
        self._since_s = 0.0
        self.batch = Batch(shared)

    @property
    def full(self) -> bool:
        """Whether nothing more should be added before the next write."""
        return self.batch.size >= self._most or self.batch.bytes >= self._most_bytes

    @property
    def bytes(self) -> int:
        """What is held by batches that are not written yet."""
        return self.batch.bytes

    def ripe(self, *, more_to_come: bool) -> bool:
        """Whether it is time to write: an idle system is prompt, a loaded one efficient, and a halt does not wait."""
        if not self.batch.size:
            self._since_s = 0.0
            return False
        if self.full or self.batch.halts or not more_to_come:
            return True
        now = monotonic_s()
        if not self._since_s:
            self._since_s = now
        return now - self._since_s >= LINGER_S

    def write(self, dirty: Iterable[Assigned]) -> list[Assigned] | None:
        """Write the batch and start the next.

        Args:
            dirty: partitions whose position is to be committed though no outcome of theirs is in it.

        Returns:
            ``None`` when everything is written; else the worker has to go back to the committed
            offsets, and the partitions named must not be read any more.

        Raises:
            HaltedError: a decision says so, or writes are undone again and again.
            WriterFencedError: this worker has been replaced.
        """
        batch, self.batch = self.batch, Batch(self._shared)
        self._since_s = 0.0
        for assigned in dirty:
            batch.touch(assigned)
        checkpoints = batch.checkpoints()
        if not checkpoints and not batch.copies:
            return None
        batch.close()
        started = monotonic_s()
        try:
            self._writer.write(batch.copies, checkpoints)
        except WriteRefusedError as error:
            halted = [self._judge(batch.owners[refusal.index], refusal.reason) for refusal in error.refusals]
            self._note_undone(str(error))
            return [assigned for assigned in halted if assigned is not None]
        except WriteUndoneError as error:
            self._note_undone(str(error))
            return []
        self._patience.succeeded()
        self._drop_verdicts(checkpoints)
        self._observer.committed(batch.committed(monotonic_s() - started))
        if batch.halts:
            assigned, offset, failure = batch.halts[0]
            place = assigned.partition
            raise HaltedError(
                f"{failure.exception}: {failure.message}; nothing is committed past "
                f"{place.topic}-{place.number}@{offset}"
            )
        return None

    def discard(self) -> None:
        """Forget what is not written; it will be done again."""
        self.batch = Batch(self._shared)

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

    def _drop_verdicts(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Forget those whose record is done; another partition's write says nothing of the others."""
        verdicts = self._shared.verdicts
        for place, offset in list(verdicts):
            if place in checkpoints and offset < checkpoints[place].offset:
                del verdicts[place, offset]

    def _note_undone(self, cause: str) -> None:
        self._patience.undone(cause)
        _log.warning("going back to the committed offsets: %s", cause)
        self._observer.undone(cause)
