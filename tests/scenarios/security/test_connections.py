"""Each way to connect works, and a fault of TLS or of a login is named and is not reported as an absent broker."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.errors import TransportError
from tests.scenarios.cluster import Cluster
from tests.scenarios.connections import REAUTHENTICATE_MS, Connections, Kafka, connections
from tests.scenarios.running import Group, Role, exactly
from tests.scenarios.scraping import free_port, get
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_TLS = "no TLS connection to"
_LOGIN = "cannot log in at"
_CLOSES = "closes each connection at once"
_TRIES_S = 20.0
"""Time for a handshake to fail while all others do, too; a client that has seen no failure names an absent broker."""

_FAULTS = {
    "no client certificate": (_TLS, "ssl.certificate.location"),
    "unknown client certificate": (_TLS, "ssl.certificate.location"),
    "private CA missing": (_TLS, "ssl.ca.location"),
    "other host name": (_TLS, "names in the certificates"),
    "TLS to a plain listener": (_TLS, "PLAINTEXT"),
    "no TLS to a TLS listener": (_CLOSES, "security.protocol"),
    "wrong password": (_LOGIN, "sasl.password"),
    "mechanism that the broker does not have": (_LOGIN, "supported mechanisms: SCRAM-SHA-512"),
    "token server down": (_LOGIN, "token"),
    "token server refuses the client": (_LOGIN, "invalid_client"),
}
"""Words of the message of each fault."""


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connections]:
    """The broker of these tests."""
    with connections(tmp_path_factory.mktemp("connections")) as found:
        yield found


@pytest.fixture
def cluster(ways: Connections) -> Cluster:
    """That broker, instead of the one that all tests share."""
    return ways.cluster


def _set_password(cluster: Cluster, user: str, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    alteration = UserScramCredentialUpsertion(user, info, password.encode())
    admin = AdminClient({"bootstrap.servers": cluster.servers})
    for answer in admin.alter_user_scram_credentials([alteration]).values():
        answer.result(30)


def _faulty(ways: Connections, fault: str) -> Kafka:
    """Return client settings with one fault."""
    mutual = ways.mutual
    unproven = {name: mutual[name] for name in mutual if "certificate" not in name and "key" not in name}
    other_name = str(mutual["bootstrap.servers"]).replace("127.0.0.1", "localhost")
    scram = ways.scram | {"sasl.username": "joe", "sasl.password": "right"}
    broker_identity = str(mutual["ssl.ca.location"]).replace("authority", "broker")
    return {
        "no client certificate": unproven,
        "unknown client certificate": mutual
        | dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), broker_identity),
        "private CA missing": {name: mutual[name] for name in mutual if name != "ssl.ca.location"},
        "other host name": mutual | {"bootstrap.servers": other_name},
        "TLS to a plain listener": mutual | {"bootstrap.servers": ways.cluster.servers},
        "no TLS to a TLS listener": {"bootstrap.servers": mutual["bootstrap.servers"]},
        "wrong password": scram | {"sasl.password": "wrong"},
        "mechanism that the broker does not have": scram | {"sasl.mechanism": "PLAIN"},
        "token server down": ways.token | {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token"},
        "token server refuses the client": ways.token | {"sasl.oauthbearer.client.secret": "wrong"},
    }[fault]


@pytest.fixture(scope="module")
def errors(ways: Connections) -> dict[str, TransportError]:
    """The error of each fault. The client tries for as long as it may, so all try at the same time."""
    _set_password(ways.cluster, "joe", "right")

    def error_of(fault: str) -> TransportError:
        with pytest.raises(TransportError) as caught:
            ClusterAdmin(_faulty(ways, fault), timeout_s=_TRIES_S).topic_names()
        return caught.value

    with ThreadPoolExecutor(len(_FAULTS)) as threads:
        return dict(zip(_FAULTS, threads.map(error_of, _FAULTS), strict=True))


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_fault_is_named(errors: dict[str, TransportError], fault: str) -> None:
    """With the settings to check."""
    error = errors[fault]
    expected = exit_codes.FAILED if _FAULTS[fault][0] == _LOGIN else exit_codes.BROKER_UNAVAILABLE
    assert error.exit_code == expected, error
    for words in _FAULTS[fault]:
        assert words in str(error)
    assert "no Kafka broker answers" not in str(error)


@pytest.mark.long
@pytest.mark.parametrize("way", ["mutual", "token"])
def test_a_group_works(group: Group, ways: Connections, way: str) -> None:
    """With a certificate, and with tokens."""
    group.prepare()
    group.configure(kafka=getattr(ways, way))
    group.worker()
    group.scheduler()
    group.send([["ok"], ["raise", "ok"]] * 5)
    until(lambda: group.outputs() == exactly(range(10)), "all records are handled")
    group.stop()


@pytest.mark.long
@pytest.mark.parametrize(("mode", "repair"), [("transacted", "new file"), ("auto", "old password")])
def test_a_password_is_changed_under_a_running_group(group: Group, ways: Connections, mode: str, repair: str) -> None:
    """The refused login is named in log and readiness. Nothing is lost or doubled, and no process is started again."""
    _set_password(ways.cluster, group.name, "first")
    secret = group.folder / "password"
    secret.write_text("first\n")
    in_file = repair == "new file"
    login = {"sasl.password.file": str(secret)} if in_file else {"sasl.password": "first"}
    group.prepare(mode=mode)
    group.configure(kafka=ways.scram | {"sasl.username": group.name} | login)
    ports: dict[Role, int] = {"worker": free_port(), "scheduler": free_port()}
    processes = [
        group.start(role, f"{role}-1", f"metrics.port={port}", "metrics.host=127.0.0.1") for role, port in ports.items()
    ]
    group.send([["raise", "ok"], ["reject"]] * 5)
    until(lambda: group.outputs() == exactly(range(0, 10, 2)), "the first records are handled")

    _set_password(ways.cluster, group.name, "second")
    group.send([["raise", "ok"], ["reject"]] * 5, first=10)
    for role, port in ports.items():
        until(lambda: _LOGIN in get(port, "/readyz")[1], f"the {role} names the login")  # noqa: B023 - called immediately
        status, body = get(port, "/readyz")
        assert status == 503
        for words in (f"user {group.name} with SCRAM-SHA-512", str(secret) if in_file else "sasl.password"):
            assert words in body
        assert get(port, "/healthz")[0] == 200
    if in_file:
        secret.write_text("second\n")
    else:
        _set_password(ways.cluster, group.name, "first")
    group.settle()
    assert group.outputs() == exactly(range(0, 20, 2))
    assert group.dead() == exactly(range(1, 20, 2))
    group.send([["raise", "ok"]] * 5, first=20)
    group.settle()
    assert group.outputs() == exactly([*range(0, 20, 2), *range(20, 25)])
    for role, port in ports.items():
        until(lambda: get(port, "/readyz")[0] == 200, f"the {role} is ready again")  # noqa: B023
    group.stop()
    for process in processes:
        assert f"as user {group.name} with SCRAM-SHA-512" in process.log
        assert "no Kafka broker answers" not in process.log


@pytest.mark.long
def test_connections_outlive_a_login(group: Group, ways: Connections) -> None:
    """The broker asks for a new login every few seconds, and no record notices."""
    _set_password(ways.cluster, group.name, "secret")
    group.prepare()
    group.configure(kafka=ways.scram | {"sasl.username": group.name, "sasl.password": "secret"})
    processes = [group.worker(), group.scheduler()]
    group.send([["raise", "ok"]] * 5)
    until(lambda: group.outputs() == exactly(range(5)), "the first records are handled")
    time.sleep(1.5 * REAUTHENTICATE_MS / 1000)
    group.send([["raise", "ok"]] * 5, first=5)
    until(lambda: group.outputs() == exactly(range(10)), "they are handled after a new login, too")
    group.stop()
    assert not any("trying again" in process.log for process in processes)
