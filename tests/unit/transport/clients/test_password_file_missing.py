"""A running process waits for a file of its password, as for Kafka, when it opens another client.

The same holds for files with certificates and keys. A process that starts ends with the error.
"""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin import end_offsets, group_members
from kafka_redelivery.transport.admin.control_topic import ControlTopic
from kafka_redelivery.transport.admin.end_offsets import EndOffsets
from kafka_redelivery.transport.admin.group_members import UnownedPartitionWatch
from kafka_redelivery.transport.client_config import Config, admin_config, consumer_config, producer_config
from kafka_redelivery.transport.clients import enduring_control, takeover, topic_watch
from kafka_redelivery.transport.clients.auto_writer import AutoWriter
from kafka_redelivery.transport.clients.enduring_control import EnduringControlTopic
from kafka_redelivery.transport.clients.outage import Outage
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.takeover import take_over
from kafka_redelivery.transport.clients.topic_watch import TopicWatch
from kafka_redelivery.transport.errors import (
    ClientSettingsError,
    ConsumerError,
    ReaderError,
    TopicForbiddenError,
    WriteAbortedError,
)
from kafka_redelivery.transport.protocols import Partition, ProducerRecord
from kafka_redelivery.transport.unreadable import ForbiddenTopics
from tests.unit.consumers.doubles import Clock

ORDERS = Partition("orders", 0)


class Login:
    """Settings with a password in a file, and what a process waits for."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "password"
        self.file.write_text("first\n", encoding="utf-8")
        self.kafka: Config = {
            "bootstrap.servers": "127.0.0.1:1",
            "log_level": 0,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "billing",
            "sasl.password.file": str(self.file),
        }
        self.waits: list[str] = []

    def report(self, client: str, problem: str | None, *, call: bool = False) -> None:
        """Keep what is waited for, and write the file when that is it."""
        assert client
        assert not call
        if problem is not None:
            self.waits.append(problem)
            if "cannot be read" in problem:
                self.file.write_text("second\n", encoding="utf-8")

    @property
    def waited(self) -> bool:
        """Whether the file was waited for."""
        return any(f"names {self.file}, which cannot be read" in each for each in self.waits)


@pytest.fixture
def login(tmp_path: Path) -> Login:
    """A login with a file that is there."""
    return Login(tmp_path)


class _OverError(Exception):
    """Ends a wait without an end."""


def test_a_producer_that_is_replaced_waits(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the one before it had to be dropped. Without endurance, as at the start, it is an error."""
    monkeypatch.setattr(takeover, "_CONNECT_S", 0.01)
    monkeypatch.setattr(takeover, "_ATTEMPT_S", 0.01)
    config = producer_config(login.kafka, transactional_id="billing.worker.one")
    login.file.unlink()
    with pytest.raises(ClientSettingsError):
        take_over(config)

    def report(client: str, problem: str | None, *, call: bool = False) -> None:
        login.report(client, problem, call=call)
        if problem is not None and "cannot take over" in problem:
            raise _OverError

    with pytest.raises(_OverError):  # a producer was opened, which no broker answers
        take_over(config, outage=Outage("writer", report))
    assert login.waited


def test_a_consumer_that_is_replaced_waits(login: Login) -> None:
    """What it held was given up before. At the start it is an error."""
    config = consumer_config(login.kafka, group="billing", instance=None)
    reader = GroupReader(config, report=login.report)
    reader.subscribe([], Mock())
    reader._joined = True
    login.file.unlink()
    reader._replace_consumer(ConsumerError("it has failed", fatal=True))
    assert login.waited
    reader.close()
    login.file.unlink()
    with pytest.raises(ClientSettingsError):
        GroupReader(config, report=login.report)


def test_a_writer_without_transactions_repeats_its_write(login: Login) -> None:
    """Its producer for large records cannot be opened: the write is aborted, and the process goes on."""
    config = producer_config(login.kafka, transactional_id=None) | {"message.max.bytes": 1000}
    writer = AutoWriter(config, Mock())
    login.file.unlink()
    with pytest.raises(WriteAbortedError, match="which cannot be read"):
        writer.write([ProducerRecord("out", 0, None, b"x" * 2000, [])], {})
    with pytest.raises(ClientSettingsError):
        AutoWriter(config, Mock())


def test_what_is_asked_in_the_background_is_asked_later(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """The polling thread asks, and goes on without an answer. It has one when the file is there again."""
    clock = Clock()
    for module in ("unreadable", "admin.group_members", "clients.topic_watch"):
        monkeypatch.setattr(f"kafka_redelivery.transport.{module}.monotonic", clock)
    monkeypatch.setattr(end_offsets, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(group_members, "_REQUEST_TIMEOUT_S", 0.01)
    topics = ForbiddenTopics(admin_config(login.kafka))
    topics.add(TopicForbiddenError("orders", "no right"))
    owners = UnownedPartitionWatch(admin_config(login.kafka), "billing")
    owners.start(["orders"])
    watch = TopicWatch(login.kafka, login.report)
    ends = EndOffsets(login.kafka)
    asks: list[Callable[[], object]] = [
        topics.poll,
        owners.poll,
        lambda: ends.refresh([ORDERS]),
        lambda: watch.poll(["orders"], {}),
    ]
    login.file.unlink()
    for _ in range(2):
        assert not login.waited
        clock.advance(60)
        for ask in asks:
            ask()
    assert login.waited  # the second time, as of Kafka
    assert not any((topics._asked, owners._pending, watch._pending, ends._pending))
    clock.advance(60)
    for ask in asks:
        ask()
    assert all((topics._asked, owners._pending, watch._pending, ends._pending))


def test_the_topics_are_looked_up_later(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the process needs an answer, it waits for it."""
    monkeypatch.setattr(topic_watch, "_TIMEOUT_S", 0.01)

    def report(client: str, problem: str | None, *, call: bool = False) -> None:
        login.report(client, problem, call=call)
        if len(login.waits) > 1:
            raise _OverError

    login.file.unlink()
    with pytest.raises(_OverError):
        TopicWatch(login.kafka, report).look(["orders"])
    assert login.waited


def test_the_control_topic_is_written_later(login: Login) -> None:
    """First offsets are noted in a minute; a position that cannot be saved at the end is found by the next process."""
    control = ControlTopic(login.kafka, "billing", "billing.control", lambda: 0)
    control.state = ControlState(cluster="here", saved={ORDERS: Checkpoint(1, "")})
    login.file.unlink()
    control.note_first_offset(ORDERS, 0)
    control.save({ORDERS: Checkpoint(1, "")})
    with pytest.raises(ReaderError, match="the saved positions cannot be dropped"):
        control._drop([ORDERS])
    assert not control._sent


def test_the_control_topic_is_read_later(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that need it wait meanwhile."""
    control_of: Mock = Mock(return_value=ControlState(exists=True))
    monkeypatch.setattr(enduring_control, "read_permitted", control_of)
    control = EnduringControlTopic(login.kafka, "billing", "billing.control", lambda: 0)
    control_of.side_effect = ClientSettingsError("the file cannot be read")
    control.begin([ORDERS])
    assert control.problem() == "the file cannot be read"
