"""Opens clients of Kafka, and gives them what they log in with.

A password in a file is read again while they are open, so that it can be changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata

from kafka_redelivery.topology.config.rules.clients import OAUTH_CB, PASSWORD_FILE
from kafka_redelivery.transport.certificates import unusable_files
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.client_log import admin_log, client_log
from kafka_redelivery.transport.errors import ClientSettingsError
from kafka_redelivery.transport.kafka_errors import is_late, settings_refused
from kafka_redelivery.transport.tokens import token_source

_log = logging.getLogger(__name__)

OnError = Callable[[KafkaError], object]
"""Receives what a client reports about its connections; called by the thread that polls the client."""


class _Consumer(Consumer):
    """A consumer that can be a key of a weak dictionary, and takes a new password with its next request.

    Only the thread that polls it may set the password: in another one, the call waits while it is polled.
    """

    new_login: tuple[str, str] | None = None
    """User and password to use from the next request on."""

    def poll(self, *arguments: Any, **options: Any) -> Message | None:  # noqa: ANN401 - as of the client
        self._log_in_anew()
        return super().poll(*arguments, **options)

    def list_topics(self, *arguments: Any, **options: Any) -> ClusterMetadata:  # noqa: ANN401
        self._log_in_anew()
        topics: ClusterMetadata = super().list_topics(*arguments, **options)
        return topics

    def committed(self, *arguments: Any, **options: Any) -> list[TopicPartition]:  # noqa: ANN401
        self._log_in_anew()
        return super().committed(*arguments, **options)

    def _log_in_anew(self) -> None:
        login, self.new_login = self.new_login, None
        if login is not None:
            self.set_sasl_credentials(*login)


class _Producer(Producer):
    """A producer that can be a key of a weak dictionary."""


_Client = TypeVar("_Client", Consumer, Producer, AdminClient)


@dataclass(slots=True)
class _Login:
    user: str
    file: str
    password: str = field(repr=False)


_logins: WeakKeyDictionary[Consumer | Producer | AdminClient, _Login] = WeakKeyDictionary()
"""The open clients whose password is in a file."""

_lock = threading.Lock()


def open_consumer(config: Config, logger: logging.Logger = client_log, on_error: OnError | None = None) -> Consumer:
    """Open a consumer, which connects when it is used.

    Raises:
        ClientSettingsError: a file of a password, a certificate or a key cannot be used, the function of ``oauth_cb``
            cannot be imported, or the client refuses its settings.
    """
    return _open(_Consumer if PASSWORD_FILE in config else Consumer, config, logger, on_error)


def open_producer(config: Config, logger: logging.Logger = client_log) -> Producer:
    """Open a producer; as :func:`open_consumer`."""
    return _open(_Producer if PASSWORD_FILE in config else Producer, config, logger, None)


def open_admin(config: Config, logger: logging.Logger = client_log, on_error: OnError | None = None) -> AdminClient:
    """Open an admin client; as :func:`open_consumer`."""
    return _open(AdminClient, config, logger, on_error)


class LastingAdmin:
    """An admin client that is asked again and again while a process runs. It is opened with the first question.

    A client without topics learns the cluster's controller only when it connects, and sends most requests to that node,
    also while the node is gone. So after a question without an answer in time another client asks.
    """

    def __init__(self, config: Config) -> None:
        """Keep the settings."""
        self._config = config
        self._client: AdminClient | None = None
        self._late = False

    def client(self) -> AdminClient:
        """Return the client for the next question; the first one raises as :func:`open_consumer`."""
        if self._client is None:
            self._client = open_admin(self._config, admin_log)
        elif self._late:
            with suppress(ClientSettingsError):  # otherwise the same client asks again
                self._client = open_admin(self._config, admin_log)
        return self._client

    def answered(self, error: BaseException | None = None) -> None:
        """Note whether the last question has failed."""
        self._late = isinstance(error, KafkaException) and is_late(error.args[0])

    def close(self) -> None:
        """Release the client; the next question opens another one."""
        self._client, self._late = None, False


def _open(kind: type[_Client], config: Config, logger: logging.Logger, on_error: OnError | None) -> _Client:
    try:
        return _made(kind, config, logger, on_error)
    except (KafkaException, TypeError, ValueError) as error:
        raise settings_refused(error) from None


def _made(kind: type[_Client], config: Config, logger: logging.Logger, on_error: OnError | None) -> _Client:
    settings: dict[str, Any] = dict(config)
    if unusable := next(unusable_files(settings), None):
        raise ClientSettingsError(f"kafka.{unusable.setting} {unusable.problem}; {unusable.fix}")
    file = settings.pop(PASSWORD_FILE, None)
    source = token_source(settings)
    settings.pop(OAUTH_CB, None)
    if source is not None:
        settings[OAUTH_CB] = source
    if on_error is not None:
        settings["error_cb"] = on_error
    if file is None:
        return kind(settings, logger=logger)
    settings["sasl.password"] = password = read_password(str(file))
    client = kind(settings, logger=logger)
    with _lock:
        _logins[client] = _Login(str(settings.get("sasl.username", "")), str(file), password)
    return client


def read_password(file: str) -> str:
    """Return the text of a file without the line break at its end.

    Raises:
        ClientSettingsError: it cannot be read.
    """
    try:
        return password_in(Path(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ClientSettingsError(
            f"kafka.{PASSWORD_FILE} names {file}, which cannot be read: {error}; name a file that holds only the "
            "password, and that this process may read"
        ) from None


def password_in(file: Path) -> str:
    """Return the text of a file without the line break at its end."""
    return file.read_text(encoding="utf-8").rstrip("\r\n")


def renew_passwords() -> int:
    """Give every open client the password that its file has now, and return how many got a new one.

    A client uses it at its next login; its connections stay. A file that cannot be read changes nothing.
    """
    with _lock:
        logins = list(_logins.items())
    renewed = 0
    for client, login in logins:
        try:
            password = read_password(login.file)
        except ClientSettingsError as error:
            _log.warning("the password stays as it is: %s", error)
            continue
        if password == login.password:
            continue
        login.password = password
        if isinstance(client, _Consumer):
            client.new_login = login.user, password
        else:
            client.set_sasl_credentials(login.user, password)
        renewed += 1
    return renewed
