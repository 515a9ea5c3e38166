"""A secret of the configuration is in nothing that a job on Spark prints or writes, whether it succeeds or fails."""

import subprocess
import sys

import pytest

from kafka_redelivery.topology import exit_codes
from tests.pipeline.streaming import LONG_S, prepare
from tests.scenarios.canary import CANARY, REGISTRY, SPARK
from tests.scenarios.cluster import Sent
from tests.scenarios.running import COMMAND, Group

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_KAFKA = {
    "sasl.mechanism": "PLAIN",
    "sasl.username": "billing",
    "sasl.password": CANARY,
    "producer.sasl.password": CANARY,
    "spark.ssl.keystore.key": CANARY,
    "spark.ssl.key.password": CANARY,
}
"""Secrets that both clients know. They do not use them while ``security.protocol`` is ``PLAINTEXT``."""

_MASTER = ["--spark", "spark.master=local[1]", "--spark", "spark.sql.shuffle.partitions=1"]


def _run(group: Group, *words: str) -> tuple[int, str]:
    whole = [sys.executable, *COMMAND, "--debug", "pipeline", *words, "--config", str(group.file)]
    done = subprocess.run(
        whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * LONG_S, check=False, cwd=group.folder
    )
    return done.returncode, done.stdout.decode(errors="replace")


@pytest.mark.long
def test_a_canary_in_every_job(group: Group) -> None:
    """Also in those that say why a record cannot be decoded, or that a registry with a secret address is down."""
    prepare(
        group,
        kafka=_KAFKA,
        sources=[{"topic": group.source, "value": {"format": "avro", "registry": REGISTRY}}],
        pipeline={"checkpoint": "checkpoint", "spark": SPARK | {"spark.master": "local[1]"}},
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
        journal=True,
    )
    group.cluster.produce(group.source, [Sent(b"no avro %d" % n, b"k") for n in range(4)])
    table = str(group.folder / "table")
    jobs = (
        ("stream", "--available-now"),
        ("archive", "--output", table, *_MASTER),
        ("report", "--archive", table, "--output", str(group.folder / "report"), *_MASTER),
        ("audit", *_MASTER),
        ("archive", "--output", "nowhere://table", *_MASTER),
    )
    said = {each: _run(group, *each) for each in jobs}
    group.cluster.produce(group.source, [Sent(b"\x00\x00\x00\x00\x07%d" % n, b"k") for n in range(4)])
    waits = _run(group, "stream", "--available-now", "--until-settled", "30s")
    said["waits",] = waits
    assert waits[0] == exit_codes.UNSETTLED, waits
    assert "uncounted: schema source registry http://********@127.0.0.1" in waits[1]
    assert [code for code, _ in said.values()][:3] == [0, 0, 0], said
    assert said[jobs[-1]][0] != 0
    assert CANARY not in str(said)
    assert len(group.cluster.read(group.dead_letters)) == 4
    topics = sorted(topic for topic in group.cluster.topics() if group.name in topic)
    assert CANARY not in str(group.cluster.read(*topics))
    files = [each for each in group.folder.rglob("*") if each.is_file()]
    assert any("checkpoint" in str(each) for each in files)
    assert any("table" in str(each) for each in files)
    assert [each for each in files if CANARY.encode() in each.read_bytes()] == [group.file]
