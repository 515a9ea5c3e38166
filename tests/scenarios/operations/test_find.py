"""`redelivery find` tells where each record is, and finds a record at every place where it can be."""

import json
import time
from typing import Any

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import in_process
from tests.scenarios.redriving import dlq, dlq_json
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 200, "redeliveryDelay": 3_600_000}}


def _found(group: Group, wanted: str, *more: str) -> list[dict[str, Any]]:
    done = in_process("find", wanted, "--json", *more, file=group.file)
    assert done.code in {exit_codes.OK, exit_codes.FAILED}, done.out + done.err
    found: list[dict[str, Any]] = json.loads(done.out)["found"]
    assert (done.code == exit_codes.OK) == (found[0]["state"] != "unknown")
    return found


def test_a_record_at_each_place(group: Group) -> None:
    """Not handled, in a handler, in a tier, ready, dead, done, and unknown."""
    gate = group.folder / "gate"
    group.prepare(partitions=1, policyEntry=_POLICY, journal=True, handler={"slots": 2})
    scripts = [["ok"], ["reject"], ["raise"], ["raise", f"wait {gate}"], [f"wait {gate}"], ["ok"]]
    group.cluster.produce(
        group.source, [script(n, do, keys=100, headers=[("n", b"%d" % n)]) for n, do in enumerate(scripts)]
    )
    worker = group.worker()
    group.scheduler()
    until(lambda: len(group.deliveries.began()) == 7, "handlers wait with a source record and a redelivery")
    until(lambda: group.dead() and group.cluster.read(group.tier("1h")), "the others are committed")
    ids = [f"{group.source}-0@{n}" for n in range(len(scripts))]

    [done] = _found(group, ids[0])
    assert (done["state"], done["cause"]) == ("done", "acked")
    assert [(each["id"], each["state"]) for each in _found(group, "k0")] == [(ids[0], "done")]
    assert [each["id"] for each in _found(group, "", "--header", "n=5")] == [ids[5]]
    [dead] = _found(group, ids[1])
    assert (dead["state"], dead["deliveries"]) == ("dead letter", 1)
    assert dead["location"] == f"{group.dead_letters}-0@0"
    assert "rejected" in dead["cause"]
    [tier] = _found(group, "k2")
    assert (tier["state"], tier["id"], tier["deliveries"]) == ("tier", ids[2], 2)
    assert tier["cause"].startswith("ValueError: ")
    assert tier["dueMs"] > time.time() * 1000 + 3_000_000
    assert [_found(group, each)[0]["state"] for each in ids[3:5]] == ["ready", "source"]
    [waits] = _found(group, "k5")
    assert (waits["state"], waits["id"]) == ("source", ids[5])

    worker.kill()
    assert _found(group, f"{group.source}-0@99")[0]["state"] == "unknown"
    shown = in_process("find", ids[2], file=group.file)
    assert shown.out.startswith(f"{ids[2]}: waits in a tier, at {group.tier('1h')}-0@")
    group.cluster.produce(group.dead_letters, [script(n, ["ok"]) for n in range(20)])
    limited = in_process("find", ids[0], "--limit", "5", file=group.file)
    assert "dead letters: only 5 of about" in limited.err


def test_a_dead_letter_has_the_answer_of_its_last_story(group: Group) -> None:
    """It is dead, then it is sent again and dies, then it recovers with another value: as `dlq show` says."""
    group.prepare(partitions=1, policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}})
    group.cluster.produce(group.source, [script(0, ["reject"])])
    group.worker()
    group.scheduler()
    until(lambda: group.dead() == exactly([0]), "it is dead")
    record, first = f"{group.source}-0@0", f"{group.dead_letters}-0@0"

    [dead] = _found(group, record)
    assert (dead["state"], dead["letterState"], dead["job"]) == ("dead letter", "waiting", None)
    dlq_json(group, "redrive", "--yes", "--id", first)
    until(lambda: dlq_json(group, "show", first)["state"] == "dead_again", "it has died again")
    [dead] = _found(group, record)
    second = dead["location"]
    assert (dead["state"], dead["letterState"], second != first) == ("dead letter", "waiting", True)
    edited = group.folder / "edited"
    edited.write_text(dlq(group, "edit", second, "--print").out.replace("reject", "ok"), encoding="utf-8")
    job = dlq_json(group, "edit", second, "--file", str(edited), "--yes")["job"]
    until(lambda: dlq_json(group, "show", second)["state"] == "recovered", "it has recovered")
    [found] = _found(group, record)
    assert (found["state"], found["letterState"], found["job"]) == ("recovered", "recovered", job)
    shown = in_process("find", record, file=group.file)
    text = (
        f"recovered: its handler has succeeded after job {job} had sent its dead letter again; it had died, at {second}"
    )
    assert shown.out.startswith(f"{record}: {text}")
