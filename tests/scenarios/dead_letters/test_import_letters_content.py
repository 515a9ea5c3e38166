"""`redelivery import-letters` takes only messages whose content arrives whole; all others stay in the queue."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from tests.activemq.broker import Broker
from tests.scenarios.dead_letters.test_drain_activemq import drain, numbers, words
from tests.scenarios.running import Group

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_PLAIN = (
    *("text", "text-large", "text-empty", "text-null", "text-zero", "text-end", "text-lines", "text-frame"),
    *("named-expires", "named-timestamp", "named-priority", "named-ack", "named-type", "amqp"),
    *("bytes", "bytes-large", "bytes-empty", "map", "map-one", "map-none", "map-large", "object", "stream", "plain"),
)
_COMPRESSED = ("text", "text-large", "bytes", "bytes-large", "map", "map-large", "object", "stream")
_SHADOWED = "a property is called like a header of STOMP: ack, expires, priority, timestamp or another"
_NO_BODY = "STOMP shows no body: a MapMessage, ObjectMessage or StreamMessage, or an empty text"

_LARGE = "Größe 7, order of many words; " * 8192
_TEXT, _BYTES = "order 7\nGröße: 7".encode(), bytes([0, 255, 10, 0])
_SMALL = {"text": _TEXT, "bytes": _BYTES, "compressed-text": _TEXT, "compressed-bytes": _BYTES}
_WHOLE = {
    "classic": _SMALL
    | {"bytes-empty": b""}
    | dict.fromkeys(("text-large", "bytes-large", "compressed-text-large", "compressed-bytes-large"), _LARGE.encode()),
    "artemis": _SMALL
    | dict.fromkeys(("text-large", "bytes-large"), _LARGE.encode())
    | {
        "text-zero": b"one\0two",
        "text-end": b"one\0",
        "text-lines": b"one\0\n\ntwo",
        "text-frame": b"one\0\nMESSAGE\n\ntwo",
    },
}
_LEFT = {
    "classic": {
        _NO_BODY: 13,
        "STOMP cuts a text at U+0000": 4,
        _SHADOWED: 5,
        "a message of AMQP: Classic shows its whole encoding, and cannot take its acknowledgement": 1,
    },
    "artemis": {
        _SHADOWED: 5,
        "Artemis does not tell the type of a message of AMQP": 1,
        "an empty text, or none: STOMP does not tell them apart": 2,
        "a MapMessage, which STOMP does not show whole": 5,
        "an ObjectMessage, which STOMP does not show whole": 2,
        "a StreamMessage, which STOMP does not show whole": 2,
        "a message without a type of content, which STOMP does not show whole": 1,
        "a BytesMessage that its client compressed": 1,
        "four zero bytes: Artemis shows an empty BytesMessage like this": 1,
    },
}
_NEVER_DELIVERED = {"classic": 0, "artemis": 2}
"""Artemis fails to show a compressed large text or map."""


@pytest.fixture(params=["classic", "artemis"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of either kind."""
    with Broker(request.param, tmp_path / "broker") as found:
        yield found


def test_only_whole_content_is_taken(group: Group, broker: Broker) -> None:
    """Every kind of message, small, large and compressed, becomes a letter of the same content or stays, counted."""
    group.prepare()
    kind = "artemis" if broker.queue == "DLQ" else "classic"
    every = len(_PLAIN) + len(_COMPRESSED)
    broker.put(*_PLAIN)
    broker.put(*_COMPRESSED, compressed=True)
    broker.stock(1)
    broker.until_it_has(every + 1)
    left = sum(_LEFT[kind].values())
    for arguments in (["--dry-run"], ["--yes"]):
        found = drain(group, broker, *arguments, "--origin", group.source, code=1)
        assert found.get("unknownContent") == _LEFT[kind], found
        assert (found["letters"], found["withoutBody"]) == (every + 1 - left - _NEVER_DELIVERED[kind], left)
    broker.until_it_has(left + _NEVER_DELIVERED[kind])
    letters = group.cluster.read(group.dead_letters)
    values = {each.header("kind") or "": each.value for each in letters if each.header("kind")}
    assert values.keys() == _WHOLE[kind].keys()
    assert [name for name, value in values.items() if value != _WHOLE[kind][name]] == []
    assert Counter(each.value for each in letters)[b"order 0"] == 1  # behind those that are cut


def test_a_user_who_may_not_ask_artemis(group: Group, tmp_path: Path) -> None:
    """Without the permission no type is known, so all messages stay, with the reason."""
    group.prepare()
    with Broker("artemis", tmp_path / "broker", "reader", "secret") as refusing:
        refusing.stock(20)
        for arguments in (["--dry-run"], ["--yes"]):
            found = drain(group, refusing, *arguments, "--origin", group.source, code=1, login=("reader", "secret"))
            ((reason, number),) = found["unknownContent"].items()
            assert (number, found["letters"], found["held"]) == (20, 0, None)
            assert "the permission manage" in reason
            assert reason.endswith("manage: AMQ339011 Error sending message")
        refusing.until_it_has(20)
        assert numbers(group) == Counter()


@pytest.mark.parametrize("name", ["DLQ.none", "/queue/DLQ.none"])
def test_a_queue_that_does_not_exist(group: Group, broker: Broker, name: str) -> None:
    """It is an error, and reading does not make it: the second time it is one, too."""
    group.prepare()
    broker.stock(1)
    for arguments in (["--dry-run"], ["--yes"], ["--yes"]):
        command = [*words(group, broker, *arguments, "--origin", group.source), "--queue", name]
        done = CliRunner().invoke(app, command)
        assert done.exit_code != 0
        assert f"has no queue {name}" in f"{done.stderr}{done.exception}"
    assert drain(group, broker, "--yes", "--origin", group.source)["letters"] == 1
