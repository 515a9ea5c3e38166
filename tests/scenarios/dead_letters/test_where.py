"""`--where` selects letters by what is in them, for every command that selects."""

import base64
import json
from dataclasses import replace

import pytest

from kafka_redelivery.dead_letters.index import refresh
from tests.scenarios.dead_letters.test_show import ORDER, UNITED
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json, sent
from tests.scenarios.running import Group, exactly
from tests.unit.serdes.conftest import Registry, registry  # noqa: F401 - a fixture

pytestmark = pytest.mark.kafka

_LATER = "cast(value ->> '$.n' as integer) >= 5"


def test_each_command_that_selects_letters_takes_a_condition(group: Group) -> None:
    """List, export, discard and redrive mean the same letters, from the index or without."""
    group.prepare()
    dead_letter(group, range(8))
    listed = dlq_json(group, "list", "--each", "--where", f"{_LATER} and exception like 'Conn%'")
    assert sorted(each["key"] for each in listed["each"]) == ["k0", "k5", "k6"]
    without = ("--set", "deadLetters.index.values=false")
    assert dlq_json(group, "list", "--where", _LATER, *without)["letters"] == 3
    assert dlq_json(group, "list", "--where", "died > now() - interval '1 hour' and attempts = 3")["letters"] == 8
    assert dlq_json(group, "summary", "--where", "headers['traceparent'] = '00-5'")["letters"] == 1
    assert dlq_json(group, "redrive", "--dry-run", "--where", _LATER, "--key", "k6")["letters"] == 1

    lines = dlq(group, "export", "--where", "key = 'k5' or source_id like '%@6'").out.splitlines()
    assert [json.loads(base64.b64decode(json.loads(line)["value"]))["n"] for line in lines] == [6, 5]
    discarded = dlq_json(group, "discard", "--yes", "--where", "key = 'k5'")
    assert (discarded["setAside"], discarded["selection"]) == (1, {"where": ["key"]})
    assert dlq_json(group, "redrive", "--yes", "--where", f"{_LATER} and state = 'waiting'")["sent"] == 2
    assert sent(group) == exactly([6, 7])
    assert dlq_json(group, "list", "--where", "sends = 1 and job is not null")["letters"] == 2


def test_avro_values(group: Group, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The index has them decoded, as soon as the registry gives the schema. Without them all letters are decoded."""
    monkeypatch.setattr(refresh, "_ASK_AGAIN_MS", 0)
    registry.add(7, ORDER)
    serde = {"format": "avro", "registry": {"url": registry.url}}
    group.prepare(sources=[{"topic": group.source, "value": serde}])
    values = [UNITED, b"\0\0\0\0\x08UA", b"no Avro", UNITED.replace(b"UA", b"DL"), None, UNITED]
    group.cluster.produce(group.dead_letters, [replace(died(group, n), value=value) for n, value in enumerate(values)])
    united = ["--where", "value ->> '$.carrier' = 'UA' and cast(value ->> '$.amount' as double) > 100"]
    registry.instead = 401, b"{}"
    refused = dlq(group, "list", *united)
    assert "5 values cannot be decoded" in refused.err, refused
    assert "401" in refused.err, refused
    registry.instead = None
    for more in ((), ("--set", "deadLetters.index.decode=false")):
        listed = dlq_json(group, "list", "--each", *united, *more)
        assert sorted(each["key"] for each in listed["each"]) == ["k0", "k5"]
        assert dlq_json(group, "list", "--where", "value is null", *more)["letters"] == 3
        assert "2 values cannot be decoded" in dlq(group, "summary", *united, *more).err
    assert dlq_json(group, "redrive", "--dry-run", *united)["letters"] == 2
    assert dlq_json(group, "redrive", "--yes", *united)["sent"] == 2
    assert dlq_json(group, "list", "--where", "sends = 1", *more)["letters"] == 2
    index = [file.read_bytes() for file in (group.folder / "index").rglob("*") if file.is_file()]
    assert index
    assert not any(UNITED in stored or b"carrier" in stored for stored in index)


def test_a_fault_is_told_with_its_place(group: Group) -> None:
    """It is wrong usage, and nothing is read."""
    group.prepare()
    done = dlq(group, "list", "--where", "attempt >= 3")
    assert done.code == 2
    assert done.err.splitlines()[-3:] == [
        "error: --where, character 1: there is no column attempt; did you mean attempts?",
        "  attempt >= 3",
        "  ^^^^^^^",
    ]
    failed = dlq_json(group, "redrive", "--yes", "--where", "attempts >= '3'", code=2)
    assert "write a" in failed["message"]
