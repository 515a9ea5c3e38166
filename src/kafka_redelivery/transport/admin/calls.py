"""Requests of an admin client: with a time limit, repeated after transient errors, other errors in our classes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigEntry, ConfigResource, DescribeClusterResult

from kafka_redelivery.transport.admin.errors import AdminError, NotAuthorisedError, login_problem
from kafka_redelivery.transport.client_config import Config, servers_of
from kafka_redelivery.transport.client_log import LastFailure
from kafka_redelivery.transport.errors import BrokerUnavailableError
from kafka_redelivery.transport.kafka_errors import NO_LOGIN, is_transient
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
_ELECTION_S = 3.0
"""How long who can do without a partition waits for its leader, because brokers may be electing one or starting."""

_LOOK_S = 0.1

DESCRIBE_CLUSTER = "describe the cluster"


class AdminCalls:
    """One admin client. Not thread-safe."""

    def __init__(self, config: Config, *, timeout_s: float) -> None:
        """Create the client, which connects with the first request.

        Raises:
            ClientSettingsError: as :func:`open_admin`.
        """
        self._config = config
        self.timeout_s = timeout_s
        self._client_errors: list[KafkaError] = []
        self._failure = LastFailure()
        self._connected = False
        self.client = self._open()

    def connected(self, operation: str) -> AdminClient:
        """Return the client when it is connected; ask it for what the leaders of partitions have to answer.

        Such a request looks up the leaders first. librdkafka 2.16 then waits for 1 or 3 s in a tenth of cases if no
        broker is connected yet. It does not if another request has connected it.

        Raises:
            BrokerUnavailableError, NotAuthorisedError, AdminError: as :meth:`each`.
        """
        if not self._connected:
            self.cluster(operation)
        return self.client

    def cluster(self, operation: str = DESCRIBE_CLUSTER) -> DescribeClusterResult:
        """Return the id and the brokers of the cluster. Errors are those of :meth:`each`."""
        limit_s = self.timeout_s
        described: DescribeClusterResult = self.repeated(
            operation, lambda: self.answer(self.client.describe_cluster(request_timeout=limit_s))
        )
        self._connected = True
        return described

    def config(self, resource: ConfigResource, right: str) -> dict[str, str]:
        """Return the configuration of a broker or a group. Errors, and ``right``, are those of :meth:`each`."""
        operation = f"read the configuration of {resource.restype.name.lower()} {resource.name}"
        return values_of(self.each(operation, lambda: self.client.describe_configs([resource]), right)[resource])

    def broker_config(self, cluster: DescribeClusterResult) -> dict[str, str]:
        """Return the configuration of a broker. Errors are those of :meth:`each`."""
        first = min(node.id for node in cluster.nodes)
        return self.config(ConfigResource(ConfigResource.Type.BROKER, str(first)), "DescribeConfigs on the cluster")

    def answer(self, future: Future[_T], within_s: float | None = None) -> _T:
        """Return the answer to a request, within the time limit of each request or another one.

        Raises:
            KafkaException: the answer is an error.
            TimeoutError: there is none in time, or none because the brokers refuse the login, which a client tries
                again and again.
        """
        deadline = time.monotonic() + (self.timeout_s if within_s is None else within_s)
        known = len(self._client_errors)
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                return future.result(min(_LOOK_S, left_s))
            except TimeoutError:
                self.client.poll(0)  # what it reports about its connections
                if not left_s or any(each.code() in NO_LOGIN for each in self._client_errors[known:]):
                    raise

    def _open(self) -> AdminClient:
        return open_admin(self._config, self._failure.logger, self._client_errors.append)

    def metadata(self) -> ClusterMetadata:
        """Return all topics and brokers.

        Raises:
            BrokerUnavailableError: no broker answered in time.
            NotAuthorisedError: the cluster refuses the credentials.
        """
        operation = "list the topics"
        client = self.connected(operation)  # a refused login ends this request at once, and not the next one
        try:
            return client.list_topics(timeout=self.timeout_s)
        except KafkaException as error:
            self.client.poll(0)
            failure = self._failure.text
            raise _final_error(operation, error.args[0], self._config, self._client_errors, failure=failure) from None

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
            return {key: self.answer(future) for key, future in ask().items()}

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
        failure = "" if self._connected else self._failure.text
        return _final_error(operation, error, self._config, client_errors, right, failure)


def with_leaders(ask: Callable[[], _T], lacks: Callable[[_T], object]) -> _T:
    """Return what ``ask`` returns, and for some seconds ask again as long as partitions in it lack a leader."""
    deadline, pause = time.monotonic() + _ELECTION_S, threading.Event()
    while lacks(found := ask()) and time.monotonic() < deadline:
        pause.wait(_RETRY_INTERVAL_S)
    return found


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


def values_of(entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Return a configuration without what has no value."""
    return {name: entry.value for name, entry in entries.items() if entry.value is not None}


def _late(within_s: float) -> KafkaError:
    return KafkaError(KafkaError._TIMED_OUT, f"no answer in {within_s:g} s")  # noqa: SLF001 - the client's own name


def _final_error(
    operation: str,
    error: KafkaError,
    config: Config,
    client_errors: Sequence[KafkaError],
    right: str = "",
    failure: str = "",
) -> AdminError | BrokerUnavailableError:
    """Convert an error that is not repeated. Often only the client's connection errors contain its cause.

    ``failure`` is what the client has logged last.
    """
    refused = next((each for each in (error, *client_errors) if each.code() in NO_LOGIN), None)
    if refused is not None:
        return NotAuthorisedError(operation, login_problem(config, refused.str()), login=True)
    refused = next((each for each in client_errors if each.code() in _NOT_AUTHORISED), None)
    if refused is not None:
        return NotAuthorisedError(operation, refused.str())
    if error.code() in _UNREACHABLE:
        return _unreachable(servers_of(config), error, client_errors, failure)
    return admin_error(operation, error, right)


def _unreachable(
    servers: str, error: KafkaError, client_errors: Sequence[KafkaError], failure: str
) -> BrokerUnavailableError:
    tls = next((each for each in (error, *client_errors) if _is_tls(each)), None)
    if tls is not None:
        return BrokerUnavailableError(
            f"no TLS connection to {servers}: {tls.str()}; under kafka, check ssl.ca.location (who signed the brokers' "
            "certificates), ssl.certificate.location, ssl.key.location, and that bootstrap.servers has the names in "
            "the certificates"
        )
    if _CLOSED in failure:
        return BrokerUnavailableError(
            f"{servers} closes each connection at once: {failure}; under kafka, check security.protocol, because the "
            "listener may expect TLS or a login, and that bootstrap.servers has the port of a Kafka listener"
        )
    no_cause = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - the client's own name
    cause = next((each for each in client_errors if each.code() != no_cause), error)
    return BrokerUnavailableError(
        f"no Kafka broker answers at {servers} ({cause.str()}); start it, or correct bootstrap.servers or the security "
        "settings under kafka (redelivery broker runs a Kafka to try things on)"
    )


def _is_tls(error: KafkaError) -> bool:
    """Whether TLS failed. A broker that refuses the client's certificate says so after the handshake only."""
    return error.code() == KafkaError._SSL or any(part in error.str() for part in _TLS)  # noqa: SLF001


def admin_error(operation: str, error: KafkaError, right: str = "") -> AdminError:
    """Convert a broker's refusal; ``right`` is what to grant if it is that of a right."""
    if error.code() in _NOT_AUTHORISED:
        return NotAuthorisedError(operation, error.str(), right)
    return AdminError(operation, error.str())
