"""Follows the login of a running client: names a refusal, and notices when the brokers accept it again."""

from __future__ import annotations

import logging
import threading
from time import monotonic

from confluent_kafka import KafkaError

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.errors import NotAuthorisedError, login_problem
from kafka_redelivery.transport.client_config import Config, identity_config, login_of
from kafka_redelivery.transport.clients.outage import Report
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.kafka_errors import NO_LOGIN
from kafka_redelivery.transport.opening import renew_passwords

_log = logging.getLogger(__name__)

_RENEW_EVERY_S = 30.0
_TRY_EVERY_S = 5.0
_ANSWER_S = 5.0
_LOG_EVERY_S = 60.0
_SUSPECT_EVERY_S = 30.0
_CLIENT = "login"


class LoginWatch:
    """Watches the login of one consumer, which stands for all clients of its process.

    A client repeats a refused login by itself, but does not say when it succeeds. So after a refusal another client
    with the same settings logs in every five seconds, with the password that its file has then.
    """

    def __init__(self, config: Config, report: Report) -> None:
        """Try nothing before :meth:`on_error` or :meth:`on_wait` is called.

        Args:
            config: the settings of the consumer.
            report: receives the refusal, and its end.
        """
        self._config = identity_config(config)
        self._report = report
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._renew_at_s = monotonic() + _RENEW_EVERY_S
        self._log_at_s = self._suspect_at_s = 0.0

    @property
    def trying(self) -> bool:
        """Whether a login was refused, and none has succeeded since."""
        return self._thread is not None

    def on_error(self, error: KafkaError) -> None:
        """Take what the client reports about a connection. Only a refused login matters here."""
        if error.code() in NO_LOGIN and not self.trying:
            self._refused(login_problem(self._config, error.str()))
            self._begin(refused=True)

    def on_wait(self, client: str, problem: str | None, *, call: bool = False) -> None:
        """See :class:`Report`. Passes the report on, and finds out whether a refused login is the cause of the wait.

        A client reports a refusal only while it is polled, which it is not while its process repeats a request.
        """
        self._report(client, problem, call=call)
        if problem is not None and not call and not self.trying and monotonic() >= self._suspect_at_s:
            self._begin(refused=False)

    def poll(self) -> None:
        """Give the open clients the passwords that their files have by now, at most every 30 s. Does not wait."""
        if monotonic() >= self._renew_at_s:
            self._renew()

    def close(self) -> None:
        """Give up."""
        self._closed.set()

    def _begin(self, *, refused: bool) -> None:
        if not self._closed.is_set():
            self._thread = threading.Thread(target=self._try, args=(refused,), name="login", daemon=True)
            self._thread.start()

    def _renew(self) -> None:
        self._renew_at_s = monotonic() + _RENEW_EVERY_S
        if renewed := renew_passwords():
            _log.info("the password has changed; %d clients use the new one at their next login", renewed)

    def _refused(self, problem: str) -> None:
        self._report(_CLIENT, problem)
        if monotonic() >= self._log_at_s:
            self._log_at_s = monotonic() + _LOG_EVERY_S
            _log.error("%s; this process waits, and goes on when the brokers accept the login", problem)

    def _try(self, refused: bool) -> None:  # noqa: FBT001 - an argument of a thread
        """Log in until that succeeds; give up after the first attempt if nothing was refused."""
        while not self._closed.wait(_TRY_EVERY_S if refused else 0.0):
            self._renew()
            try:
                AdminCalls(self._config, timeout_s=_ANSWER_S).connected("log in")
            except TransportError as error:
                refused = refused or (isinstance(error, NotAuthorisedError) and error.login)
                if not refused:
                    break
                self._refused(str(error))
            else:
                if refused:
                    _log.info("the brokers accept the login of %s again", login_of(self._config))
                    self._report(_CLIENT, None)
                    self._log_at_s = 0.0
                break
        self._suspect_at_s = monotonic() + _SUSPECT_EVERY_S
        self._thread = None
