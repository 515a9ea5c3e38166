"""`redelivery sweep` removes expired dead letters where no scheduler does, and nothing else."""

import json
from typing import Any

from tests.scenarios.cluster import Sent
from tests.scenarios.commands import Done, redelivery
from tests.scenarios.letters import expiring, kept, letter, now_ms
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

_HOUR_MS = 3_600_000


def swept(group: Group, *flags: str, code: int = 0) -> dict[str, Any]:
    """Run the command and return its JSON output."""
    done = redelivery("sweep", "--json", *flags, file=group.file)
    assert done.code == code, done.err
    result: dict[str, Any] = json.loads(done.out)
    return result


def shown(group: Group, *flags: str) -> Done:
    """Run the command and return its text output."""
    return redelivery("sweep", *flags, file=group.file)


def test_a_pass_without_an_expiration_in_the_configuration(group: Group) -> None:
    """A dry run changes nothing; a pass removes what the dry run listed; another pass finds nothing more."""
    group.prepare(4)
    later_ms = now_ms() + _HOUR_MS
    letters: list[Sent] = [
        *(letter(group, n, 1000) for n in range(3)),
        letter(group, 3, later_ms),
        letter(group, 10, 1000, partition=1),
        letter(group, 11, None, partition=1),
        letter(group, 12, 1000, partition=1),
        letter(group, 20, 1000, partition=2),
        letter(group, 21, 1000, partition=2, of="another"),
    ]
    group.cluster.produce(group.dead_letters, letters)

    result = swept(group, "--dry-run")
    assert (result["ok"], result["dryRun"], result["removed"], result["moved"]) == (True, True, 5, 0)
    assert len(kept(group)) == len(letters)
    assert not group.cluster.members(f"{group.name}.sweeper")
    assert "5 expired dead letters would be removed" in shown(group, "--dry-run").out

    result = swept(group)
    assert (result["ok"], result["dryRun"], result["removed"], result["moved"]) == (True, False, 5, 0)
    [topic] = result["topics"]
    assert [(each["removed"], each["because"]) for each in topic["partitions"]] == [
        (3, "not_yet"),
        (1, "never"),
        (1, "others"),
        (0, "end"),
    ]
    assert topic["partitions"][0]["expiresMs"] == later_ms
    assert kept(group) == [3, 11, 12, 21]

    again = shown(group)
    assert again.code == 0
    assert "0 expired dead letters removed" in again.out
    assert "never expires" in again.out
    assert kept(group) == [3, 11, 12, 21]


def test_a_pass_moves_first(group: Group) -> None:
    """Dead letters move to the expiry topic exactly once; one that Kafka refuses stays and fails the command."""
    group.prepare(2, policyEntry=expiring(_HOUR_MS, expiryAddress="EXP.{topic}"))
    expiry = f"EXP.{group.source}"
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000, partition=n % 2) for n in range(600)])
    assert swept(group, "--dry-run")["moved"] == 600
    result = swept(group)
    assert (result["removed"], result["moved"]) == (600, 600)
    assert kept(group) == []
    assert kept(group, expiry) == list(range(600))

    group.cluster.alter(expiry, max_message_bytes="150")  # the marker of a transaction fits
    group.cluster.produce(group.dead_letters, [letter(group, 700, 1000)])
    result = swept(group, code=1)
    assert (result["ok"], result["removed"]) == (False, 0)
    assert result["topics"][0]["partitions"][0]["because"] == "refused"
    assert "too large" in result["topics"][0]["partitions"][0]["problem"]
    assert kept(group) == [700]


def test_a_pass_beside_a_scheduler_is_refused(group: Group) -> None:
    """A pass is refused while a scheduler sweeps, since both would move the same records; a dry run is allowed."""
    group.prepare(1, policyEntry=expiring(_HOUR_MS))
    group.scheduler()
    until(lambda: group.cluster.members(f"{group.name}.sweeper"), "the sweeper has started")
    done = shown(group)
    assert (done.code, done.out) == (1, "")
    assert f"already (members of group {group.name}.sweeper: 1)" in done.err
    assert shown(group, "--dry-run").code == 0
    group.stop()


def test_a_missing_topic_is_reported(group: Group) -> None:
    """The pass fails, and the error has the fix."""
    group.configure()
    group.cluster.create(group.source)
    result = swept(group, "--dry-run", code=1)
    assert "no such topic; see `redelivery topology check`" in result["topics"][0]["problem"]
