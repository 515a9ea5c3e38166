"""`redelivery topology plan --offline`: for those who may not create topics themselves."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import exit_codes
from cli.main import app

TEXT = "group: billing\nkafka: {bootstrap.servers: 'nowhere:1'}\nsources: [{topic: orders}, {topic: bills}]\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A configuration with two sources."""
    path = tmp_path / "redelivery.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def plan(file: str, *arguments: str) -> Result:
    """The command on that file."""
    return CliRunner().invoke(app, ["topology", "plan", "--config", file, *arguments])


def test_everything_is_in_the_json(file: str) -> None:
    """Names, partitions, replicas, properties and first offsets, without asking a broker."""
    result = plan(file, "--offline", "--json", "--partitions", "orders=8", "--partitions", "bills=2")
    assert (result.exit_code, result.stderr) == (exit_codes.OK, "")
    document = json.loads(result.stdout)
    assert {topic["name"]: topic["partitions"] for topic in document["topics"]} == {
        "billing.retry.1s": 8,
        "billing.ready.orders": 8,
        "billing.ready.bills": 2,
        "DLQ.orders": 8,
        "DLQ.bills": 2,
    }
    assert {topic["replicationFactor"] for topic in document["topics"]} == {3}
    assert {topic["configs"]["min.insync.replicas"] for topic in document["topics"]} == {"2"}
    assert [(each["group"], each["topic"]) for each in document["firstOffsets"]] == [
        ("billing.scheduler", "billing.retry.1s"),
        ("billing", "billing.ready.orders"),
        ("billing", "billing.ready.bills"),
    ]


def test_replicas_may_be_given(file: str) -> None:
    """For clusters that are not of the usual size."""
    sources = ("--partitions", "orders=1", "--partitions", "bills=1")
    result = plan(file, "--offline", "--json", *sources, "--replicas", "1", "--min-insync", "1")
    configs = json.loads(result.stdout)["topics"][0]
    assert (configs["replicationFactor"], configs["configs"]["min.insync.replicas"]) == (1, "1")


def test_the_table_names_every_topic(file: str) -> None:
    """Readable without JSON, too; no line is broken where there is no terminal."""
    result = plan(file, "--offline", "--partitions", "orders=8", "--partitions", "bills=2")
    assert result.exit_code == exit_codes.OK
    for name in ("billing.retry.1s", "billing.ready.orders", "billing.ready.bills", "DLQ.orders", "DLQ.bills"):
        assert f"+  {name} " in result.stdout
    assert "group billing.scheduler, partitions 0-7: 0" in result.stdout
    lines = result.stdout.splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert [line[0] for line in lines[:-1]] == ["+"] * (len(lines) - 1)


def test_a_plan_less_safe_than_its_source_is_refused(file: str) -> None:
    """The plan is shown, and the exit code says that it will not do."""
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
        (["--offline", "--partitions", "typo=3"], "is no source"),
        (["--partitions", "orders=3"], "is for --offline"),
    ],
)
def test_wrong_options(file: str, arguments: list[str], told: str) -> None:
    """A wrong command line is exit code 2 and says what is missing."""
    result = plan(file, *arguments)
    assert result.exit_code == exit_codes.USAGE
    assert told in " ".join(result.stderr.replace("│", " ").split())
