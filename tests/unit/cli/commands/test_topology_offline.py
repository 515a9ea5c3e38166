"""`redelivery topology plan --offline`, for users who may not create topics."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology import exit_codes

TEXT = "group: billing\nkafka: {bootstrap.servers: 'nowhere:1'}\nsources: [{topic: orders}, {topic: bills}]\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A configuration with two sources."""
    path = tmp_path / "redelivery.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def plan(file: str, *arguments: str) -> Result:
    """Run the command with this configuration."""
    return CliRunner().invoke(app, ["topology", "plan", "--config", file, *arguments])


def test_plan_as_json(file: str) -> None:
    """Names, partitions, replicas, configurations and first offsets, without a broker."""
    result = plan(file, "--offline", "--json", "--partitions", "orders=8", "--partitions", "bills=2")
    assert (result.exit_code, result.stderr) == (exit_codes.OK, "")
    document = json.loads(result.stdout)
    assert document["ok"] is True
    assert {topic["name"]: topic["partitions"] for topic in document["topics"]} == {
        "billing.retry.1s": 8,
        "billing.ready.orders": 8,
        "billing.ready.bills": 2,
        "DLQ.orders": 8,
        "DLQ.bills": 2,
        "billing.control": 1,
        "billing.dlq.jobs": 1,
        "billing.dlq.actions": 8,
        "billing.dlq.parked": 8,
    }
    assert {topic["replicationFactor"] for topic in document["topics"]} == {3}
    assert {topic["configs"]["min.insync.replicas"] for topic in document["topics"]} == {"2"}
    assert [(each["group"], each["topic"]) for each in document["firstOffsets"]] == [
        ("billing.scheduler", "billing.retry.1s"),
        ("billing", "billing.ready.orders"),
        ("billing", "billing.ready.bills"),
    ]


def test_replicas_option(file: str) -> None:
    """For clusters with another number of brokers."""
    sources = ("--partitions", "orders=1", "--partitions", "bills=1")
    result = plan(file, "--offline", "--json", *sources, "--replicas", "1", "--min-insync", "1")
    configs = json.loads(result.stdout)["topics"][0]
    assert (configs["replicationFactor"], configs["configs"]["min.insync.replicas"]) == (1, "1")


def test_plan_as_text(file: str) -> None:
    """It lists every topic; without a terminal no line is wrapped."""
    result = plan(file, "--offline", "--partitions", "orders=8", "--partitions", "bills=2")
    assert result.exit_code == exit_codes.OK
    for name in ("billing.retry.1s", "billing.ready.orders", "billing.ready.bills", "DLQ.orders", "DLQ.bills"):
        assert f"+  {name} " in result.stdout
    assert "group billing.scheduler, partitions 0-7: 0" in result.stdout
    lines = result.stdout.splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert [line[0] for line in lines[:-1]] == ["+"] * (len(lines) - 1)


def test_plan_less_safe_than_its_source_is_refused(file: str) -> None:
    """The plan is printed, and the exit code is that of a refused topology."""
    text = TEXT + "topics: {replicationFactor: 1}\n"
    Path(file).write_text(text, encoding="utf-8")
    result = plan(file, "--offline", "--partitions", "orders=8", "--partitions", "bills=2")
    assert result.exit_code == exit_codes.TOPOLOGY_REFUSED
    assert "set topics.replicationFactor: 3, or remove it" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--offline"], "--partitions orders=NUMBER"),
        (["--offline", "--partitions", "orders=1"], "--partitions bills=NUMBER"),
        (["--offline", "--partitions", "orders=0"], "is not TOPIC=NUMBER"),
        (["--offline", "--partitions", "orders"], "is not TOPIC=NUMBER"),
        (["--offline", "--partitions", "typo=3"], "is not a source"),
        (["--partitions", "orders=3"], "needs --offline"),
    ],
)
def test_usage_errors(file: str, arguments: list[str], told: str) -> None:
    """Exit code 2; the message says what is wrong."""
    result = plan(file, *arguments)
    assert result.exit_code == exit_codes.USAGE
    assert told in " ".join(result.stderr.replace("│", " ").split())
