"""The story of a dead letter: what is stored, in the order of time; what is not stored is said to be unknown."""

import pytest

from tests.scenarios.redriving import dead_letter, dlq, dlq_json
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


def test_from_its_source_to_its_recovery_and_beyond(group: Group) -> None:
    """Deliveries with their failures, the death, the job, the second death as another letter, and how it began."""
    policy = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}}
    group.prepare(policyEntry=policy, journal=True)
    group.send([["raise"] * 9])
    group.worker()
    scheduler = group.scheduler()
    until(lambda: group.dead().total() == 1, "it is dead")
    (letter,) = dlq_json(group, "list", "--each")["each"]
    story = dlq_json(group, "show", letter["id"])["story"]
    assert scheduler.running
    assert (story[0]["what"], story[0]["record"]) == ("source", letter["sourceId"])
    # The journal has times of its own: its line about the death may be a millisecond younger than the letter.
    last = [event for event in story if event["what"] != "journal"][-1]
    assert last["what"] == "died"
    assert last["text"].startswith("died after 3 deliveries: redeliveries_exceeded: ")
    told = [event["text"] for event in story]
    known = {n for n in (1, 2) if any(f"delivery {n} " in text and "failed" in text for text in told)}
    unknown = [text for text in told if text.startswith("not known")]
    assert bool(unknown) is (known != {1, 2}), "what is not told is said to be unknown"
    assert any("journal: retried" in text for text in told)
    assert any("journal: dead_lettered" in text for text in told)
    times = [event["atMs"] for event in story if event["atMs"] is not None]
    assert times == sorted(times)

    job = dlq_json(group, "redrive", "--yes")["job"]
    until(lambda: dlq_json(group, "list", "--state", "dead_again")["letters"] == 1, "it is dead again")
    (again,) = dlq_json(group, "list", "--each", "--state", "waiting")["each"]
    story = dlq_json(group, "show", letter["id"])["story"]
    whats = [event["what"] for event in story if event["what"] != "journal"]
    assert whats[whats.index("died") + 1 :] == ["job", "progress", "outcome", "after"]
    assert f"died again as {again['id']}" in [event["text"] for event in story]
    assert f"job {job}: sent" in [event["text"] for event in story]
    assert f"job {job}: dead_again" in [event["text"] for event in story]

    second = dlq_json(group, "show", again["id"])["story"]
    (before,) = [event for event in second if event["what"] == "before"]
    assert (before["record"], before["job"]) == (letter["id"], job)
    text = dlq(group, "show", letter["id"]).out
    assert "story\n" in text
    assert " UTC  +" in text


def test_what_is_not_known(group: Group) -> None:
    """A letter whose retry records were deleted, and one that a person has set aside."""
    group.prepare()
    dead_letter(group, range(1))
    name = f"{group.dead_letters}-0@0"
    told = [event["text"] for event in dlq_json(group, "show", name)["story"]]
    assert told[1] == (
        "not known: why 2 of 2 deliveries before the last one failed, and when; their records are deleted"
    )
    assert told[2] == "died after 3 deliveries: redeliveries_exceeded: ConnectionError: the bank is down for 0"
    job = dlq_json(group, "discard", "--yes")["job"]
    story = dlq_json(group, "show", name)["story"]
    assert [event["text"] for event in story][-1] == f"job {job}: discarded"
    assert dlq(group, "show", name).out.splitlines()[-1].endswith("discarded")
    assert "the bank" not in dlq(group, "show", name, "--set", "failureDetails=class-only").out
