"""`redelivery migrate plan`: one report for a move, without a broker and without a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.main import app
from kafka_redelivery.cli.views.migration import drawn
from kafka_redelivery.topology import exit_codes

CLASSIC = """<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core"><destinationPolicy><policyMap><policyEntries>
<policyEntry queue="orders.&gt;" memoryLimit="1mb"><deadLetterStrategy>
<individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy></policyEntry>
<policyEntry queue="free"><deadLetterStrategy><discarding/></deadLetterStrategy></policyEntry>
</policyEntries></policyMap></destinationPolicy>
<destinations><queue physicalName="orders.eu"/><queue physicalName="orders.us"/><queue physicalName="bills"/>
</destinations>
<transportConnectors><transportConnector uri="tcp://0.0.0.0:61616"/>{}</transportConnectors></broker></beans>"""
ARTEMIS = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<acceptors><acceptor name="a">tcp://0.0.0.0:61616?tcpSendBufferSize=1;protocols={}</acceptor></acceptors>
<address-settings><address-setting match="#"><dead-letter-address>DLQ</dead-letter-address>
<redelivery-delay>1000</redelivery-delay><redelivery-delay-multiplier>2</redelivery-delay-multiplier>
<max-delivery-attempts>4</max-delivery-attempts><max-size-bytes>1</max-size-bytes></address-setting>
<address-setting match="a'b"><auto-create-dead-letter-resources>true</auto-create-dead-letter-resources>
</address-setting>
</address-settings></core></configuration>"""
STOMP = '<transportConnector uri="stomp+nio+ssl://0.0.0.0:61614?needClientAuth=true"/>'
BILLING = (
    "billing=failover:(tcp://a:61616)?jms.redeliveryPolicy.maximumRedeliveries=3"
    "&jms.redeliveryPolicy.useExponentialBackOff=true&jms.redeliveryPolicy.backOffMultiplier=2"
    "&jms.password=hunter2&jms.nonBlockingRedelivery=true"
)


def run(text: str, folder: Path, *arguments: str) -> Result:
    """Run the command with a broker's file."""
    name = "broker.xml" if "urn:activemq:core" in text else "activemq.xml"
    (folder / name).write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, ["migrate", "plan", str(folder), *arguments])


def planned(text: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """Return the report as JSON."""
    result = run(text, folder, *arguments, "--json")
    assert (result.exit_code, result.stderr) == (exit_codes.OK, "")
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["ok"] is True
    return document


def test_the_report_has_all_parts(tmp_path: Path) -> None:
    """Of a broker and a client: each part that an administrator needs, and no password."""
    shown = run(CLASSIC.format(STOMP), tmp_path, BILLING).stdout
    for part in (
        "# From ActiveMQ Classic to Kafka",
        "## Group `billing`",
        "| `orders.eu` | `orders.eu` | redeliveryPolicy, `queue:orders.>` | 4 | `DLQ.orders.eu` | `DLQ.orders.eu` |",
        "`orders.eu`, `orders.us`, `bills`:",
        "| `billing.retry.4s` | retry | 6 |",
        "- `bills`: a record that always fails is in `ActiveMQ.DLQ` after 4 deliveries, after 7s of delays.",
        "--allow-principal User:billing-import",
        "group: billing",
        "maximumRedeliveries: 3",
        "- activemq.xml:3: memoryLimit=1mb is not carried over",
        "The file has a STOMP connector: `stomp+ssl://HOST:61614`.",
        "redelivery import-letters stomp+ssl://USER@HOST:61614 --ca FILE --queue DLQ.orders.us --dry-run",
        "| a text with U+0000 | stays: STOMP ends it there |",
        "1. Save the configuration above",
    ):
        assert part in shown, part
    assert "hunter2" not in shown
    assert shown.endswith("\n")


def test_what_is_dropped_is_drawn_apart(tmp_path: Path) -> None:
    """Also if its delays are those of others."""
    shown = run(CLASSIC.format(STOMP), tmp_path, "--destination", "free", "--destination", "bills").stdout
    drawings = shown.partition("### Delays")[2].partition("###")[0]
    assert drawings.index("`free`:") < drawings.index("then dropped and counted") < drawings.index("`bills`:")
    assert drawings.endswith("then a dead letter\n```\n\n")


def test_the_report_as_json(tmp_path: Path) -> None:
    """Each client is a service with a configuration, topics and rights of its own."""
    document = planned(CLASSIC.format(STOMP), tmp_path, BILLING, "tcp://a:1?jms.redeliveryPolicy.maximumRedeliveries=0")
    billing, other = document["services"]
    assert [each["group"] for each in (billing, other)] == ["billing", "migrated-2"]
    assert [each["max_deliveries"] for each in billing["destinations"]] == [4, 4, 4]
    assert [each["max_deliveries"] for each in other["destinations"]] == [1, 1, 1]
    assert {each["delayMs"] for each in billing["topology"]["topics"]} >= {1000, 2000, 4000}
    assert {each["delayMs"] for each in other["topology"]["topics"]} == {None}
    assert {user["principal"] for user in billing["acls"]} >= {"User:billing-worker", "User:billing-import"}
    assert document["letters"]["queues"] == ["DLQ.orders.eu", "DLQ.orders.us", "ActiveMQ.DLQ"]
    taken = {each["message"]: each["taken"] for each in document["letters"]["messages"]}
    assert (taken["TextMessage"], taken["a message of AMQP"]) == (True, False)
    assert len(document["steps"]) > 5


def test_destinations_that_the_file_does_not_list(tmp_path: Path) -> None:
    """They are given, with their kind; without any the command says how."""
    document = planned(ARTEMIS.format("CORE"), tmp_path, "--destination", "orders", "--destination", "topic:news")
    assert [each["topic"] for each in document["services"][0]["destinations"]] == ["orders", "news"]
    result = run(ARTEMIS.format("CORE"), tmp_path)
    assert result.exit_code == exit_codes.USAGE
    assert "--destination" in result.stderr
    assert "DLQ.free" not in str(planned(CLASSIC.format(""), tmp_path, "--destination", "free")["letters"]["queues"])


def test_the_queues_of_expired_messages(tmp_path: Path) -> None:
    """They are imported, too; Artemis may make one for each address."""
    own = "<address-setting match='own'><auto-create-expiry-resources>true</auto-create-expiry-resources>"
    text = ARTEMIS.format("CORE").replace(
        "<redelivery-delay>", "<expiry-address>Old</expiry-address><redelivery-delay>"
    )
    text = text.replace("</address-settings>", f"{own}</address-setting></address-settings>")
    document = planned(text, tmp_path, "--destination", "orders", "--destination", "own")
    assert document["letters"]["queues"] == ["DLQ", "Old", "EXP.own"]


@pytest.mark.parametrize(
    ("protocols", "url"), [("CORE,STOMP", "stomp://USER@HOST:61616"), ("CORE,AMQP", "stomp://USER@HOST:61613")]
)
def test_the_connector_of_stomp(tmp_path: Path, protocols: str, url: str) -> None:
    """The acceptor that has it, or the one to add."""
    shown = run(ARTEMIS.format(protocols), tmp_path, "--destination", "a'b").stdout
    assert f"""import-letters {url} --queue 'DLQ.a'"'"'b' --dry-run""" in shown
    assert ("has no STOMP connector" in shown) == ("STOMP" not in protocols)


def test_a_client_of_artemis_keeps_its_own_policy(tmp_path: Path) -> None:
    """The configuration has the broker's settings; a note says so."""
    document = planned(ARTEMIS.format("CORE"), tmp_path, BILLING, "--destination", "orders")
    (service,) = document["services"]
    assert service["destinations"][0]["max_deliveries"] == 4
    assert "the client's redelivery policy is left out" in str(service["notes"])


def test_a_group_of_two_clients_is_refused(tmp_path: Path) -> None:
    """Also if one of the two has it by default."""
    for first in ("billing=tcp://a:1", "billing-2=tcp://a:1"):
        for second in ("tcp://b:1", first):
            result = run(CLASSIC.format(STOMP), tmp_path, first, second, "--group", "billing")
            again = first == second or first.startswith("billing-2")
            assert (result.exit_code == exit_codes.USAGE) == again, (first, second, result.stderr)


def test_a_uri_is_no_file(tmp_path: Path) -> None:
    """What it does not say may still be there. A client of another protocol is not called one of OpenWire."""
    words = ["migrate", "plan", "tcp://a:1", "--destination", "orders"]
    assert "**No STOMP connector is known**" in CliRunner().invoke(app, words).stdout
    client = "amqp://a:1?jms.redeliveryPolicy.maxRedeliveries=2"
    (service,) = planned(ARTEMIS.format("CORE"), tmp_path, client, "--destination", "orders")["services"]
    assert "the client redelivers by its own policy" in str(service["notes"])
    assert "OpenWire" not in str(service["notes"])


def test_the_version_is_named(tmp_path: Path) -> None:
    """And decides what the notes say."""
    arguments = ("--destination", "orders", "--broker-version", "2.40.0")
    assert planned(ARTEMIS.format("CORE"), tmp_path, *arguments)["broker"] == "Artemis 2.40"


def explained(delays: list[int], limit: int, dead: str | None = "DLQ") -> dict[str, Any]:
    """Return what the drawing needs of an explanation."""
    attempts = [
        {"redelivery": number, "delay_ms": delay, "delay_range_ms": [delay, delay], "tier": None}
        for number, delay in enumerate(delays, start=1)
    ]
    return {"attempts": attempts, "max_deliveries": limit, "dead_letter_topic": dead}


class TestDrawing:
    """When the deliveries of a record come that always fails."""

    def test_bars_are_as_long_as_the_waits(self) -> None:
        """And begin where the one before them ends."""
        _, first, *rest = drawn(explained([1000, 3000], 3))
        assert first.split() == ["1", "0ms"]
        assert [line[38:] for line in rest[:2]] == ["=" * 10, " " * 10 + "=" * 30]
        assert [line.split()[:3] for line in rest[:2]] == [["2", "1s", "1s"], ["3", "3s", "4s"]]
        assert rest[2:] == ["then a dead letter"]

    def test_ends(self) -> None:
        """Dropped, without a limit, more than are shown, and without any delivery."""
        assert list(drawn(explained([0], 2, None)))[-1] == "then dropped and counted"
        assert list(drawn(explained([5], -1)))[-2:] == ["     ...", "and so on, without a limit"]
        assert list(drawn(explained([5], 9)))[-2:] == ["     ...", "then a dead letter"]
        assert [line.split() for line in drawn(explained([], 0))][1:] == [["then", "a", "dead", "letter"]]

    def test_a_wait_that_is_short_beside_the_others_is_seen(self) -> None:
        """It has a mark of its own."""
        lines = list(drawn(explained([1, 1_000_000, 1], 4)))
        assert [line[38:].count("=") for line in lines[2:5]] == [1, 39, 1]
