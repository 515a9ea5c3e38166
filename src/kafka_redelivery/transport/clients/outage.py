"""Waiting until Kafka answers again: with growing pauses, and without an end in a worker or scheduler that runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException

from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.transport.errors import ClientSettingsError, ReaderError, grant
from kafka_redelivery.transport.kafka_errors import is_denied, is_transient_for_consumer

_log = logging.getLogger(__name__)

RETRY_TIMEOUT_S = 60.0
"""How long clients repeat a request if their process does not wait without limit."""

BACKOFF = Backoff(0.2, 5.0)

_Answer = TypeVar("_Answer")


class Report(Protocol):
    """Receives what a client waits for, so that the probes of its process can say it."""

    def __call__(self, client: str, problem: str | None, *, call: bool = False) -> None:
        """Report a wait, at each failed attempt, or its end.

        Args:
            client: a name for what waits.
            problem: what it waits for; ``None`` = it no longer waits.
            call: whether a call begins that returns when Kafka answers. It is a wait only if it takes long.
        """
        ...


def ignore(client: str, problem: str | None, *, call: bool = False) -> None:
    """A :class:`Report` that is not passed on."""


class Outage:
    """Counts the failed attempts of one client, and pauses between them. Used by one thread at a time."""

    def __init__(self, client: str, report: Report | None = None) -> None:
        """Begin without a failed attempt.

        Args:
            client: a name for the report.
            report: receives what the client waits for, so that the probes can say it; the wait has no limit. With
                ``None`` it ends after :data:`RETRY_TIMEOUT_S`.
        """
        self._client = client
        self._report = report or ignore
        self._limit_s = RETRY_TIMEOUT_S if report is None else None
        self._since_s: float | None = None
        self._backoff = BACKOFF

    def wait(self, problem: str) -> bool:
        """Report a failed attempt and pause before the next one; each pause is twice as long as the one before.

        Returns:
            whether to try again; ``False`` without a pause once the limit has passed.
        """
        now_s = monotonic()
        if self._since_s is None:
            self._since_s = now_s
        if self._limit_s is not None and now_s - self._since_s > self._limit_s:
            self.over()
            return False
        self._report(self._client, problem)
        self._backoff = self._backoff.failed(now_s)
        _log.warning("trying again in %.1f s: %s", self._backoff.pause_s, problem)
        Event().wait(self._backoff.pause_s)
        return True

    def over(self) -> None:
        """Note that an attempt succeeded."""
        if self._since_s is not None:
            self._since_s, self._backoff = None, BACKOFF
            self._report(self._client, None)

    def repeat(self, ask: Callable[[], _Answer], problem: str, right: str = "") -> _Answer:
        """Call ``ask``, which sends a request of a consumer, until the broker answers.

        Without a limit it also waits for a missing right, and for a file of a password, certificate or key if ``ask``
        opens a client.

        Args:
            ask: sends the request.
            problem: what cannot be done without an answer.
            right: the right that the request needs, such as ``Describe on topic orders``.

        Raises:
            ReaderError: the broker refuses, or the limit has passed.
            ClientSettingsError: there is a limit, and no client can be opened.
        """
        while True:
            try:
                answer = ask()
            except ClientSettingsError as error:
                if self._limit_s is not None:
                    raise
                self.wait(f"{problem}: {error}")
            except KafkaException as exception:
                cause: KafkaError = exception.args[0]
                denied = is_denied(cause)
                message = f"{problem}: {cause.str()}{grant(right) if denied and right else ''}"
                endures = is_transient_for_consumer(cause) or (denied and self._limit_s is None)
                if not (endures and self.wait(message)):
                    raise ReaderError(message) from exception
            else:
                self.over()
                return answer
