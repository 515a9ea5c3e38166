"""Each dead letter has a line in the log with its origin, key, attempt and cause, as text and as fields."""

import json

import pytest

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until


def test_each_of_twelve_failing_orders_has_a_line(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of one exception class and within seconds; the worker stops in between, so that no line can be late.

    Each has the frames of its traceback. A retry has them once per class and line: the slot logs them.
    """
    monkeypatch.setenv("REDELIVERY_LOG_FORMAT", "json")
    policy = {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200}
    group.prepare(policyEntry={"redeliveryPolicy": policy})
    worker = group.worker()
    group.scheduler()
    group.send([["raise"]] * 12)
    until(lambda: group.dead() == exactly(range(12)), "all are dead letters")
    group.stop()
    logged = [json.loads(line) for line in worker.log.splitlines()]
    lines = {line["origin"]: line for line in logged if " dead-lettered " in line["message"]}
    letters = group.cluster.read(group.dead_letters)
    assert {letter.header("_AMQ_ORIG_MESSAGE_ID") for letter in letters} == lines.keys()
    for letter in letters:
        origin = letter.header("_AMQ_ORIG_MESSAGE_ID")
        key = (letter.key or b"").decode()
        line = lines[origin or ""]
        text = line["message"]
        assert text.startswith(f"{origin} (key '{key}') dead-lettered (redeliveries_exceeded) after 2 deliveries: ")
        assert (line["topic"], line["key"], line["attempt"]) == (group.source, key, 2)
        assert line["reason"] == "redeliveries_exceeded"
        cause, _, frames = text.partition("\n")
        assert cause.endswith(f": {line['exception']}")
        assert not cause.endswith(": ")
        assert "raise ValueError(" in frames
    [traceback] = [line for line in logged if "Traceback" in line.get("exception", "")]
    assert (traceback["origin"] in lines, traceback["attempt"]) == (True, 1)
