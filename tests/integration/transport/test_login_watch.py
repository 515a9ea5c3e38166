"""A refused login of a running client is reported until the brokers accept it."""

import logging

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.errors import NotAuthorisedError, login_problem
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients import login_watch
from kafka_redelivery.transport.clients.login_watch import LoginWatch
from kafka_redelivery.transport.errors import BrokerUnavailableError
from tests.scenarios.waiting import until
from tests.unit.transport.clients.test_outage import Reports

REFUSED = KafkaError(KafkaError._AUTHENTICATION, "invalid credentials")
LOGIN: Config = {"sasl.username": "billing", "sasl.mechanism": "SCRAM-SHA-512", "log_level": 0}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try often."""
    monkeypatch.setattr(login_watch, "_TRY_EVERY_S", 0.05)
    monkeypatch.setattr(login_watch, "_ANSWER_S", 2.0)


def test_a_refusal_names_user_mechanism_and_fix_until_the_login_succeeds(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker asks for no login, so it accepts every one."""
    caplog.set_level(logging.INFO)
    reports = Reports()
    watch = LoginWatch(LOGIN | {"bootstrap.servers": kafka.bootstrap_servers}, reports)
    watch.on_error(REFUSED)
    client, problem = reports.received[0]
    assert problem is not None
    for words in ("cannot log in at", "user billing with SCRAM-SHA-512", "invalid credentials", "check sasl.mechanism"):
        assert words in problem
    assert problem in caplog.text
    until(lambda: (client, None) in reports.received, "the login succeeds")
    assert "accept the login of user billing with SCRAM-SHA-512 again" in caplog.text
    until(lambda: not watch.trying, "it no longer tries")
    watch.on_error(REFUSED)
    assert reports.received[-1] == (client, problem)
    watch.close()


def test_what_stands_in_the_way_is_reported_meanwhile() -> None:
    """Here, that there is no broker any more."""
    reports = Reports()
    watch = LoginWatch(LOGIN | {"bootstrap.servers": "127.0.0.1:1"}, reports)
    watch.on_error(REFUSED)
    until(lambda: "no Kafka broker answers at 127.0.0.1:1" in str(reports.received[-1][1]), "the absence is reported")
    watch.close()


def test_a_client_that_is_not_polled_is_suspected(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait whose cause is another one is only passed on, and not examined again at once."""
    caplog.set_level(logging.INFO)
    reports = Reports()
    watch = LoginWatch(LOGIN | {"bootstrap.servers": kafka.bootstrap_servers}, reports)
    watch.on_wait("requests", "no answer")
    until(lambda: not watch.trying, "the login is examined")
    watch.on_wait("requests", "no answer yet")
    assert not watch.trying
    watch.on_wait("requests", None)
    assert reports.received == [("requests", "no answer"), ("requests", "no answer yet"), ("requests", None)]
    assert "accept the login" not in caplog.text

    monkeypatch.setattr(login_watch, "AdminCalls", Refusing)
    refused = LoginWatch(LOGIN, reports)
    refused.on_wait("requests", "no answer")
    until(lambda: "as user billing" in str(reports.received[-1][1]), "the refusal is reported")
    refused.close()


class Refusing:
    """A client whose login is always refused."""

    def __init__(self, config: Config, **_: object) -> None:
        self._config = config

    def connected(self, operation: str) -> None:
        """Refuse."""
        raise NotAuthorisedError(operation, login_problem(self._config, "invalid credentials"), login=True)


class WithoutLists(AdminCalls):
    """A client of a cluster with so many topics that a list of them never arrives."""

    def metadata(self) -> ClusterMetadata:
        """Fail."""
        raise BrokerUnavailableError("too many topics")


def test_a_login_lists_no_topics(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of all topics costs as much as the cluster is large, and here it would be repeated while Kafka is busy."""
    monkeypatch.setattr(login_watch, "AdminCalls", WithoutLists)
    reports = Reports()
    watch = LoginWatch(LOGIN | {"bootstrap.servers": kafka.bootstrap_servers}, reports)
    watch.on_error(REFUSED)
    until(lambda: reports.received[-1] == ("login", None), "the login succeeds")
    watch.close()


def test_other_errors_are_no_refusals() -> None:
    """The client recovers from them by itself."""
    reports = Reports()
    watch = LoginWatch(LOGIN, reports)
    watch.on_error(KafkaError(KafkaError._TRANSPORT))
    assert not reports.received
    assert not watch.trying
