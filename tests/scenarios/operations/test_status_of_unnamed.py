"""`redelivery status` lists each process, also those without an `instance` name."""

import json

import pytest

from tests.scenarios.commands import in_process
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


def test_two_workers_without_a_name_are_two_members(group: Group) -> None:
    """By their member ids, because their client ids are the same; together they have all partitions."""
    group.prepare()
    group.worker(None)
    group.worker(None)

    def both() -> list[dict[str, object]]:
        found = json.loads(in_process("status", "--json", file=group.file).out)["members"]
        members = [each for each in found if each["group"] == group.name and each["partitions"]]
        return members if len(members) == 2 else []

    # One answer: the group may still be in a rebalance when it is asked again.
    members = until(both, "both have partitions")
    assert {str(each["name"]).partition("-")[0] for each in members} == {"rdkafka"}
    assert len({each["name"] for each in members}) == 2
