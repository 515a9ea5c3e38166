"""`redelivery status` lists each process, with either group protocol, also those without an `instance` name."""

import json

import pytest

from tests.scenarios.commands import in_process, redelivery
from tests.scenarios.consoles import Browser, console, text_of
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_workers_without_a_name_are_two_members(group: Group, protocol: str) -> None:
    """By their member ids, because their client ids are the same; together they have all partitions."""
    group.prepare(kafka={"group.protocol": protocol})
    group.worker(None)
    group.worker(None)

    def both() -> list[dict[str, object]]:
        found = json.loads(in_process("status", "--json", file=group.file).out)["members"]
        members = [each for each in found if each["group"] == group.name and each["partitions"]]
        return members if len(members) == 2 else []

    # One answer: the group may still be in a rebalance when it is asked again.
    members = until(both, "both have partitions")
    if protocol == "classic":
        assert {str(each["name"]).partition("-")[0] for each in members} == {"rdkafka"}
    assert len({each["name"] for each in members}) == 2


def test_members_of_the_consumer_protocol(group: Group) -> None:
    """By their names, or member ids. The commands wait until all obey a pause, and say when no process runs.

    The console does not ask for them, since that can end the process (librdkafka#4605), and says so.
    """
    group.prepare(kafka={"group.protocol": "consumer"})
    assert "no worker or query runs" in in_process("status", file=group.file).out
    group.worker()
    group.scheduler(None)

    def members() -> list[tuple[str, str]]:
        found = json.loads(in_process("status", "--json", file=group.file).out)["members"]
        return [(each["group"], each["name"]) for each in found if each["partitions"]]

    until(lambda: len(members()) == 2, "both have partitions")
    assert (group.name, "w1") in members()
    with console(group) as running, Browser(running) as browser:
        until(lambda: "processes are not listed" in text_of(browser.get("/")), "the console does not know them")
        assert "no worker runs" not in text_of(browser.get("/"))
    for command in ("pause", "resume"):
        done = redelivery(command, "--all", "--wait", "25s", "--json", file=group.file)
        seen = json.loads(done.out)
        assert (done.code, seen["members"], len(seen["processes"])) == (0, 2, 2), done.out + done.err
    group.stop()
    until(lambda: "no scheduler runs" in in_process("topology", "check", file=group.file).out, "the check sees it")
