"""An operator acts on records that wait in a tier: each is delivered once, and every action is in the audit trail."""

import json
import time
from typing import Any

import pytest

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.control import level_record
from kafka_redelivery.topology.wire.headers import SCHEDULED_DELIVERY
from kafka_redelivery.transport.admin.control_topic import append_control
from tests.scenarios.commands import in_process
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import LONG_S, until

pytestmark = pytest.mark.kafka

_AGAIN = ("--yes", "--timeout", f"{LONG_S:g}s")


def _waiting(group: Group, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = in_process("waiting", *arguments, "--json", file=group.file)
    assert done.code == code, done.out + done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_each_action(group: Group) -> None:
    """One record is delivered now, one is delayed, one is dead-lettered, then the whole tier is delivered."""
    group.prepare(policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 600_000, "redeliveryDelay": 600_000}})
    group.worker()
    group.send([["raise", "ok"]] * 7, keys=20)
    until(lambda: len(group.cluster.read(group.tier("10m"))) == 7, "seven records wait")
    records = _waiting(group, "list", "--exception", "ValueError")["records"]
    assert len(records) == 7
    assert {each["deliveries"] for each in records} == {1}

    assert _waiting(group, "deliver-now", "--key", "k0", "--dry-run")["requests"] == []
    late = _waiting(group, "deliver-now", "--key", "k0", "--yes", "--timeout", "0s", code=1)
    assert [each["ended"] for each in late["requests"]] == [False]
    [shown] = json.loads(in_process("status", "--json", file=group.file).out)["requests"]
    assert (shown["action"], shown["records"]) == ("deliver-now", 1)
    group.scheduler()
    until(lambda: group.outputs() == exactly([0]), "the scheduler does it when it starts")

    due_ms = time.time_ns() // 1_000_000 + 3_600_000
    delayed = _waiting(group, "delay", "--key", "k1", "--due", "1h", *_AGAIN)
    assert delayed["requests"][0]["done"] == 1
    dues = [int(each.header(SCHEDULED_DELIVERY) or "") for each in group.cluster.read(group.tier("10m"))]
    assert sum(each >= due_ms for each in dues) == 1
    dead = _waiting(group, "dead-letter", "--key", "k2", "--note", "a test order", *_AGAIN)
    assert dead["requests"][0]["done"] == 1
    assert group.dead() == exactly([2])
    listed = in_process("dlq", "list", "--reason", "operator", "--json", file=group.file)
    assert listed.code == 0, listed.out + listed.err

    gate = group.folder / "gate"
    group.send([[f"wait {gate}"]], keys=20, first=7)  # the worker handles one record at a time
    busy = _waiting(group, "deliver-now", "--key", "k7", *_AGAIN, code=1)
    assert "in a handler" in busy["notWaiting"][0]
    gate.touch()
    until(lambda: group.outputs().keys() >= {7}, "the record in the handler succeeds")

    whole = _waiting(group, "deliver-now", "--tier", "10m", *_AGAIN)
    assert sum(each["done"] for each in whole["requests"]) == 5
    group.settle()
    group.stop()
    assert group.outputs() == exactly({0, 1, 3, 4, 5, 6, 7})
    assert group.dead() == exactly([2])

    trail = [json.loads(each.value or b"{}") for each in group.cluster.read(f"{group.name}.dlq.jobs")]
    noted = [each for each in trail if "what" in each]
    actions = ["deliver-now", "delay", "dead-letter", "deliver-now"]
    assert [each["what"] for each in noted] == [f"{action} waiting" for action in actions]
    assert noted[2]["note"] == "a test order"

    settings = load_settings(group.file.read_text(encoding="utf-8"))
    append_control(settings.kafka, settings.naming().control_topic(), [level_record(3, time.time_ns() // 1_000_000)])
    older = in_process("waiting", "deliver-now", "--tier", "10m", *_AGAIN, "--json", file=group.file)
    assert older.code == 1
    assert "--raise-feature-level" in older.out
