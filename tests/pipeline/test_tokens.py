"""A query logs in with tokens: its Python processes with those of the function, Spark with a login handler in Java."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from tests.pipeline.streaming import LONG_S, prepare
from tests.scenarios.authenticated import AuthenticatedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.deliveries import LOG
from tests.scenarios.handlers import OUTPUT
from tests.scenarios.running import COMMAND, Group, exactly
from tests.scenarios.tokens import LOGIN_MODULE, calls, token_kafka, with_tokens

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def broker() -> Iterator[AuthenticatedKafka]:
    """The broker of this test."""
    with token_kafka() as found:
        yield found


@pytest.fixture
def cluster(broker: AuthenticatedKafka) -> Cluster:
    """That broker, instead of the one that all tests share."""
    return broker.cluster


def _query(group: Group) -> tuple[int, str]:
    """Handle what is there."""
    words = ["pipeline", "stream", "--available-now", "--config", str(group.file)]
    done = subprocess.run(
        [sys.executable, *COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=2 * LONG_S,
        check=False,
        env={**os.environ, OUTPUT: group.output, LOG: str(group.deliveries.path)},
        cwd=Path(__file__).parents[2],
    )
    return done.returncode, done.stdout.decode(errors="replace")


def test_a_query_handles_each_record(group: Group, broker: AuthenticatedKafka) -> None:
    """The function is found beside the configuration in each of its processes; without the handler it is refused."""
    prepare(group, pipeline={"checkpoint": "checkpoint", "spark": {"spark.master": "local[1]"}})
    kafka = with_tokens(group, broker)
    group.configure(kafka=kafka)
    group.send([["ok"], ["reject"]] * 3)
    code, said = _query(group)
    assert code != exit_codes.OK
    assert "spark.sasl.login.callback.handler.class" in said
    module = f'{LOGIN_MODULE} required unsecuredLoginStringClaim_sub="billing";'
    group.configure(kafka=kafka | {"spark.sasl.jaas.config": module})
    code, said = _query(group)
    assert code == exit_codes.OK, said
    assert group.outputs() == exactly({0, 2, 4})
    assert group.dead() == exactly({1, 3, 5})
    assert set(calls(group).values()) == {1}
    assert len(calls(group)) >= 3  # the driver, the tasks, the process of the handler
