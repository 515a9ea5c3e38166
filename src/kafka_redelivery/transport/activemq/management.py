"""Asks an Artemis about one of its queues, over STOMP."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

import stomp

_ANSWER_S: Final = 30.0


class NotToldError(Exception):
    """The broker does not answer, or refuses to."""


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

    def count(self) -> int:
        """Return how many messages the queue has, with those that readers hold.

        Raises:
            NotToldError: the broker does not say it.
        """
        return int(self._asked(_AMQ_Attribute="messageCount"))

    def delivering(self) -> dict[str, Mapping[str, Any]]:
        """Return what the broker knows of each message that a reader holds, by the number of the message.

        Raises:
            NotToldError: the broker does not say it.
        """
        found = self._asked(_AMQ_OperationName="listDeliveringMessages")
        return {str(each["messageID"]): each for held in found.values() for each in held}

    def _asked(self, **question: str) -> Any:  # noqa: ANN401 - any JSON
        try:
            if self._connection is None:
                self._connection = self._connect(self)
                self._connection.subscribe(self._reply, "answers", ack="auto")
            headers = {"reply-to": self._reply, "_AMQ_ResourceName": f"queue.{self._name}", **question}
            self._connection.send("activemq.management", "[]", headers=headers)
            succeeded, answer = self._answers.get(timeout=_ANSWER_S)
        except queue.Empty:
            raise NotToldError(f"no answer within {_ANSWER_S:.0f} s") from None
        except (OSError, stomp.exception.StompException) as error:
            raise NotToldError(f"{type(error).__name__} {error}") from error
        if not succeeded:
            raise NotToldError(answer.decode(errors="replace")[:300])
        try:
            (found,) = json.loads(answer)
        except ValueError as error:
            raise NotToldError(f"an answer that is no JSON: {error}") from error
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
        self._answers.put((False, said.encode()))

    def on_disconnected(self) -> None:
        """Note that no answer will come."""
        self._answers.put((False, b"the connection has ended"))
