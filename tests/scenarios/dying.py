"""The command line, but its process kills itself (SIGKILL) at a chosen step of a chosen write.

``python -m tests.scenarios.dying STEP NUMBER worker --config ...``: the real program with a client that dies in the
``NUMBER``-th write that has copies, right after

* ``begin``: none of the copies has reached the broker; in a transaction it has the offsets, which are sent first;
* ``produce``: the broker has the copies;
* ``commit``: everything is committed, but the process has not learned so.

In mode auto, which has no transactions, only the first two exist.
"""

import os
import signal
import sys
from typing import Any, Final

from confluent_kafka import Producer

import transport.writer
from cli.main import app

STEPS: Final = ("begin", "produce", "commit")
PROGRAM: Final = ("-m", "tests.scenarios.dying")


class DyingProducer(Producer):
    """Counts the writes that have copies, and dies in one of them."""

    step = ""
    number = 0
    _copies = 0
    _writes = 0
    _transacted = False

    def begin_transaction(self) -> None:
        self._transacted = True
        super().begin_transaction()

    def produce(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on as they are
        self._copies += 1
        if self._copies == 1:
            type(self)._writes += 1
            self._die_at("begin")
        super().produce(*args, **kwargs)

    def flush(self, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - handed on as they are
        left: int = super().flush(*args, **kwargs)
        if not self._transacted:
            self._die_at("produce")
            self._copies = 0
        return left

    def commit_transaction(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on as they are
        self.flush(10)
        self._die_at("produce")
        super().commit_transaction(*args, **kwargs)
        self._die_at("commit")
        self._copies = 0

    def _die_at(self, step: str) -> None:
        if self._copies and step == self.step and self._writes == self.number:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    DyingProducer.step, DyingProducer.number = sys.argv[1], int(sys.argv[2])
    transport.writer.Producer = DyingProducer  # type: ignore[attr-defined]
    app(sys.argv[3:])
