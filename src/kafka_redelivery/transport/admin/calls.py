"""Requests of an admin client: with a time limit, repeated after transient errors, other errors in our classes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from kafka_redelivery.transport.admin.errors import AdminError, ClientSettingsError, LoginError, NotAuthorisedError
from kafka_redelivery.transport.client_config import Config, servers_of
from kafka_redelivery.transport.client_log import LastFailure
from kafka_redelivery.transport.errors import BrokerUnavailableError, ConnectionClosedError, TlsError
from kafka_redelivery.transport.kafka_errors import NO_LOGIN, is_transient, message_of
from kafka_redelivery.transport.opening import open_admin

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
_NOT_AUTHORISED = NO_LOGIN | frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_OLD_LEADER = frozenset({KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH})
"""A broker has started again. The client repeats a request with what it knew of the leaders, so it is replaced."""

_TLS = ("SSL handshake failed", ":SSL routines:")
"""Parts of messages of the client and of its TLS library."""

_CLOSED = "in state APIVERSION_QUERY"
"""Part of a message of the client: the connection exists, and the first request has no answer."""

_RETRY_INTERVAL_S = 0.2


class AdminCalls:
    """One admin client. Not thread-safe."""

    def __init__(self, config: Config, *, timeout_s: float) -> None:
        """Create the client, which connects with the first request.

        Raises:
            ClientSettingsError: the client refuses its settings.
        """
        self._config = config
        self.servers = servers_of(config)
        self.timeout_s = timeout_s
        self._client_errors: list[KafkaError] = []
        self._failure = LastFailure()
        self._connected = False
        try:
            self.client = self._open()
        except (KafkaException, TypeError, ValueError) as error:
            raise ClientSettingsError(message_of(error)) from None

    def connected(self, operation: str) -> AdminClient:
        """Return the client when it is connected; ask it for what the leaders of partitions have to answer.

        Such a request looks up the leaders first. librdkafka 2.16 then waits for 1 or 3 s in a tenth of cases if no
        broker is connected yet. It does not if another request has connected it.

        Raises:
            BrokerUnavailableError, NotAuthorisedError, AdminError: as :meth:`each`.
        """
        if not self._connected:
            limit_s = self.timeout_s
            self.repeated(operation, lambda: self.client.describe_cluster(request_timeout=limit_s).result(limit_s))
            self._connected = True
        return self.client

    def _open(self) -> AdminClient:
        return open_admin(self._config, self._failure.logger, self._client_errors.append)

    def metadata(self) -> ClusterMetadata:
        """Return all topics and brokers.

        Raises:
            BrokerUnavailableError: no broker answered in time.
            NotAuthorisedError: the cluster refuses the credentials.
        """
        try:
            return self.client.list_topics(timeout=self.timeout_s)
        except KafkaException as error:
            self.client.poll(0)
            found = _final_error("list the topics", error.args[0], self._config, self._client_errors)
            if type(found) is BrokerUnavailableError and _CLOSED in self._failure.text:
                found = ConnectionClosedError(self.servers, self._failure.text)
            raise found from None

    def each(
        self,
        operation: str,
        ask: Callable[[], Mapping[_K, Future[_T]]],
        right: str = "",
        passed_on: Collection[int] = (),
    ) -> dict[_K, _T]:
        """Send a request and return all its answers; repeat it while one of them is a transient error.

        Args:
            operation: names the request in messages, as in "create topic orders".
            ask: sends the request; it is safe to repeat.
            right: names the right that the request needs, as in "Create on topic orders".
            passed_on: as :meth:`repeated`.

        Raises:
            BrokerUnavailableError: no broker answered in time.
            NotAuthorisedError: the user may not do it.
            AdminError: the cluster refuses it for another reason.
        """

        def results() -> dict[_K, _T]:
            return {key: future.result(self.timeout_s) for key, future in ask().items()}

        return self.repeated(operation, results, right=right, passed_on=passed_on)

    def repeated(
        self,
        operation: str,
        ask: Callable[[], _T],
        client_errors: Sequence[KafkaError] | None = None,
        right: str = "",
        passed_on: Collection[int] = (),
    ) -> _T:
        """Call ``ask`` until it ends without a transient error.

        Args:
            operation: names the request in messages.
            ask: sends the request and waits for its answer; it is safe to repeat.
            client_errors: what the client reports about its connections, if ``ask`` uses another client than this one.
            right: names the right that the request needs.
            passed_on: codes of errors that are raised at once, as :class:`KafkaException`.

        Raises:
            BrokerUnavailableError, NotAuthorisedError, AdminError: as :meth:`each`.
        """
        deadline = time.monotonic() + self.timeout_s
        pause = threading.Event()
        while True:
            try:
                answer = ask()
                self._client_errors.clear()  # they are not the cause of what fails later
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.code() in passed_on:
                    raise
                if not is_transient(cause) or time.monotonic() > deadline:
                    raise self._final_error(operation, cause, client_errors, right) from None
                if cause.code() in _OLD_LEADER:
                    self.client, self._connected = self._open(), False
            except TimeoutError:
                raise self._final_error(operation, _late(self.timeout_s), client_errors, right) from None
            else:
                return answer
            pause.wait(_RETRY_INTERVAL_S)

    def _final_error(
        self, operation: str, error: KafkaError, client_errors: Sequence[KafkaError] | None, right: str
    ) -> AdminError | BrokerUnavailableError:
        if client_errors is None:
            self.client.poll(0)  # what it reports about its connections
            client_errors = self._client_errors
        return _final_error(operation, error, self._config, client_errors, right)


def answers_of(futures: Mapping[_K, Future[_T]], within_s: float) -> tuple[dict[_K, _T], dict[_K, KafkaError]]:
    """Return the answers of a request for several things, and the errors of those that have failed or came too late."""
    answers: dict[_K, _T] = {}
    errors: dict[_K, KafkaError] = {}
    deadline = time.monotonic() + within_s
    for key, future in futures.items():
        try:
            answers[key] = future.result(max(0.0, deadline - time.monotonic()))
        except KafkaException as error:
            errors[key] = error.args[0]
        except TimeoutError:
            errors[key] = _late(within_s)
    return answers, errors


def _late(within_s: float) -> KafkaError:
    return KafkaError(KafkaError._TIMED_OUT, f"no answer in {within_s:g} s")  # noqa: SLF001 - the client's own name


def _final_error(
    operation: str, error: KafkaError, config: Config, client_errors: Sequence[KafkaError], right: str = ""
) -> AdminError | BrokerUnavailableError:
    """Convert an error that is not repeated. Often only the client's connection errors contain its cause."""
    refused = next((each for each in (error, *client_errors) if each.code() in NO_LOGIN), None)
    if refused is not None:
        return LoginError(operation, config, refused.str())
    refused = next((each for each in client_errors if each.code() in _NOT_AUTHORISED), None)
    if refused is not None:
        return NotAuthorisedError(operation, refused.str())
    if error.code() in _UNREACHABLE:
        servers = servers_of(config)
        tls = next((each for each in (error, *client_errors) if _is_tls(each)), None)
        if tls is not None:
            return TlsError(servers, tls.str())
        no_cause = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - the client's own name
        first = next((each for each in client_errors if each.code() != no_cause), None)
        return BrokerUnavailableError(servers, error.str() if first is None else first.str())
    return admin_error(operation, error, right)


def _is_tls(error: KafkaError) -> bool:
    """Whether TLS failed. A broker that refuses the client's certificate says so after the handshake only."""
    return error.code() == KafkaError._SSL or any(part in error.str() for part in _TLS)  # noqa: SLF001


def admin_error(operation: str, error: KafkaError, right: str = "") -> AdminError:
    """Convert a broker's refusal; ``right`` is what to grant if it is that of a right."""
    if error.code() in _NOT_AUTHORISED:
        return NotAuthorisedError(operation, error.str(), right)
    return AdminError(operation, error.str())
