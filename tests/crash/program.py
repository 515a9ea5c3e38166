"""The command line, but its process kills or stops itself at a chosen step.

``python -m tests.crash.program TRAP MARK worker --config ...``: the real program with the real client, each call of
which can be a trap. ``TRAP`` is ``STEP:WHEN:NUMBER:ACTION``: ``before`` or ``after`` the ``NUMBER``-th ``STEP`` (see
:data:`tests.crash.points.STEPS`) the process writes the file ``MARK``, and then it

* ``die``: is killed, SIGKILL;
* ``stop``: is stopped, SIGSTOP, until somebody else lets it go on;
* ``unheard``: the next commit of a transaction reaches the broker, but the program is told that it timed out. At
  ``revoked`` it is one inside of that step, if need be of a later one.

Calls that wait for the broker are given up sooner than in the real program, where the broker is to be stopped.

Nothing here depends on the thread that a step runs on.
"""

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer

import consumers.processor
import consumers.session
import consumers.slots
import transport.reader
import transport.removal
import transport.writer
from cli.main import app

PROGRAM: Final = ("-m", "tests.crash.program")


class Trap:
    """Counts the steps, and acts at the chosen one."""

    def __init__(self, spec: str, mark: Path) -> None:
        self.step, self._when, number, self.action = spec.split(":")
        self.number = int(number)
        self._mark = mark
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._deaf = False

    def hit(self, step: str, when: str) -> None:
        """Note that a step begins or has ended; this may be the end."""
        with self._lock:
            self._counts[step, when] += 1
            if (step, when) == ("revoked", "after"):
                self._deaf = False
            if (step, when) != (self.step, self._when) or self._counts[step, when] < self.number:
                return
            if self.action == "unheard":
                self._deaf = not self._mark.exists()
                return
            if self._counts[step, when] > self.number:
                return
            self._mark.write_text(f"{step}:{when}", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGSTOP if self.action == "stop" else signal.SIGKILL)

    def deaf(self) -> bool:
        """Whether the commit that begins is one whose answer is not heard; only once."""
        with self._lock:
            deaf, self._deaf = self._deaf, False
            if deaf:
                self._mark.write_text(f"{self.step}:{self._when}", encoding="utf-8")
            return deaf

    def around(self, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call as a step."""

        @wraps(call)
        def made(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - handed on as they are
            self.hit(step, "before")
            result = call(*args, **kwargs)
            self.hit(step, "after")
            return result

        return made


def trapped(trap: Trap) -> None:
    """Put the traps into the program."""
    if trap.action == "stop":
        transport.writer._CALL_TIMEOUT_S = transport.reader._CALL_TIMEOUT_S = 5.0

    def within(base: type, **steps: str) -> dict[str, Callable[..., Any]]:
        return {method: trap.around(step, getattr(base, method)) for method, step in steps.items()}

    transport.writer.Producer = type(  # type: ignore[attr-defined, assignment]
        "TrappedProducer",
        (_Producer,),
        within(
            _Producer, init_transactions="init", begin_transaction="begin", produce="produce", abort_transaction="abort"
        )
        | {"trap": trap},
    )
    transport.reader.Consumer = type(  # type: ignore[attr-defined, assignment]
        "TrappedConsumer",
        (_Consumer,),
        within(
            _Consumer,
            assign="assign",
            incremental_assign="assign",
            committed="committed",
            seek="seek",
            commit="commit",
            close="leave",
        )
        | {"trap": trap},
    )
    transport.writer.TransactedWriter._write = _noting_copies(  # type: ignore[method-assign]
        transport.writer.TransactedWriter._write
    )
    for owner, method, step in (
        (consumers.processor.Processor, "run", "handle"),
        (consumers.session.Session, "acknowledge", "acknowledge"),
        (consumers.session.Session, "recover", "recover"),
        (consumers.slots.ThreadSlots, "close", "slots"),
        (transport.removal.Remover, "remove", "remove"),
        (transport.writer.TransactedWriter, "close", "close"),
        (transport.writer.AutoWriter, "close", "close"),
    ):
        setattr(owner, method, trap.around(step, getattr(owner, method)))


def _noting_copies(write: Callable[..., Any]) -> Callable[..., Any]:
    """Of the steps of a transaction only those of one with copies count; the first come before the copies do."""

    @wraps(write)
    def noted(writer: Any, transaction: Any) -> Any:  # noqa: ANN401 - handed on as they are
        _Producer.has_copies = bool(transaction.copies)
        return write(writer, transaction)

    return noted


class _Producer(Producer):
    """Of the steps of a write it counts those of writes that have copies."""

    trap: Trap
    has_copies = False
    _copies = 0
    _transacted = False

    def begin_transaction(self) -> None:
        self._transacted = True
        super().begin_transaction()

    def produce(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on as they are
        self._copies += 1
        super().produce(*args, **kwargs)

    def flush(self, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - handed on as they are
        if self._copies and not self._transacted:
            self.trap.hit("flush", "before")
        left: int = super().flush(*args, **kwargs)
        if self._copies and not self._transacted:
            self._copies = 0
            self.trap.hit("flush", "after")
        return left

    def send_offsets_to_transaction(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on as they are
        self._hit("offsets", "before")
        super().send_offsets_to_transaction(*args, **kwargs)
        self._hit("offsets", "after")

    def commit_transaction(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on as they are
        if self.has_copies and self.trap.step == "flush":
            # The client sends by itself, at the latest in the commit: this is the moment when the broker has them all.
            self.trap.hit("flush", "before")
            super().flush(10)
            self.trap.hit("flush", "after")
        self._hit("commit", "before")
        if self.trap.deaf():
            self._commit_unheard()
        super().commit_transaction(*args, **kwargs)
        self._hit("commit", "after")

    def _hit(self, step: str, when: str) -> None:
        if self.has_copies:
            self.trap.hit(step, when)

    def _commit_unheard(self) -> None:
        """Commit with no time to wait for the answer, and give the client what it needs to get it nevertheless."""
        try:
            super().commit_transaction(0)
        except KafkaException:
            time.sleep(1)  # a commit that was begun goes on in the background
            raise


class _Consumer(Consumer):
    trap: Trap

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:  # type: ignore[override]
        steps = {"on_assign": "assigned", "on_revoke": "revoked", "on_lost": "lost"}
        super().subscribe(topics, **{name: self._told(steps[name], call) for name, call in callbacks.items()})

    def _told(self, step: str, call: Callable[..., None]) -> Callable[..., None]:
        told = self.trap.around(step, call)

        def listen(consumer: Consumer, partitions: list[Any]) -> None:
            (told if partitions else call)(consumer, partitions)

        return listen

    def poll(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - handed on as they are
        self.trap.hit("fetch", "before")
        message = super().poll(*args, **kwargs)
        if message is not None and message.error() is None:
            self.trap.hit("fetch", "after")
        return message

    def pause(self, partitions: list[Any]) -> None:
        self._only_if("pause", super().pause, partitions, partitions)

    def resume(self, partitions: list[Any]) -> None:
        # What is resumed with an offset has just been assigned, and belongs to that step.
        self._only_if("resume", super().resume, [place for place in partitions if place.offset < 0], partitions)

    def _only_if(self, step: str, call: Callable[[list[Any]], None], counted: list[Any], partitions: list[Any]) -> None:
        (self.trap.around(step, call) if counted else call)(partitions)


if __name__ == "__main__":
    trapped(Trap(sys.argv[1], Path(sys.argv[2])))
    app(sys.argv[3:])
