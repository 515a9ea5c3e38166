"""Processes log in with tokens of a function of the user, one each; without a token they wait, and nothing is lost."""

import os
from collections.abc import Iterator

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.authenticated import AuthenticatedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.consoles import Browser, console
from tests.scenarios.running import COMMAND, Group, Process, Role, exactly
from tests.scenarios.scraping import free_port, get
from tests.scenarios.tokens import SECRET, calls, set_life, token_kafka, with_tokens
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker() -> Iterator[AuthenticatedKafka]:
    """The broker of these tests."""
    with token_kafka() as found:
        yield found


@pytest.fixture
def cluster(broker: AuthenticatedKafka) -> Cluster:
    """That broker, instead of the one that all tests share."""
    return broker.cluster


@pytest.fixture
def tokens(group: Group, broker: AuthenticatedKafka) -> Group:
    """A group whose processes log in with tokens."""
    group.prepare()
    group.configure(kafka=with_tokens(group, broker))
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
    assert set(calls(group).values()) == {1}
    assert len(calls(group)) == 5


@pytest.mark.long
def test_a_token_server_that_is_away(tokens: Group) -> None:
    """Its end and its return are in the log, readiness names the cause, and each record is handled once."""
    group = tokens
    set_life(group, 12)
    ports: dict[Role, int] = {"worker": free_port(), "scheduler": free_port()}
    processes = [
        group.start(role, f"{role}-1", f"metrics.port={port}", "metrics.host=127.0.0.1") for role, port in ports.items()
    ]
    group.send([["raise", "ok"], ["reject"]] * 5)
    until(lambda: group.outputs() == exactly(range(0, 10, 2)), "the first records are handled")
    set_life(group, 0)
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
    set_life(group, 600)
    group.settle()
    assert group.outputs() == exactly(range(0, 20, 2))
    assert group.dead() == exactly(range(1, 20, 2))
    for role, port in ports.items():
        until(lambda: get(port, "/readyz")[0] == 200, f"the {role} is ready again")  # noqa: B023
    group.stop()
    for process in processes:
        assert "is not renewed" in process.log
        assert "gives tokens again" in process.log
    assert not any(SECRET in process.log for process in group.processes)
