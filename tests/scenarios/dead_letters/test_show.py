"""`redelivery dlq show`: a dead letter decoded as the worker decodes it, byte for byte, and beside another one."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from tests.scenarios.commands import redelivery
from tests.scenarios.redriving import died, dlq, dlq_json
from tests.scenarios.running import Group
from tests.scenarios.waiting import until
from tests.unit.serdes.conftest import Registry, registry  # noqa: F401 - a fixture

pytestmark = pytest.mark.kafka

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "scan", "type": "bytes"},
    ],
}
UNITED = b"\0\0\0\0\x07" + b"\x04UA\x040\x0c\x80\xb4\x8d\xe2\xc0h\x02\x02x\x04\x01\xff"


def test_values_of_a_registry(group: Group, registry: Registry) -> None:  # noqa: F811
    """The tree has the fields in their order; what cannot be decoded is shown as bytes, and why."""
    registry.add(7, ORDER)
    serde = {"format": "avro", "registry": {"url": registry.url}}
    group.prepare(sources=[{"topic": group.source, "value": serde}])
    values = [UNITED, None, b"\0\0\0\0\x08UA", None, b"\x1b[2Jplain", None, None]
    letters = [replace(died(group, n), value=value) for n, value in enumerate(values)]
    group.cluster.produce(group.dead_letters, letters)
    names = [f"{group.dead_letters}-0@{n}" for n in range(4)]
    shown = dlq_json(group, "show", names[0])
    assert (shown["valueFormat"], shown["valueProblem"], shown["valueBytes"]) == ("avro", None, len(UNITED))
    assert list(shown["value"].items()) == [
        ("carrier", "UA"),
        ("amount", "123.00"),
        ("at", "2026-11-23T02:00:00+00:00"),
        ("note", "x"),
        ("scan", {"base64": "Af8="}),
    ]
    text = dlq(group, "show", names[0]).out
    assert f'value (avro, {len(UNITED)} bytes):\n├── carrier: "UA"\n├── amount: 123.00\n' in text
    assert "└── scan: base64 Af8=" in text

    unknown = dlq_json(group, "show", names[1])
    assert "unknown_schema" in unknown["valueProblem"]
    assert unknown["value"] == {"base64": "AAAAAAhVQQ=="}
    text = dlq(group, "show", names[2]).out
    assert "cannot be decoded: avro bad_magic: starts with the byte 27 instead of 0" in text
    assert "00000000  1b 5b 32 4a 70 6c 61 69  6e                       |.[2Jplain|" in text
    assert "\x1b" not in text
    assert "value        null" in dlq(group, "show", names[3]).out

    registry.instead = (503, b"{}")
    away = dlq_json(group, "show", names[0])
    assert "registry http://127.0.0.1" in away["valueProblem"]
    assert away["valueBytes"] == len(UNITED)
    done = CliRunner().invoke(app, ["dlq", "show", names[0], "--raw", "value", "--config", str(group.file)])
    assert done.stdout_bytes == UNITED


def test_the_bytes_themselves(group: Group) -> None:
    """`--raw` writes what is stored, and nothing else; a wrong part is refused."""
    group.prepare()
    group.cluster.produce(group.dead_letters, [replace(died(group, 0), value=b"{\n\x1b[2J\xc3\xa9}", key=b"k\r\n")])
    name = f"{group.dead_letters}-0@0"
    for part, expected in (("value", "{\n\x1b[2Jé}"), ("key", "k\r\n"), ("header:traceparent", "00-0")):
        done = redelivery("dlq", "show", name, "--raw", part, file=group.file)
        assert (done.code, done.out) == (0, expected), part
    assert "no header 'nope'" in dlq(group, "show", name, "--raw", "header:nope").err
    assert dlq(group, "show", name, "--raw", "values").code == 2
    assert dlq(group, "show", name, "--raw", "value", "--json").code == 2
    assert "not_json" in dlq_json(group, "show", name)["valueProblem"]


def test_two_letters_beside_each_other(group: Group) -> None:
    """Also a letter and the one that it was before it was sent again."""
    group.prepare(policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}})
    group.cluster.produce(group.dead_letters, [died(group, 0, do="reject"), died(group, 2)])
    first, second = (f"{group.dead_letters}-0@{n}" for n in (0, 1))
    found = dlq_json(group, "show", second, "--diff", first)
    assert {"path": "$.value.n", "before": 0, "after": 2} in found["changes"]
    assert (found["before"], found["after"]) == (first, second)
    text = dlq(group, "show", second, "--diff", first).out
    assert '-    "n": 0,\n+    "n": 2,\n' in text
    assert dlq(group, "show", first, "--diff", first).out == "key, headers and value are equal\n"
    assert "was not sent again" in dlq(group, "show", first, "--diff", "previous").err

    group.worker()
    dlq_json(group, "redrive", "--yes", "--id", first)
    until(lambda: dlq_json(group, "list", "--state", "dead_again")["letters"] == 1, "it is dead again")
    (again,) = dlq_json(group, "list", "--each", "--reason", "rejected")["each"]
    found = dlq_json(group, "show", again["id"], "--diff", "previous")
    assert found["before"] == first
    assert {change["path"] for change in found["changes"]} == {
        "$.headers.JMSXDeliveryCount",
        "$.headers.dlqDeliveryFailureCause",
        "$.headers.redrive",
    }


def test_the_command_that_sends_it_again(group: Group) -> None:
    """It can be copied as it is, before and after the letter was sent."""
    group.prepare()
    group.cluster.produce(group.dead_letters, [died(group, 0)])
    name = f"{group.dead_letters}-0@0"
    for expected in (f"redelivery dlq redrive --id {name}", f"redelivery dlq redrive --id {name} --again"):
        command = dlq_json(group, "show", name)["command"]
        assert command == f"{expected} --config {group.file}"
        assert command in dlq(group, "show", name).out
        assert redelivery(*command.split()[1:-2], "--yes", file=group.file).code == 0


def test_class_only_shows_no_key_and_no_text(group: Group) -> None:
    """Of a letter that was written before the switch, too."""
    group.prepare(failureDetails="class-only")
    group.cluster.produce(group.dead_letters, [replace(died(group, 0), key=b"card 4711")])
    name = f"{group.dead_letters}-0@0"
    done, shown = dlq(group, "show", name), dlq_json(group, "show", name)
    for text in (done.out, json.dumps(shown), json.dumps(dlq_json(group, "show", name, "--diff", name))):
        assert "4711" not in text
        assert "the bank is down" not in text
    assert json.loads(shown["headers"]["dlqDeliveryFailureCause"])["exception"] == "ConnectionError"
    for part in ("key", "header:dlqDeliveryFailureCause"):
        assert "class-only hides" in dlq(group, "show", name, "--raw", part).err
