"""Reads a queue of ActiveMQ Classic or Artemis over STOMP."""

from __future__ import annotations

import itertools
import json
import logging
import queue
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from kafka_redelivery.transport.activemq.broker_message import BrokerMessage, Server
from kafka_redelivery.transport.errors import TransportError

try:
    import stomp
except ModuleNotFoundError as error:
    raise TransportError(
        "reading ActiveMQ takes the Python package stomp.py, which is not installed; install it with: "
        "pip install 'kafka-redelivery[activemq]'"
    ) from error

_CONNECT_S: Final = 10.0
_RECEIPT_S: Final = 30.0
_HEARTBEATS_MS: Final = (10_000, 30_000)
"""What this client sends and wants. Without them Artemis closes a connection that is idle for a minute."""

_WINDOW_MESSAGES: Final = 1000
_WINDOW_BYTES: Final = 2**20
"""How much the broker sends before it waits for acknowledgements: Classic counts messages, Artemis bytes."""

_WIDER: Final = 4
_WIDEST: Final = {Server.CLASSIC: 1024, Server.ARTEMIS: 32, Server.OTHER: 32}
"""By what the window grows, and how often it is as wide at most. Artemis builds its list of types in memory."""

_EVERYTHING: Final = {"activemq.prefetchSize": str(2**30)}
_BROWSING: Final = {
    **_EVERYTHING,
    "consumer-window-size": str(_WINDOW_BYTES * _WIDEST[Server.ARTEMIS]),
    "browser": "true",
}
"""Classic ends a browser after as many messages as it may send."""

_NAMES: Final = (
    "ack",
    "destination",
    "expires",
    "persistent",
    "priority",
    "redelivered",
    "subscription",
    "timestamp",
    "type",
)
"""Headers of STOMP. A property of the same name takes their place, or is hidden by them."""

_NAMED: Final = " OR ".join(f"{name} IS NOT NULL" for name in _NAMES)
_NOT_NAMED: Final = " AND ".join(f"{name} IS NULL" for name in _NAMES)
_NO_QUEUE: Final = re.compile(r"retrieving attribute|Cannot find resource")

_NO_MESSAGE: Final = "0"
"""What Classic has for an id where a browser has seen all; a message may have a property ``browser``, too."""

_CUT: Final = "STOMP cuts a text at U+0000"


logging.getLogger("stomp.py").setLevel(logging.CRITICAL)
"""What it logs, :class:`QueueError` says."""


class QueueError(TransportError):
    """The broker cannot be reached, does not answer, refuses the client or has ended the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """Where the broker is, and as whom to log in."""

    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    """The certificates of authorities; with them the connection uses TLS."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def _trusted(address: BrokerAddress) -> ssl.SSLContext | None:
    """Return what verifies the certificate of the broker; ``None`` without TLS.

    Raises:
        QueueError: the file of certificates cannot be read.
    """
    if address.ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=address.ca_file)
    except OSError as error:  # also of a file without certificates
        raise QueueError(f"no TLS connection to {address}: --ca {address.ca_file} cannot be read: {error}") from None


def _tls_problem(address: BrokerAddress, trusted: ssl.SSLContext | None) -> str:
    """Return why there is no TLS connection, which the client does not say; empty if there is one, or no broker."""
    if trusted is None:
        return ""
    try:
        with (
            socket.create_connection((address.host, address.port), _CONNECT_S) as plain,
            trusted.wrap_socket(plain, server_hostname=address.host),
        ):
            return ""
    except ssl.SSLError as error:
        fix = "check that it has TLS on this port, its host name, and that --ca has its authority"
        return f"no TLS connection to {address}: {error}; {fix}"
    except OSError:
        return ""


_LENGTH: Final = re.compile(rb"^content-length:\s*(\d+)", re.MULTILINE)
_ACK: Final = re.compile(rb"^ack:(.*)$", re.MULTILINE)


class FrameEnds:
    """Follows the bytes of a connection, and notes messages that go on behind the end of their frame.

    Classic shows a text without its length, so its frame ends at the first U+0000 of the text. The client passes the
    beginning on and skips the rest. What follows a whole frame has the token of the connection, which no text contains.
    """

    def __init__(self, token: str) -> None:
        """Begin with a connection.

        Args:
            token: with what the names of all subscriptions and receipts of the connection begin.
        """
        marks = re.escape(token.encode())
        self._known = re.compile(
            rb"MESSAGE\n(?:.*\n)*?subscription:%b|RECEIPT\n(?:.*\n)*?receipt-id:%b|CONNECTED\n|ERROR\n" % (marks, marks)
        )
        self._data = bytearray()
        self._searched = 0
        self._length: int | None = None
        self._in_body = False
        self.open = ""
        """The ``ack`` of the last message, as long as no other frame has followed it."""

        self.cut: set[str] = set()
        """The ``ack`` of each message that is known to go on behind its frame."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._data += data
        while self._body() if self._in_body else self._head():
            pass

    def _head(self) -> bool:
        """Take the head of a frame, or the rest of a text; whether it is there."""
        data = self._data
        while data.startswith((b"\n", b"\r")):
            del data[:1]
        end, head_end = data.find(b"\0"), data.find(b"\n\n")
        if end >= 0 and not 0 <= head_end < end:
            self._take(end + 1)
            self.cut.add(self.open)
            return True
        if head_end < 0:
            return False
        head = self._take(head_end + 2)
        length = _LENGTH.search(head)
        self._length, self._in_body = None if length is None else int(length[1]), True
        if self._known.match(head) is None:
            self.cut.add(self.open)
        else:
            ack = _ACK.search(head)
            self.open = "" if ack is None else ack[1].decode(errors="replace").replace("\\c", ":")
        return True

    def _body(self) -> bool:
        """Take the body of a frame with its end; whether it is there."""
        end = self._data.find(b"\0", self._searched) if self._length is None else self._length
        if not 0 <= end < len(self._data):
            self._searched = len(self._data)
            return False
        if self._data[end]:
            self.cut.add(self.open)
        self._take(end + 1)
        self._in_body = False
        return True

    def _take(self, size: int) -> bytes:
        taken = bytes(self._data[:size])
        del self._data[:size]
        self._searched = 0
        return taken


_ANSWER_S: Final = 30.0
_ADVISORIES: Final = "/topic/ActiveMQ.Advisory.Queue,/topic/ActiveMQ.Advisory.TempQueue"
"""In one subscription, because Classic keeps no order between two. Each name needs its ``/topic/``."""

_ADVISORY_S: Final = 5.0
"""How long to wait for an advisory; a broker may have none."""

_QUEUE: Final = "/queue/"
_PLAIN: Final = re.compile(rf"(?:{_QUEUE})?[^/,*>?:]+")
"""The name of one queue of Classic."""

_ADVISED: Final = re.compile(r'"(?:string|physicalName)"\s*:\s*("(?:[^"\\]|\\.)*")')
"""The name of a queue in an advisory; XStream calls it in either way."""


class Management(stomp.ConnectionListener):  # type: ignore[misc] # the client has no types
    """What Artemis says of a queue; it takes the permission ``manage``.

    The questions have a connection of their own, because a broker that refuses one may end its connection.
    """

    def __init__(self, connect: Callable[[stomp.ConnectionListener], Any], name: str) -> None:
        """Ask about a queue.

        Args:
            connect: opens a connection that the listener gets the frames of, and that adds no length to what is sent.
            name: the queue.
        """
        self._connect, self._name = connect, name
        self._connection: Any = None
        self._reply = f"redelivery.{uuid4().hex}"
        """A queue that Artemis deletes when it has no reader."""

        self._answers: queue.SimpleQueue[tuple[bool, bytes]] = queue.SimpleQueue()
        self._refusal = ""
        """Why the broker refuses all questions; it ends the connection then."""

    def count(self) -> int:
        """Return how many messages the queue has, with those that readers hold.

        Raises:
            QueueError: the broker does not say it.
        """
        return int(self._asked(_AMQ_Attribute="messageCount"))

    def is_missing(self) -> bool:
        """Whether there is no such queue; ``False`` if the broker does not say it."""
        try:
            self.count()
        except QueueError as error:
            return _NO_QUEUE.search(str(error)) is not None
        return False

    def matching(self, selector: str) -> int:
        """Return how many messages of the queue a selector selects.

        Raises:
            QueueError: the broker does not say it.
        """
        return int(self._asked(json.dumps([selector]), _AMQ_OperationName="countMessages"))

    def delivering(self) -> dict[str, Mapping[str, Any]]:
        """Return what the broker knows of each message that a reader holds, by the number of the message.

        Raises:
            QueueError: the broker does not say it.
        """
        found = self._asked(_AMQ_OperationName="listDeliveringMessages")
        return {str(each["messageID"]): each for held in found.values() for each in held}

    def _asked(self, arguments: str = "[]", **question: str) -> Any:  # noqa: ANN401 - any JSON
        if self._refusal:
            raise QueueError(self._refusal)
        try:
            if self._connection is None:
                self._connection = self._connect(self)
                self._connection.subscribe(self._reply, "answers", ack="auto")
            headers = {"reply-to": self._reply, "_AMQ_ResourceName": f"queue.{self._name}", **question}
            self._connection.send("activemq.management", arguments, headers=headers)
            succeeded, answer = self._answers.get(timeout=_ANSWER_S)
        except queue.Empty:
            raise QueueError(f"no answer within {_ANSWER_S:.0f} s") from None
        except (OSError, stomp.exception.StompException) as error:
            raise QueueError(f"{type(error).__name__} {error}") from error
        if not succeeded:
            raise QueueError(answer.decode(errors="replace")[:300])
        try:
            (found,) = json.loads(answer)
        except ValueError as error:
            raise QueueError(f"an answer that is no JSON: {error}") from error
        return found

    def close(self) -> None:
        """Disconnect."""
        with suppress(OSError, stomp.exception.StompException):
            if self._connection is not None:
                self._connection.disconnect()

    # Called by the client, on its thread.

    def on_message(self, frame: Any) -> None:  # noqa: ANN401 - the client has no types
        """Note an answer."""
        self._answers.put((frame.headers.get("_AMQ_OperationSucceeded") == "true", frame.body))

    def on_error(self, frame: Any) -> None:  # noqa: ANN401 - as above
        """Note a refusal, without the question that it quotes."""
        said = str(frame.headers.get("message") or frame.body).partition(" CoreMessage[")[0]
        self._refusal = said[:300]
        self._answers.put((False, said.encode()))

    def on_disconnected(self) -> None:
        """Note that no answer will come."""
        self._answers.put((False, b"the connection has ended"))


class Advisories(stomp.ConnectionListener):  # type: ignore[misc] # the client has no types
    """Which queues Classic has: it tells a new reader of its advisories of each, and then of what is made later.

    The reader has a connection of its own, because a broker that refuses it ends its connection.
    """

    def __init__(self, connect: Callable[[stomp.ConnectionListener], Any]) -> None:
        """Take what opens a connection that the listener gets the frames of."""
        self._connect = connect
        self._names: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._session = ""
        """The names of temporary queues of the connection begin with it."""

    def lack(self, name: str) -> bool:
        """Whether there is no such queue; ``False`` if the broker does not say it."""
        try:
            connection = self._connect(self)
        except (OSError, stomp.exception.StompException):
            return False
        try:
            # Of what it may not send at once, Classic drops as much as its pendingMessageLimitStrategy says.
            connection.subscribe(_ADVISORIES, "queues", ack="auto", headers=_EVERYTHING)
            connection.subscribe("/temp-queue/last", "last", ack="auto")  # told after all that are there
            return self._all(name)
        except (OSError, queue.Empty, stomp.exception.StompException):
            return False
        finally:
            with suppress(OSError, stomp.exception.StompException):
                connection.disconnect()

    def _all(self, name: str) -> bool:
        """Wait for the names of all queues; whether this one is none of them."""
        while (found := self._names.get(timeout=_ADVISORY_S)) is not None:
            if found == name:
                return False
            if self._session and found.startswith(self._session):
                return True
        return False

    # Called by the client, on its thread.

    def on_connected(self, frame: Any) -> None:  # noqa: ANN401 - the client has no types
        """Note the name of the session."""
        self._session = str(frame.headers.get("session", ""))

    def on_message(self, frame: Any) -> None:  # noqa: ANN401 - as above
        """Note a queue. A broker without the library that writes advisories shows an empty one."""
        names = _ADVISED.findall(str(frame.body or b"", "utf-8", "replace"))
        self._names.put(json.loads(names[0]) if names else None)

    def on_error(self, frame: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Note a refusal."""
        self._names.put(None)

    def on_disconnected(self) -> None:
        """Note that no name will come."""
        self._names.put(None)


class QueueReader(stomp.ConnectionListener):  # type: ignore[misc] # the client has no types
    """Receives the messages of one queue. They stay there until :meth:`acknowledge`.

    With ``browse`` nothing is removed. Classic shows its messages and then says that these are all. Artemis has no
    browser over STOMP: it delivers them, and takes them back when the connection is closed.
    """

    def __init__(
        self, address: BrokerAddress, name: str, selector: str | None, *, browse: bool = False, every: bool = False
    ) -> None:
        """Connect and subscribe.

        Args:
            address: where the broker is.
            name: the queue.
            selector: selects messages.
            browse: remove nothing.
            every: also receive messages with a property that is called like a header of STOMP: :meth:`shadowed`.

        Raises:
            QueueError: it is not possible.
        """
        self._address, self._name, self._selector, self._browses = address, name, selector, browse
        self._every = every
        self._queue = name.rpartition("::")[2]
        self._server = Server.OTHER
        self._token = uuid4().hex
        self._ends = FrameEnds(self._token)
        self._events: queue.SimpleQueue[BrokerMessage | QueueError | None] = queue.SimpleQueue()
        self._receipts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._subscription = f"{self._token}.messages"
        self._window = 1
        self._unacknowledged = self._seen = 0
        self._management = Management(lambda listener: self._login(self._client(listener, lengths=False)), self._queue)
        self._told: Mapping[str, Mapping[str, Any]] = {}
        self._not_told = ""
        self._connection = self._client(self, lengths=True)
        self._receive, self._connection.transport.receive = self._connection.transport.receive, self._followed
        trusted = _trusted(address)
        try:
            self._login(self._connection)
            if self._is_missing():
                raise QueueError(f"{address} has no queue {self._queue}")
            self._subscribe()
        except (OSError, stomp.exception.StompException) as error:
            problem = self._problem() or _tls_problem(address, trusted)
            if not problem:
                found = f"no STOMP broker answers at {address}: {type(error).__name__} {error}"
                problem = f"{found}; is its STOMP connector on, usually port 61613?"
            raise QueueError(problem) from error

    def _is_missing(self) -> bool:
        """Whether there is no such queue; ``False`` if the broker does not say it."""
        if self._server is Server.ARTEMIS:
            return self._management.is_missing()
        if self._server is not Server.CLASSIC or self._every or not _PLAIN.fullmatch(self._name):
            return False
        advisories = Advisories(lambda listener: self._login(self._client(listener, lengths=False)))
        return advisories.lack(self._name.removeprefix(_QUEUE))

    def _client(self, listener: stomp.ConnectionListener, *, lengths: bool) -> Any:  # noqa: ANN401 - as above
        """Return a client that is not connected. With ``lengths`` it says how long each body is that it sends."""
        place = [(self._address.host, self._address.port)]
        found = stomp.Connection12(
            place,
            heartbeats=_HEARTBEATS_MS,
            reconnect_attempts_max=1,
            timeout=_CONNECT_S,
            auto_decode=False,
            auto_content_length=lengths,
        )
        if self._address.ca_file is not None:
            found.set_ssl(place, ca_certs=self._address.ca_file)
        found.set_listener("", listener)
        return found

    def _login(self, client: Any) -> Any:  # noqa: ANN401 - as above
        client.connect(self._address.user, self._address.password, wait=True)
        return client

    def _followed(self) -> bytes | None:
        """Read from the socket; called by the client, on its thread."""
        data: bytes | None = self._receive()
        self._ends.feed(data or b"")
        return data

    def _subscribe(self) -> None:
        window = {
            "activemq.prefetchSize": str(_WINDOW_MESSAGES * self._window),
            "consumer-window-size": str(_WINDOW_BYTES * self._window),
        }
        guard = None if self._every or self._server is Server.OTHER else _NOT_NAMED
        selector = " AND ".join(f"({each})" for each in (self._selector, guard) if each)
        headers = (_BROWSING if self._browses else window) | ({"selector": selector} if selector else {})
        self._connection.subscribe(self._name, self._subscription, ack="client-individual", headers=headers)

    def receive(self, within_s: float) -> BrokerMessage | None:
        """Return the next message; ``None`` if none arrives within the time, or a browser has seen all.

        Raises:
            QueueError: the connection has ended.
        """
        found: BrokerMessage | QueueError | None
        try:
            while isinstance(found := self._events.get(timeout=within_s), BrokerMessage):
                if found.headers.get("subscription") == self._subscription:  # else it was sent before :meth:`widen`
                    break
        except queue.Empty:
            return None
        if isinstance(found, QueueError):
            self._events.put(found)
            raise found
        if found is None:
            return None
        self._unacknowledged += 1
        return self._with_kind(found)

    def _with_kind(self, message: BrokerMessage) -> BrokerMessage:
        """Return a message with what tells whether its body is all of its content.

        Raises:
            QueueError: the connection has ended.
        """
        ack = message.headers.get("ack", "")
        if self._server is Server.CLASSIC and self._ends.open == ack:
            self._await_next_frame()
        if ack in self._ends.cut:
            return message._replace(server=self._server, problem=_CUT)
        if self._server is not Server.ARTEMIS:
            return message._replace(server=self._server)
        number = message.headers.get("message-id", "").rpartition(",")[2]
        if number not in self._told and not self._not_told:
            try:
                self._told = self._management.delivering()
            except QueueError as error:
                self._not_told = f"Artemis does not tell their types, which takes the permission manage: {error}"
        return message._replace(server=self._server, told=self._told.get(number), problem=self._not_told)

    def _await_next_frame(self) -> None:
        """Wait for a frame behind the last message: it shows whether that was whole."""
        name = f"{self._token}.{next(self._numbers)}"
        try:
            self._connection.begin(transaction=name, headers={"receipt": name})
            self._await(name)
            self._connection.abort(name)
        except (OSError, queue.Empty, stomp.exception.StompException) as error:
            raise QueueError(self._problem() or f"{self._address} does not answer: {error!r}") from error

    def widen(self) -> bool:
        """Have all messages delivered again that are not acknowledged, and more behind them, if there may be more.

        Classic reads 200 messages of a queue ahead, whatever it may send; then it waits for an acknowledgement.
        Artemis sends nothing behind a message that is larger than the window.

        Returns:
            whether there may. If not, the last call has brought no message more than the one before, and on Artemis
            the window is as wide as it can be.

        Raises:
            QueueError: the connection has ended.
        """
        is_widest = self._server is not Server.ARTEMIS or self._window == _WIDEST[self._server]
        if self._browses or self._unacknowledged <= (self._seen if is_widest else 0):
            return False
        self._seen, self._unacknowledged = self._unacknowledged, 0
        before, self._subscription = self._subscription, f"{self._token}.{next(self._numbers)}"
        self._window = min(self._window * _WIDER, _WIDEST[self._server])
        try:
            self._connection.unsubscribe(before)
            self._subscribe()
        except (OSError, stomp.exception.StompException) as error:
            raise QueueError(self._problem() or f"{self._address} cannot be asked for more: {error!r}") from error
        return True

    def acknowledge(self, messages: Sequence[BrokerMessage]) -> None:
        """Remove messages from the queue; return when the broker has confirmed it.

        Raises:
            QueueError: it has not. It may or may not have removed them.
        """
        if not messages:
            return
        receipt = f"{self._token}.{next(self._numbers)}"
        try:
            for message in messages[:-1]:
                self._connection.ack(message.headers["ack"])
            self._connection.ack(messages[-1].headers["ack"], receipt=receipt)
            self._await(receipt)
            self._unacknowledged -= len(messages)
        except (OSError, queue.Empty, stomp.exception.StompException) as error:
            problem = self._problem() or f"{self._address} does not confirm acknowledgements: {error!r}"
            raise QueueError(problem) from error

    def _await(self, receipt: str) -> None:
        confirmed: str | None = ""
        while confirmed not in {receipt, None}:  # None: the connection has ended
            confirmed = self._receipts.get(timeout=_RECEIPT_S)
        if confirmed is None:
            raise stomp.exception.NotConnectedException

    def stored(self) -> int | None:
        """Return how many messages the queue has, with those that other readers hold, or readers that were killed.

        ``None`` if the broker does not say it, which takes Artemis's permission ``manage``; if there is a selector; or
        if Classic's browser has shown them.
        """
        is_artemis = self._server is Server.ARTEMIS
        if self._selector or (self._browses and not is_artemis):
            return None
        try:
            return self._management.count() if is_artemis else self._browsed()
        except QueueError:
            return None

    def shadowed(self) -> int:
        """Return how many messages are not delivered because a property of theirs is called like a header of STOMP."""
        selector = f"({self._selector}) AND ({_NAMED})" if self._selector else _NAMED
        if self._server is Server.OTHER:
            return 0
        try:
            return self._management.matching(selector) if self._server is Server.ARTEMIS else self._browsed(selector)
        except QueueError:
            return 0

    def _browsed(self, selector: str | None = None) -> int:
        """Let Classic show all its messages, or those that are selected."""
        with closing(QueueReader(self._address, self._name, selector, browse=True, every=True)) as browser:
            return sum(1 for _ in iter(lambda: browser.receive(_CONNECT_S), None))

    def close(self) -> None:
        """Disconnect; what is not acknowledged is in the queue again.

        The subscription ends first. Otherwise Artemis counts a delivery of the first of these messages, and takes a
        message out of its queue after the number of deliveries that it allows.
        """
        self._management.close()
        with suppress(OSError, stomp.exception.StompException):
            self._connection.unsubscribe(self._subscription)
            self._connection.disconnect()

    def _problem(self) -> str:
        while not self._events.empty():
            found = self._events.get()
            if isinstance(found, QueueError):
                return str(found)
        return ""

    # Called by the client, on its thread.

    def on_connected(self, frame: Any) -> None:  # noqa: ANN401 - the client has no types
        """Note which broker it is."""
        self._server = Server.of(str(frame.headers.get("server", "")))

    def on_message(self, frame: Any) -> None:  # noqa: ANN401 - as above
        """Keep a message."""
        ended = frame.headers.get("browser") == "end" and frame.headers.get("message-id") == _NO_MESSAGE
        body = frame.body if isinstance(frame.body, bytes) else str(frame.body or "").encode()
        self._events.put(None if ended else BrokerMessage(dict(frame.headers), body, self._queue))

    def on_receipt(self, frame: Any) -> None:  # noqa: ANN401 - as above
        """Note a confirmation."""
        self._receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:  # noqa: ANN401 - as above
        """Note what the broker complains about."""
        said = frame.headers.get("message") or frame.body
        self._events.put(QueueError(f"{self._address} refuses: {said!s:.300}"))

    def on_disconnected(self) -> None:
        """Note that the connection has ended."""
        self._events.put(QueueError(f"the connection to {self._address} has ended while {self._name} was read"))
        self._receipts.put(None)
