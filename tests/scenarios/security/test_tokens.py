"""Processes log in with tokens of a function of the user, one each; without a token they wait, and nothing is lost."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.authenticated import AuthenticatedKafka, authenticated_kafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.consoles import Browser, console
from tests.scenarios.running import COMMAND, Group, Process, Role, exactly
from tests.scenarios.scraping import free_port, get
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_LISTENER = "listener.name.named.oauthbearer"
_SECRET = "s3cr3t-0f-a-t0ken-server"  # noqa: S105 - of a test
_MODULE = f'''
import base64, json, os, time
from pathlib import Path

HERE = Path(__file__).parent

def token(config):
    """Return a token without a signature, which the broker of the test accepts, while the server is up."""
    with (HERE / "calls").open("a") as calls:
        calls.write(f"{{os.getpid()}}\\n")
    life = int((HERE / "life").read_text())
    if not life:
        raise ConnectionError("the token server is away: client_secret={_SECRET}")
    now = int(time.time())
    parts = [{{"alg": "none"}}, {{"sub": "billing", "iat": now, "exp": now + life}}]
    encoded = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
    return ".".join(encoded) + ".", now + life
'''


@pytest.fixture(scope="module")
def broker() -> Iterator[AuthenticatedKafka]:
    """A broker on which clients log in with a token, every four seconds again."""
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "super.users": "User:ANONYMOUS;User:billing",
        f"{_LISTENER}.sasl.jaas.config": f'{_OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="b";',
        f"{_LISTENER}.sasl.server.callback.handler.class": (
            f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
        ),
        f"{_LISTENER}.connections.max.reauth.ms": "4000",
    }
    with authenticated_kafka("SASL_PLAINTEXT", properties) as found:
        yield found


@pytest.fixture
def cluster(broker: AuthenticatedKafka) -> Cluster:
    """That broker, instead of the one that all tests share."""
    return broker.cluster


@pytest.fixture
def tokens(group: Group, broker: AuthenticatedKafka) -> Group:
    """A group whose processes log in with tokens of a module beside its configuration."""
    (group.folder / "shop_login.py").write_text(_MODULE)
    (group.folder / "life").write_text("600")
    group.prepare()
    group.configure(
        kafka={
            "bootstrap.servers": broker.kafka["bootstrap.servers"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": "shop_login:token",
        }
    )
    return group


def _command(group: Group, text: str) -> Process:
    """Run a command to its end."""
    command = [*COMMAND, *text.split(), "--config", str(group.file)]
    name = text.replace(" ", "-")
    process = Process(name, command, os.environ, group.folder / f"{name}.log", warm=True)
    group.processes.append(process)
    process.wait(60)
    return process


def test_each_process_gets_one_token(tokens: Group) -> None:
    """A worker, a scheduler, a command, the console: whatever number of clients it opens."""
    group = tokens
    group.worker()
    group.scheduler()
    group.send([["ok"], ["raise", "ok"], ["reject"]] * 3)
    until(lambda: group.outputs() == exactly({0, 1, 3, 4, 6, 7}), "all records are handled")
    until(lambda: group.dead() == exactly({2, 5, 8}), "the others are dead")
    listed = _command(group, "dlq list --json")
    assert '"letters": 3' in listed.log
    assert f'"group": "{group.name}"' in _command(group, "status --json").log
    with console(group) as opened, Browser(opened) as browser:
        until(lambda: group.source in browser.get("/topology"), "the console knows the topology")
    group.stop()
    calls = Counter((group.folder / "calls").read_text().split())
    assert set(calls.values()) == {1}
    assert len(calls) == 5


@pytest.mark.long
def test_a_token_server_that_is_away(tokens: Group) -> None:
    """Its end and its return are in the log, readiness names the cause, and each record is handled once."""
    group = tokens
    (group.folder / "life").write_text("12")
    ports: dict[Role, int] = {"worker": free_port(), "scheduler": free_port()}
    processes = [
        group.start(role, f"{role}-1", f"metrics.port={port}", "metrics.host=127.0.0.1") for role, port in ports.items()
    ]
    group.send([["raise", "ok"], ["reject"]] * 5)
    until(lambda: group.outputs() == exactly(range(0, 10, 2)), "the first records are handled")
    (group.folder / "life").write_text("0")
    for role, port in ports.items():
        until(lambda: "there is no token" in get(port, "/readyz")[1], f"the {role} names it")  # noqa: B023
        assert get(port, "/healthz")[0] == 200
    group.send([["raise", "ok"], ["reject"]] * 5, first=10)
    refused = _command(group, "status")
    assert refused.wait(1) == exit_codes.FAILED
    assert (
        "there is no token: kafka.oauth_cb shop_login:token has raised ConnectionError: the token server" in refused.log
    )
    late = group.worker("late")
    assert late.wait(60) == exit_codes.FAILED
    (group.folder / "life").write_text("600")
    group.settle()
    assert group.outputs() == exactly(range(0, 20, 2))
    assert group.dead() == exactly(range(1, 20, 2))
    for role, port in ports.items():
        until(lambda: get(port, "/readyz")[0] == 200, f"the {role} is ready again")  # noqa: B023
    group.stop()
    for process in processes:
        assert "is not renewed" in process.log
        assert "gives tokens again" in process.log
    assert not any(_SECRET in process.log for process in group.processes)
