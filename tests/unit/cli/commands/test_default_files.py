"""The configuration files that come with brokers, or that their tools write, are imported as they are.

``defaults`` has Classic's ``conf/activemq.xml``, and ``etc/broker.xml`` as ``artemis create`` writes it.
"""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology import exit_codes

DEFAULTS = sorted((Path(__file__).parent / "defaults").glob("*.xml"))
VERSIONS = [path.stem.partition("-")[2] for path in DEFAULTS]
STOMP = {"5.0.0", "5.15.16", "5.18.6", "6.2.5"}
"""Versions of Classic whose file has a STOMP connector; all of Artemis have one."""


def run(*arguments: str) -> Result:
    """Run the command."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == exit_codes.OK, result.stderr
    return result


@pytest.mark.parametrize("path", DEFAULTS, ids=lambda path: path.stem)
def test_a_default_file_is_imported(path: Path) -> None:
    """Its version is right for it; what is left out is named, and nothing is called unknown."""
    result = run("import", str(path), "--broker-version", path.stem.partition("-")[2])
    assert "does not load" not in result.stderr
    assert "do not know" not in result.stderr
    left_out = ("acceptors",) if path.stem.startswith("artemis") else ("<transportConnectors>", "dataDirectory")
    for name in left_out:
        assert name in result.stderr
    if path.stem.startswith("artemis"):
        assert "dead-letter-address: DLQ" in result.stdout


@pytest.mark.parametrize("path", DEFAULTS, ids=lambda path: path.stem)
def test_a_default_file_is_planned(path: Path) -> None:
    """The report has the deliveries of the defaults, the queues of dead letters, and the connector for it."""
    version = path.stem.partition("-")[2]
    report = json.loads(
        run("migrate", "plan", str(path), "--destination", "orders", "--broker-version", version, "--json").stdout
    )
    (service,) = report["services"]
    is_artemis = path.stem.startswith("artemis")
    assert service["destinations"][0]["max_deliveries"] == (10 if is_artemis else 7)
    assert report["letters"]["queues"] == (["DLQ", "ExpiryQueue"] if is_artemis else ["ActiveMQ.DLQ"])
    shown = run("migrate", "plan", str(path), "--destination", "orders", "--broker-version", version).stdout
    assert ("has no STOMP connector" not in shown) == (is_artemis or version in STOMP)


def test_there_are_files_of_both_brokers() -> None:
    """Of the first versions and of the last."""
    assert {"5.0.0", "5.18.6", "6.3.1"} <= set(VERSIONS)
