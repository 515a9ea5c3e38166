"""The messages of a real ActiveMQ's dead-letter queue become dead letters, each once, with what the broker says."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.dead_letters.draining import Drain, Drained
from kafka_redelivery.transport.activemq.broker_message import BrokerMessage
from kafka_redelivery.transport.activemq.queue_reader import BrokerAddress, QueueError, QueueReader
from tests.activemq.broker import Broker
from tests.scenarios.redriving import dlq_json, settings_of
from tests.scenarios.running import COMMAND, Group
from tests.scenarios.waiting import until
from tests.scenarios.warm import WarmProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KINDS = ["classic", "artemis"]
_LONG_WITH_ARTEMIS = pytest.mark.parametrize(
    "broker", ["classic", pytest.param("artemis", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of either kind, with its defaults."""
    with Broker(request.param, tmp_path / "broker") as found:
        yield found


def words(group: Group, broker: Broker, *arguments: str) -> list[str]:
    """Return the command."""
    options = ["--queue", broker.queue, "--wait", "1s", "--config", str(group.file)]
    return ["import-letters", broker.url, *options, *arguments]


def address(broker: Broker) -> BrokerAddress:
    """Return where the broker is."""
    return BrokerAddress(host="127.0.0.1", port=urlsplit(broker.url).port or 0)


def drain(
    group: Group, broker: Broker, *arguments: str, code: int | None = 0, login: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Run `redelivery import-letters` in this process and return its result."""
    environment: dict[str, str | None] = dict.fromkeys(name for name in os.environ if name.startswith("REDELIVERY_"))
    command = words(group, broker, *arguments, "--json")
    if login is not None:
        command[1] = broker.url.replace("//", f"//{login[0]}@")
        environment["REDELIVERY_ACTIVEMQ_PASSWORD"] = login[1]
    done = CliRunner(env=environment).invoke(app, command)
    assert code in {None, done.exit_code}, (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def numbers(group: Group) -> Counter[int]:
    """Return the numbers of the imported messages, and how often each is in the dead-letter topic."""
    return Counter(int(each.header("number") or "-1") for each in group.cluster.read(group.dead_letters))


def test_drained(group: Group, broker: Broker) -> None:
    """By count, content, cause and key; what STOMP does not show stays; and the letters can be sent again."""
    group.prepare()
    broker.fill(24)
    broker.until_it_has(24)
    shown = [number for number in range(24) if number % 6 != 5]
    assert drain(group, broker, "--yes", code=1)["withoutSource"] == {"orders": 24}
    previewed = drain(group, broker, "--dry-run", "--origin", group.source, code=1)
    assert (previewed["letters"], previewed["withoutBody"]) == (20, 4)
    broker.until_it_has(24)  # nothing is removed
    assert drain(group, broker, "--yes", "--origin", group.source, "--limit", "5", code=None)["letters"] == 5
    broker.until_it_has(19)
    selected = drain(group, broker, "--yes", "--origin", group.source, "--selector", "number > 20", code=1)
    assert (selected["letters"], selected["withoutBody"]) == (2, 1)
    assert drain(group, broker, "--yes", "--origin", group.source, code=1)["letters"] == 13
    broker.until_it_has(4)  # four MapMessages
    assert numbers(group) == Counter(shown)

    letters = {int(each.header("number") or ""): each for each in group.cluster.read(group.dead_letters)}
    assert letters[0].value == "order 0\nGröße: 7".encode()
    assert letters[1].value == bytes([0, 255, 1, 10, 0])
    assert letters[2].header("tenant") == "a:b\\c\nd"
    said = [letters[2].header(name) for name in ("JMSCorrelationID", "JMSType", "JMSDestination", "JMSPriority")]
    assert said == ["correlation-2", "order", "orders", "4"]
    assert letters[2].header("_AMQ_ORIG_ADDRESS") == group.source
    found = dlq_json(group, "list", "--each")["each"]
    assert {each["reason"] for each in found} == {"redeliveries_exceeded"}
    assert len({each["sourceId"] for each in found}) == 20
    assert dlq_json(group, "redrive", "--yes")["sent"] == 20
    assert len(group.cluster.read(group.ready)) == 20
    assert len(group.cluster.read(group.source)) == 0


def test_what_only_one_broker_says(group: Group, broker: Broker) -> None:
    """Classic the cause and the JMS message id; Artemis the message group, which becomes the key."""
    group.prepare()
    broker.fill(1)
    drain(group, broker, "--yes", "--origin", group.source)
    (letter,) = group.cluster.read(group.dead_letters)
    if broker.queue == "DLQ":
        assert letter.key == b"customer-0"
        assert letter.header("JMSXGroupID") == "customer-0"
    else:
        assert str(letter.header("JMSMessageID")).startswith("ID:")
        (found,) = dlq_json(group, "list", "--each")["each"]
        assert found["exception"].startswith("java.lang.")


MANY = 2500


class Losing(QueueReader):
    """Its acknowledgements are lost."""

    def acknowledge(self, messages: Sequence[BrokerMessage]) -> None:
        assert messages
        raise QueueError("the acknowledgement is lost")


@_LONG_WITH_ARTEMIS
def test_ended_between_commit_and_acknowledgement(group: Group, broker: Broker) -> None:
    """The broker delivers the chunk again; it is recognised, acknowledged and not written a second time."""
    group.prepare()
    broker.stock(MANY)
    settings = settings_of(group)

    def run(reader: QueueReader) -> Drained:
        with closing(reader):
            return Drain(settings, group.source, "JMSXGroupID").run(reader, Event(), None, 1.0, lambda _: None)

    with pytest.raises(QueueError, match="lost"):
        run(Losing(address(broker), broker.queue, None))
    written = sum(numbers(group).values())
    assert 0 < written <= 500
    broker.until_it_has(MANY)
    found = run(QueueReader(address(broker), broker.queue, None))
    assert (found.present, found.topics.total()) == (written, MANY - written)
    broker.until_it_has(0)
    assert numbers(group) == Counter(range(MANY))


@pytest.mark.crash
@pytest.mark.parametrize(
    ("broker", "victim"),
    [
        ("classic", "command"),
        ("classic", "broker"),
        ("artemis", "broker"),
        ("artemis", "command"),
    ],
    indirect=["broker"],
)
def test_killed_in_the_middle(group: Group, broker: Broker, victim: str) -> None:
    """SIGKILL for the command or for the broker: the import is repeated, nothing is lost and nothing is doubled."""
    group.prepare()
    broker.stock(MANY)
    command = [*COMMAND, *words(group, broker, "--origin", group.source, "--yes")]
    with TemporaryFile() as output:
        process = WarmProcess(command, env=dict(os.environ), stdout=output, stderr=output)
        until(lambda: sum(numbers(group).values()) > 0, "some are imported")
        if victim == "command":
            process.kill()
        else:
            broker.kill()
        code = process.wait(60)
    if victim == "broker":
        assert code != 0
        broker.start()
    # Artemis does not count a message while it puts it back.
    until(lambda: broker.count() + sum(numbers(group).values()) >= MANY, "each message is in the queue or in the topic")

    def drained() -> bool:  # the broker may not have noticed yet that the killed reader has gone
        found = drain(group, broker, "--yes", "--origin", group.source, code=None)
        assert found["ok"] is not bool(found["held"])
        return broker.count() == 0

    until(drained, "the queue is empty")
    assert numbers(group) == Counter(range(MANY))


@_LONG_WITH_ARTEMIS
def test_another_reader_holds_messages(group: Group, broker: Broker) -> None:
    """The queue looks empty. The command says that it is not, and imports these when they are free, each once."""
    group.prepare()
    broker.stock(20)
    with closing(QueueReader(address(broker), broker.queue, None)) as other:
        for _ in range(20):
            assert other.receive(30.0) is not None
        shown = drain(group, broker, "--dry-run", "--origin", group.source, code=None)
        assert (shown["letters"], shown["held"]) == ((0, 20) if broker.queue == "DLQ" else (20, None))
        found = drain(group, broker, "--yes", "--origin", group.source, code=1)
        assert (found["letters"], found["held"], found["ok"]) == (0, 20, False)
    until(lambda: drain(group, broker, "--yes", "--origin", group.source, code=None)["ok"], "nothing is left")
    broker.until_it_has(0)
    assert numbers(group) == Counter(range(20))


@pytest.mark.long
def test_messages_that_stay_in_front(group: Group, broker: Broker) -> None:
    """Those of other applications, more than the broker sends without an acknowledgement: those behind are imported."""
    group.prepare()
    broker.stock(6000)
    broker.fill(3, queue=group.source)
    assert drain(group, broker, "--dry-run", "--origin", group.source, code=None)["letters"] == 6003
    found = drain(group, broker, "--yes", code=1)
    assert (found["letters"], found["withoutSource"], found["held"]) == (3, {"": 6000}, 0)
    broker.until_it_has(6000)
    assert drain(group, broker, "--yes", "--origin", group.source)["letters"] == 6000
    broker.until_it_has(0)
    assert sum(numbers(group).values()) == 6003


@pytest.mark.long
def test_a_message_that_kafka_refuses(group: Group, broker: Broker) -> None:
    """Two are larger than the topic takes, and than what Artemis sends at first: those behind them are imported."""
    group.prepare()
    broker.put("text-huge", "text-huge")
    broker.stock(20)
    assert drain(group, broker, "--dry-run", "--origin", group.source, code=None)["letters"] == 22
    for letters in (20, 0):
        found = drain(group, broker, "--yes", "--origin", group.source, code=1)
        assert found.get("refused"), found
        (reason,) = found["refused"]
        assert "max.message.bytes" in reason
        assert (found["letters"], found["refused"][reason], found["held"]) == (letters, 2, 0)
    broker.until_it_has(2)
    assert numbers(group) == Counter(range(20))


_KILLED = """
import os, signal, sys
from kafka_redelivery.transport.activemq.queue_reader import BrokerAddress, QueueReader
reader = QueueReader(BrokerAddress(host="127.0.0.1", port=int(sys.argv[1])), sys.argv[2], None)
for _ in range(20):
    assert reader.receive(120.0) is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_readers_that_are_killed_again_and_again(group: Group, broker: Broker) -> None:
    """Artemis counts deliveries that were not acknowledged, and moves messages onto the same queue: none is lost."""
    group.prepare()
    broker.stock(20)
    for _ in range(3):
        killed = subprocess.run(
            [sys.executable, "-c", _KILLED, str(address(broker).port), broker.queue], capture_output=True, check=False
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        # Artemis does not count a message while it puts it back.
        until(lambda: broker.count() == 20, "all are in the queue again")
    until(lambda: drain(group, broker, "--yes", "--origin", group.source, code=None)["ok"], "nothing is left")
    broker.until_it_has(0)
    assert numbers(group) == Counter(range(20))


def test_refused(group: Group, tmp_path: Path) -> None:
    """A broker that is not there, a wrong URL, and an origin that is no source."""
    group.prepare()
    nowhere = Broker("classic", tmp_path)
    assert "no STOMP broker answers" in drain(group, nowhere, "--dry-run", "--origin", group.source, code=1)["message"]
    assert "is no source" in drain(group, nowhere, "--dry-run", "--origin", "other", code=1)["message"]
    for url in ("tcp://127.0.0.1:61616", "stomp://user:secret@127.0.0.1", "stomp+ssl://127.0.0.1", "stomp://:61613"):
        done = CliRunner().invoke(app, ["import-letters", url, "--dry-run", "--config", str(group.file)])
        assert done.exit_code == 2, url
