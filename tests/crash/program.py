"""The command line in a process that kills or suspends itself at a chosen step.

``python -m tests.crash.program TRAP MARK worker --config ...``: the real program with the real client, each call of
which can be a trap. ``TRAP`` is ``STEP:WHEN:NUMBER:ACTION``: ``before`` or ``after`` the ``NUMBER``-th ``STEP`` (see
:data:`tests.crash.points.STEPS`) the process writes the file ``MARK``, and then it

* ``die``: is killed by SIGKILL;
* ``stop``: is suspended by SIGSTOP until the test sends SIGCONT;
* ``unheard``: the next commit of a transaction reaches the broker, but times out for the program. At ``revoked`` it
  is a commit inside that step, or inside the first later one that has a commit.

A fifth part ``:NUMBER`` makes the ``NUMBER``-th commit of a write with records time out before it reaches the broker,
and ``:NUMBER+`` every later one, too, until the file ``MARK.go`` exists.

With ``stop``, calls to the broker time out sooner than in the real program, as these tests also stop the broker.

Steps may run on any thread.
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

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

import kafka_redelivery.consumers.flow.fetcher
import kafka_redelivery.consumers.flow.outages
import kafka_redelivery.consumers.flow.probe
import kafka_redelivery.consumers.flow.session
import kafka_redelivery.consumers.handlers.processor
import kafka_redelivery.consumers.handlers.slots
import kafka_redelivery.consumers.scheduler.assigned_tiers
import kafka_redelivery.consumers.writes.engine
import kafka_redelivery.transport.admin.control_topic
import kafka_redelivery.transport.admin.partition_offsets
import kafka_redelivery.transport.clients.auto_writer
import kafka_redelivery.transport.clients.reader
import kafka_redelivery.transport.clients.takeover
import kafka_redelivery.transport.clients.topic_watch
import kafka_redelivery.transport.clients.writer
from kafka_redelivery.cli.main import app
from tests.scenarios.replaced_clients import opens

PROGRAM: Final = ("-m", "tests.crash.program")


class Trap:
    """Counts the steps, and acts at the chosen one."""

    def __init__(self, spec: str, mark: Path) -> None:
        self.step, self._when, number, self.action, aborted, *_ = f"{spec}:".split(":")
        self.number = int(number)
        self._aborted = int(aborted.rstrip("+") or "0")
        self._go = mark.with_name(f"{mark.name}.go") if "+" in aborted else None
        self._commits = 0
        self._mark = mark
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._deaf = False

    def hit(self, step: str, when: str) -> None:
        """Count that a step begins or has ended; act if it is the chosen one."""
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

    def time_out(self) -> None:
        """Count a commit; let it time out if it is one of those that are to be aborted."""
        with self._lock:
            self._commits += 1
            later = self._go is not None and self._commits > self._aborted and not self._go.exists()
            if later or self._commits == self._aborted:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "made up by a test"))

    def deaf(self) -> bool:
        """Return whether the commit that begins must lose its answer; true only once."""
        with self._lock:
            deaf, self._deaf = self._deaf, False
            if deaf:
                self._mark.write_text(f"{self.step}:{self._when}", encoding="utf-8")
            return deaf

    def around(self, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call wrapped as a step."""

        @wraps(call)
        def made(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - handed on as they are
            self.hit(step, "before")
            result = call(*args, **kwargs)
            self.hit(step, "after")
            return result

        return made


def trapped(trap: Trap) -> None:
    """Install the traps in the program."""
    if trap.action == "stop":
        for module in (
            kafka_redelivery.transport.clients.auto_writer,
            kafka_redelivery.transport.clients.reader,
            kafka_redelivery.transport.clients.writer,
        ):
            module._CALL_TIMEOUT_S = 5.0  # type: ignore[attr-defined]

    def within(base: type, **steps: str) -> dict[str, Callable[..., Any]]:
        return {method: trap.around(step, getattr(base, method)) for method, step in steps.items()}

    producer = type(
        "TrappedProducer",
        (_Producer,),
        within(
            _Producer, init_transactions="init", begin_transaction="begin", produce="produce", abort_transaction="abort"
        )
        | {"trap": trap},
    )
    for module in (kafka_redelivery.transport.clients.auto_writer, kafka_redelivery.transport.clients.takeover):
        module.open_producer = opens(producer)  # type: ignore[attr-defined]
    consumer = type(
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
    kafka_redelivery.transport.clients.reader.open_consumer = opens(consumer)  # type: ignore[attr-defined]
    kafka_redelivery.transport.clients.writer.TransactionalWriter._write = _noting_records(  # type: ignore[method-assign]
        kafka_redelivery.transport.clients.writer.TransactionalWriter._write
    )
    for owner, method, step in (
        (kafka_redelivery.consumers.handlers.processor.Processor, "run", "handle"),
        (kafka_redelivery.consumers.writes.engine.WriteEngine, "_settle", "settle"),
        (kafka_redelivery.consumers.flow.session.Session, "acknowledge", "acknowledge"),
        (kafka_redelivery.consumers.flow.session.Session, "recover", "recover"),
        (kafka_redelivery.consumers.handlers.slots.ThreadSlots, "close", "slots"),
        (kafka_redelivery.transport.admin.partition_offsets.RecordDeleter, "delete_before", "remove"),
        (kafka_redelivery.transport.clients.topic_watch.TopicWatch, "look", "look"),
        (kafka_redelivery.consumers.flow.fetcher.Fetcher, "restart", "restart"),
        (kafka_redelivery.consumers.flow.outages.Outages, "met", "met"),
        (kafka_redelivery.consumers.flow.outages.Outages, "_answered", "answered"),
        (kafka_redelivery.consumers.flow.probe.Probe, "ask", "ask"),
        (kafka_redelivery.consumers.flow.probe.Probe, "_call", "call probe"),
        (kafka_redelivery.consumers.scheduler.assigned_tiers.AssignedTiers, "restart", "restart"),
        (kafka_redelivery.transport.admin.control_topic.ControlTopic, "note_first_offset", "note"),
        (kafka_redelivery.transport.admin.control_topic.ControlTopic, "save", "save"),
        (kafka_redelivery.transport.clients.writer.TransactionalWriter, "trial", "trial"),
        (kafka_redelivery.transport.clients.auto_writer.AutoWriter, "trial", "trial"),
        (kafka_redelivery.transport.clients.writer.TransactionalWriter, "close", "close"),
        (kafka_redelivery.transport.clients.auto_writer.AutoWriter, "close", "close"),
    ):
        setattr(owner, method, trap.around(step, getattr(owner, method)))
    trap_outages(trap, kafka_redelivery.consumers.flow.outages.Outages)


def trap_outages(trap: Trap, outages: Any) -> None:  # noqa: ANN401 - its methods are replaced
    """Count each turn of the polling thread in a phase of an outage, by its name, and each record that is published.

    ``met`` is a call that finds a dependency away; ``answered`` is what shows that it is back. ``half open`` is counted
    directly before a record is tried, since a pause may end within a turn.
    """
    turn, publish, limit = outages.turn, outages._publish, outages.limit

    @wraps(turn)
    def turned(self: Any) -> None:  # noqa: ANN401 - as above
        turn(self)
        for each in self._dependencies.values():
            trap.hit(each.outage.phase(self.clock_s(), each.full).value, "after")

    @wraps(publish)
    def published(self: Any, each: Any, state: Any) -> None:  # noqa: ANN401 - as above
        trap.hit(f"publish {state.value}", "before")
        publish(self, each, state)
        trap.hit(f"publish {state.value}", "after")

    @wraps(limit)
    def limited(self: Any, name: str) -> int | None:  # noqa: ANN401 - as above
        found: int | None = limit(self, name)
        each = self._dependencies[name]
        if found and each.outage.phase(self.clock_s(), each.full).value == "half open":
            trap.hit("half open", "before")
        return found

    outages.turn, outages._publish, outages.limit = turned, published, limited


def _noting_records(write: Callable[..., Any]) -> Callable[..., Any]:
    """Count the steps of transactions that produce records only; the first transactions produce none."""

    @wraps(write)
    def noted(writer: Any, transaction: Any) -> Any:  # noqa: ANN401 - handed on as they are
        _Producer.has_records = bool(transaction.records)
        return write(writer, transaction)

    return noted


class _Producer(Producer):
    """Counts the steps of writes that produce records."""

    trap: Trap
    has_records = False
    _produced = 0
    _transacted = False

    def begin_transaction(self) -> None:
        self._transacted = True
        super().begin_transaction()

    def produce(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on as they are
        self._produced += 1
        super().produce(*args, **kwargs)

    def flush(self, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - handed on as they are
        if self._produced and not self._transacted:
            self.trap.hit("flush", "before")
        left: int = super().flush(*args, **kwargs)
        if self._produced and not self._transacted:
            self._produced = 0
            self.trap.hit("flush", "after")
        return left

    def send_offsets_to_transaction(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on as they are
        self._hit("offsets", "before")
        super().send_offsets_to_transaction(*args, **kwargs)
        self._hit("offsets", "after")

    def commit_transaction(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on as they are
        if self.has_records and self.trap.step == "flush":
            # The client sends in the background, at the latest in the commit; this flush is a step of its own.
            self.trap.hit("flush", "before")
            super().flush(10)
            self.trap.hit("flush", "after")
        self._hit("commit", "before")
        if self.has_records:
            self.trap.time_out()
        if self.trap.deaf():
            self._commit_unheard()
        super().commit_transaction(*args, **kwargs)
        self._hit("commit", "after")

    def _hit(self, step: str, when: str) -> None:
        if self.has_records:
            self.trap.hit(step, when)

    def _commit_unheard(self) -> None:
        """Commit without waiting for the answer, then give the client a second to receive it."""
        try:
            super().commit_transaction(0)
        except KafkaException:
            time.sleep(1)  # the client completes the commit in the background
            raise


class _Consumer(Consumer):
    trap: Trap

    def commit(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - handed on as they are
        self.trap.time_out()
        return super().commit(*args, **kwargs)

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:  # type: ignore[override]
        steps = {"on_assign": "assigned", "on_revoke": "revoked", "on_lost": "lost"}
        super().subscribe(topics, **{name: self._counted(steps[name], call) for name, call in callbacks.items()})

    def _counted(self, step: str, call: Callable[..., None]) -> Callable[..., None]:
        counted_call = self.trap.around(step, call)

        def listen(consumer: Consumer, partitions: list[Any]) -> None:
            (counted_call if partitions else call)(consumer, partitions)

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
        # Resuming a partition with an offset is part of its assignment, which is a step of its own.
        self._only_if("resume", super().resume, [each for each in partitions if each.offset < 0], partitions)

    def _only_if(self, step: str, call: Callable[[list[Any]], None], counted: list[Any], partitions: list[Any]) -> None:
        (self.trap.around(step, call) if counted else call)(partitions)


if __name__ == "__main__":
    trapped(Trap(sys.argv[1], Path(sys.argv[2])))
    app(sys.argv[3:])
