"""Waiting for an admin client's answers: bounded, passing errors repeated, final ones in plain words."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from transport.admin_errors import AdminError, ClientSettingsError, NotAuthorisedError
from transport.client_config import Config
from transport.client_log import client_log
from transport.errors import BrokerUnavailableError

admin_log = client_log.getChild("admin")
# A failed connection is told once, in our error; who wants each attempt sets up logging.
admin_log.addHandler(logging.NullHandler())
admin_log.propagate = False  # what matters of it is in the errors

_T = TypeVar("_T")
_K = TypeVar("_K")

_UNREACHABLE = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 - the client's own names
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
    }
)
_FORBIDDEN = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_PASSING = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # metadata may lag behind the creation of a topic
    }
)
_PAUSE_S = 0.2


class AdminCalls:
    """One admin client. Not thread-safe."""

    def __init__(self, config: Config, *, timeout_s: float) -> None:
        """Open the client; nothing is sent yet.

        Raises:
            ClientSettingsError: the client refuses its settings.
        """
        self.servers = str(config.get("bootstrap.servers", config.get("metadata.broker.list", "")))
        self.timeout_s = timeout_s
        self._troubles: list[KafkaError] = []
        settings: dict[str, Any] = {**config, "error_cb": self._troubles.append}
        try:
            self.client = AdminClient(settings, logger=admin_log)
        except (KafkaException, TypeError, ValueError) as error:
            raise ClientSettingsError(text_of(error)) from None

    def metadata(self) -> ClusterMetadata:
        """All topics and brokers.

        Raises:
            BrokerUnavailableError: no broker answered in time.
            NotAuthorisedError: the credentials are refused.
        """
        try:
            return self.client.list_topics(timeout=self.timeout_s)
        except KafkaException as error:
            self.client.poll(0)
            raise told("list the topics", error.args[0], self.servers, self._troubles) from None

    def each(self, operation: str, ask: Callable[[], Mapping[_K, Future[_T]]]) -> dict[_K, _T]:
        """Every answer of one request, asked again while errors are passing ones.

        Args:
            operation: what is tried, for messages.
            ask: sends the request; must be repeatable.

        Raises:
            BrokerUnavailableError: no answer in time.
            NotAuthorisedError: the user may not.
            AdminError: the cluster refuses it.
        """
        return self.repeated(operation, lambda: {key: future.result(self.timeout_s) for key, future in ask().items()})

    def repeated(self, operation: str, ask: Callable[[], _T], troubles: Sequence[KafkaError] | None = None) -> _T:
        """One answer, asked for again while errors are passing ones.

        Args:
            operation: what is tried, for messages.
            ask: asks and waits; must be repeatable.
            troubles: what another client than ours tells meanwhile.

        Raises:
            BrokerUnavailableError, NotAuthorisedError, AdminError: as for :meth:`each`.
        """
        deadline = time.monotonic() + self.timeout_s
        pause = threading.Event()
        while True:
            try:
                return ask()
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.code() not in _PASSING or time.monotonic() > deadline:
                    told_meanwhile = self._troubles if troubles is None else troubles
                    raise told(operation, cause, self.servers, told_meanwhile) from None
            except TimeoutError:
                raise BrokerUnavailableError(self.servers, f"no answer in {self.timeout_s:g} s") from None
            pause.wait(_PAUSE_S)


def told(
    operation: str, error: KafkaError, servers: str, troubles: Sequence[KafkaError]
) -> AdminError | BrokerUnavailableError:
    """A final error as one of ours.

    Args:
        operation: what was tried.
        error: what it ended in.
        servers: the brokers that were asked.
        troubles: what the client told about its connections meanwhile; the cause is often only there.
    """
    refused = next((trouble for trouble in troubles if trouble.code() in _FORBIDDEN), None)
    if refused is not None:
        return NotAuthorisedError(operation, refused.str())
    if error.code() in _UNREACHABLE:
        first = next((each for each in troubles if each.code() != KafkaError._ALL_BROKERS_DOWN), None)  # noqa: SLF001
        return BrokerUnavailableError(servers, error.str() if first is None else first.str())
    return refusal(operation, error)


def refusal(operation: str, error: KafkaError) -> AdminError:
    """A broker's answer as an error of ours."""
    kind = NotAuthorisedError if error.code() in _FORBIDDEN else AdminError
    return kind(operation, error.str())


def text_of(error: Exception) -> str:
    """A client's exception as one line."""
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
