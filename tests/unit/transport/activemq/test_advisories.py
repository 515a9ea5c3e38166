"""Classic's advisories tell which queues it has: reading one that it does not have would make it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest
from stomp import ConnectionListener
from stomp.exception import ConnectFailedException
from stomp.utils import Frame

from kafka_redelivery.transport.activemq import queue_reader
from kafka_redelivery.transport.activemq.queue_reader import Advisories

_SESSION = "ID:vm-34689-1795970420853-5:2"


def _advisory(kind: str, named: str) -> bytes:
    """As Classic 5.18.6 writes it."""
    return (
        b'{"DestinationInfo":{"commandId":0,"responseRequired":false,"connectionId":{"value":"ID:vm-1-2-4:1"},'
        b'"destination":{"@class":"%b",%b,"null":""},"operationType":0,"timeout":0}}' % (kind.encode(), named.encode())
    )


def _topic(body: bytes | None) -> str:
    """Where an advisory is sent."""
    return f"ActiveMQ.Advisory.{'TempQueue' if b'TempQueue' in (body or b'') else 'Queue'}"


_OTHER = _advisory("ActiveMQQueue", '"string":"ActiveMQ.DLQ"')
_THIS = _advisory("ActiveMQQueue", '"string":"DLQ.none"')
_LAST = _advisory("ActiveMQTempQueue", f'"string":"{_SESSION}:1"')


_PREFETCH = "2"
_PENDING = 1
"""How many messages wait behind those that a subscription may be sent; older ones are dropped."""


class _Connection:
    """Answers as a broker with these advisories, which keeps their order within a subscription, but not between two."""

    def __init__(self, listener: ConnectionListener, bodies: Sequence[bytes | None]) -> None:
        self._listener, self._bodies = listener, bodies
        self._subscriptions: list[tuple[list[str], int]] = []
        listener.on_connected(Frame("CONNECTED", {"session": _SESSION}))

    def subscribe(self, destination: str, _: str, ack: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Send all when the temporary queue is made; ``None`` is a refusal."""
        assert ack == "auto"
        if not destination.startswith("/temp-queue/"):
            assert all(each.startswith("/topic/") for each in destination.split(","))
            topics = [each.removeprefix("/topic/") for each in destination.split(",")]
            self._subscriptions.append((topics, int(headers.get("activemq.prefetchSize", _PREFETCH))))
            return
        for topics, prefetch in reversed(self._subscriptions):
            told = [each for each in self._bodies if _topic(each) in topics]
            for body in [*told[:prefetch], *told[prefetch:][-_PENDING:]]:
                if body is None:
                    self._listener.on_error(Frame("ERROR", {"message": "not authorized"}))
                else:
                    self._listener.on_message(Frame("MESSAGE", {}, body))

    def disconnect(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("bodies", "lacks"),
    [
        ([_LAST], True),
        ([_OTHER, _LAST], True),
        ([_THIS, _LAST], False),
        ([_OTHER, _OTHER, _THIS, _LAST], False),
        ([_OTHER] * 9 + [_LAST], True),
        ([_advisory("queue", '"physicalName": "DLQ.none"'), _LAST], False),
        ([_advisory("ActiveMQTempQueue", '"string":"ID:other-1-2-3:4:1"'), _LAST], True),
        ([b"", _LAST], False),
        ([None], False),
        ([], False),
    ],
    ids=[
        "no queue",
        "another",
        "this",
        "after many",
        "not among many",
        "other names",
        "another's temporary",
        "no XStream",
        "refused",
        "silent",
    ],
)
def test_what_is_known_of_a_queue(monkeypatch: pytest.MonkeyPatch, bodies: list[bytes | None], *, lacks: bool) -> None:
    """It is missing only if the broker has told all that it has."""
    monkeypatch.setattr(queue_reader, "_ADVISORY_S", 0.0)
    assert Advisories(lambda listener: _Connection(listener, bodies)).lack("DLQ.none") == lacks


def test_a_broker_that_takes_no_second_connection() -> None:
    """Nothing is known then."""

    def refuse(_: ConnectionListener) -> _Connection:
        raise ConnectFailedException

    assert not Advisories(refuse).lack("DLQ.none")
