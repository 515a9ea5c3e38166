"""`redelivery explain` and `redelivery import`, without a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology import exit_codes

BROKER_XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><address-settings>
  <address-setting match="#"><redelivery-delay>${delay:250}</redelivery-delay>
    <max-size-bytes>5</max-size-bytes></address-setting>
</address-settings></core></configuration>"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own, without variables of ``redelivery``."""
    monkeypatch.chdir(tmp_path)
    for name in ("REDELIVERY_CONFIG", "REDELIVERY_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str, given: str | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, arguments, input=given)


def explained(*destinations: str) -> list[dict[str, Any]]:
    """Return what the command says about destinations."""
    document = json.loads(run("explain", "--json", *destinations).stdout)
    assert document["ok"] is True
    found: list[dict[str, Any]] = document["destinations"]
    return found


class TestImport:
    def test_yaml_on_standard_output_and_notes_on_standard_error(self) -> None:
        """The redirected output is a usable configuration."""
        Path("broker.xml").write_text(BROKER_XML, encoding="utf-8")
        result = run("import", "broker.xml")
        assert result.exit_code == exit_codes.OK
        assert result.stderr.startswith("note: broker.xml:3: max-size-bytes=5 is not carried over: ")
        Path("redelivery.yaml").write_text(result.stdout, encoding="utf-8")
        told = explained("orders")
        assert (told[0]["policy"]["redelivery-delay"], told[0]["dialect"]) == (250, "artemis")

    def test_property_replaces_a_placeholder(self) -> None:
        """A property without a value is a usage error."""
        assert "redelivery-delay: 7" in run("import", "-", "--property", "delay=7", given=BROKER_XML).stdout
        assert run("import", "-", "--property", "delay", given=BROKER_XML).exit_code == exit_codes.USAGE

    def test_the_environment_is_read_on_request_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Otherwise the file of another could print a secret."""
        monkeypatch.setenv("delay", "9")
        assert "redelivery-delay: 250" in run("import", "-", given=BROKER_XML).stdout
        assert "redelivery-delay: 9" in run("import", "-", "--environment", given=BROKER_XML).stdout

    def test_import_of_a_connection_uri(self) -> None:
        """Its password is not printed."""
        result = run("import", "failover:(tcp://a:1)?jms.redeliveryPolicy.maximumRedeliveries=4&jms.password=hunter2")
        assert "maximumRedeliveries: 4" in result.stdout
        assert "hunter2" not in result.stdout + result.stderr

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("no-such-file.xml", "there is no such file"),
            (".", "cannot be read"),
            ("tcp://a?jms.redeliveryPolicy.maximumRedeliveries=1&jms.nonsense=1", "cannot be set: nonsense"),
            ("tcp://a b", "is not a URI"),
            ("bad\0name", "cannot be read"),
        ],
    )
    def test_import_error_is_one_line(self, source: str, message: str) -> None:
        """Nothing on standard output, no traceback."""
        result = run("import", source)
        assert (result.exit_code, result.stdout) == (exit_codes.CONFIGURATION, "")
        assert message in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


CLASSIC = """\
activemq:
  policyEntries:
    - queue: ">"
      deadLetterStrategy: {individualDeadLetterStrategy: {queuePrefix: D., expiration: 60000}}
  redeliveryPolicy: {maximumRedeliveries: 2, useCollisionAvoidance: true}
  plugins: [{discardingDLQBrokerPlugin: {dropAll: false, dropOnly: drop}}]
"""


class TestExplain:
    def test_explanation_as_text(self) -> None:
        """Layer, pattern, delays with their ranges, tiers, dead-letter topic and expiration."""
        Path("redelivery.yaml").write_text(CLASSIC, encoding="utf-8")
        shown = run("explain", "orders.eu", "drop").stdout
        for part in (
            "classic, redeliveryPolicy",
            "queue:>",
            "850ms and 1150ms",
            "group.retry.1s",
            "to D.orders.eu, for 1m",
            "dropped and counted (dropOnly)",
        ):
            assert part in shown, part

    def test_explanation_as_json(self) -> None:
        """One object per destination in the given order, with the broker's attribute names."""
        Path("redelivery.yaml").write_text(CLASSIC, encoding="utf-8")
        told = explained("queue:a", "topic:b")
        assert [each["destination"] for each in told] == ["queue:a", "topic:b"]
        first, second = told
        assert first["matched"] == ["queue:>"]
        assert first["max_deliveries"] == 3
        assert first["delays_ms"] == [1000] * 12
        assert first["delay_ranges_ms"][:2] == [[1000, 1000], [850, 1150]]
        assert first["dead_letter_strategy"]["dead_letter_destination"] == "queue:D.a"
        assert first["dead_letter_topic"] == "D.a"
        assert first["dead_letter_strategy"]["accepts"]["nonpersistent"] is False
        assert (second["matched"], second["dead_letter_topic"]) == ([], "ActiveMQ.DLQ")

    def test_policy_entry_in_the_configuration(self) -> None:
        """For all sources, or for one."""
        own = "{topic: a, policy: {redeliveryPolicy: {maximumRedeliveries: -1}}}"
        Path("redelivery.yaml").write_text(f"group: g\nsources: [{own}, {{topic: b}}]\n", encoding="utf-8")
        told = explained("a", "b")
        assert [(each["layer"], each["max_deliveries"]) for each in told] == [
            ("sources.policy", -1),
            ("policyEntry", 7),
        ]
        assert told[1]["dead_letter_topic"] == "DLQ.b"

    def test_blocking_redelivery_waits_in_the_partition(self) -> None:
        """The record and those behind it keep their order."""
        text = "handler: {callable: 'a:b', nonBlockingRedelivery: false}\n"
        text += "policyEntry: {redeliveryPolicy: {maximumRedeliveries: 1}}\n"
        Path("redelivery.yaml").write_text(text, encoding="utf-8")
        assert "its partition" in run("explain", "orders").stdout
        told = explained("orders")
        assert (told[0]["tiers"], [each["tier"] for each in told[0]["attempts"]]) == ([], [None])

    def test_explain_prints_warnings(self) -> None:
        """Probable mistakes in the configuration."""
        Path("redelivery.yaml").write_text("activemq: {policyEntries: [{queue: a.*}, {queue: a.>}]}", encoding="utf-8")
        assert "from run to run" in run("explain", "a.b").stdout
        assert "from run to run" in explained("a.b")[0]["warnings"][0]["problem"]

    def test_explain_prints_faults(self) -> None:
        """As ``config check`` does."""
        Path("redelivery.yaml").write_text("artemis: {nonsense: 1}", encoding="utf-8")
        assert run("explain", "a").exit_code == exit_codes.CONFIGURATION
        assert run("explain", "a", "--config", "other.yaml").exit_code == exit_codes.CONFIGURATION

    def test_explain_refuses_an_empty_file(self) -> None:
        """A failed import leaves an empty file, which explains nothing."""
        Path("redelivery.yaml").write_text("\n", encoding="utf-8")
        result = run("explain", "a")
        assert (result.exit_code, result.stdout) == (exit_codes.CONFIGURATION, "")
        assert "redelivery.yaml: is empty; if redelivery import wrote it" in result.stderr

    def test_explain_refuses_an_empty_name(self) -> None:
        """An empty name is not a destination."""
        Path("redelivery.yaml").write_text(CLASSIC, encoding="utf-8")
        result = run("explain", " ")
        assert result.exit_code == exit_codes.FAILED
        assert "needs a name" in result.stderr


def test_config_check_prints_warnings() -> None:
    """A warning is not a fault: exit code 0."""
    text = "group: g\nkafka: {bootstrap.servers: x}\nsources: [{topic: a.b}]\n"
    Path("redelivery.yaml").write_text(
        text + "activemq: {policyEntries: [{queue: a.*}, {queue: a.>}]}", encoding="utf-8"
    )
    result = run("config", "check")
    assert result.exit_code == exit_codes.OK
    assert "from run to run" in result.stdout


class TestOddities:
    @pytest.mark.parametrize("config", ["policyEntry: {}", "artemis: {}", "activemq: {}"])
    @pytest.mark.parametrize("destination", ["", "queue:", "temp-topic:", "\ud800"])
    def test_explain_refuses_an_invalid_destination(self, config: str, destination: str) -> None:
        """With every dialect; the last one is how Python decodes bytes that are not UTF-8."""
        Path("redelivery.yaml").write_text(config, encoding="utf-8")
        result = run("explain", "--json", "--", destination)
        assert result.exit_code == exit_codes.FAILED
        assert "needs a name" in json.loads(result.stdout)["message"]

    def test_explain_warns_of_names_too_long_for_kafka(self) -> None:
        """The name of the destination, and that of its dead-letter topic."""
        Path("redelivery.yaml").write_text("policyEntry: {}", encoding="utf-8")
        told = explained("x" * 300, "x" * 248)
        assert [len(each["warnings"]) for each in told] == [2, 1]
        assert "300 characters" in told[0]["warnings"][0]["problem"]

    def test_connection_uri_can_be_longer_than_a_path(self) -> None:
        """The operating system refuses to look up a file with such a name."""
        hosts = ",".join(f"tcp:host{number}" for number in range(1000))
        result = run("import", f"failover:({hosts})?jms.redeliveryPolicy.maximumRedeliveries=4")
        assert result.exit_code == exit_codes.OK
        assert "maximumRedeliveries: 4" in result.stdout

    def test_message_is_one_line_of_bounded_length(self) -> None:
        """Whatever a hostile file contains."""
        Path("broker.xml").write_text(BROKER_XML.replace("${delay:250}", "9\n" * 100_000), encoding="utf-8")
        result = run("import", "broker.xml")
        assert result.exit_code == exit_codes.CONFIGURATION
        assert len(result.stderr) < 2000
        assert result.stderr.count("\n") == 1
