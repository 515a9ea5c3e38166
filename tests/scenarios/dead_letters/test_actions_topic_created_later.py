"""Worker and scheduler note what became of a record that was sent again, also if the topic for it is new."""

import json

import pytest

from tests.scenarios.cluster import Sent
from tests.scenarios.redriving import dead_letter, died, dlq_json
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


def test_the_topic_is_created_while_they_run(group: Group) -> None:
    """A record that recovers, one that dies in the worker, and one that the scheduler cannot release."""
    group.prepare()
    actions = f"{group.name}.dlq.actions"
    for topic in (f"{group.name}.dlq.jobs", actions):
        group.cluster.delete(topic)
    processes = [group.worker(), group.scheduler()]
    group.send([["raise", "ok"]])
    until(lambda: group.outputs()[0] == 1, "worker and scheduler run")

    group.apply()
    damaged = [("redrive", b"0123456789/0@42/1"), ("_AMQ_ORIG_MESSAGE_ID", b"nonsense")]
    group.cluster.produce(group.tier("200ms"), [Sent(b"{}", None, damaged, 0)])
    dead_letter(group, range(6))
    group.cluster.produce(group.dead_letters, [died(group, 6, do="reject")])
    assert dlq_json(group, "redrive", "--yes", "--origin", group.source)["sent"] == 7
    until(lambda: dlq_json(group, "jobs")["jobs"][0]["unknown"] == 0, "each outcome of the worker is known")
    (job,) = dlq_json(group, "jobs")["jobs"]
    assert (job["recovered"], job["deadAgain"]) == (6, 1)

    def of_the_scheduler() -> list[str]:
        records = [record for record in group.cluster.read(actions) if record.key == b"0123456789/0"]
        return [json.loads(record.value or b"")["outcome"] for record in records]

    until(lambda: of_the_scheduler() == ["dead_again"], "the outcome of the scheduler is known")
    assert not any("stays unknown" in process.log for process in processes)
