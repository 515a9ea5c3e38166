"""A command whose user lacks a right of its role names that right and how to grant it."""

import json
import os
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.scenarios import commands
from tests.scenarios.authenticated import AuthenticatedKafka
from tests.scenarios.each_right import (
    COMMANDS,
    NOT_IN_AUDIT_TRAIL,
    NOT_NOTICED,
    command_row,
    example,
    message_of,
    right_of,
)
from tests.scenarios.redriving import dead_letter
from tests.scenarios.running import Group
from tests.scenarios.users import Users
from tests.scenarios.waiting import until

_JOB = re.compile(r"\b[0-9a-f]{10}\b")
_FILE = re.compile(r" --config \S+(?<!`)")
_ATTEMPTS = 5
"""A command can be done before the answer comes that its user may not look for the coordinator of the group."""

_ROLES = ("viewer", "redrive", "import", "purge", "operator")
_CASES = {
    "viewer": "viewer",
    "redrive": "redrive",
    "redrive: `dlq show`": "redrive",
    "redrive: `dlq edit`": "redrive",
    "import": "import",
    "purge": "purge",
    "operator": "operator",
}
"""The role of each kind of rows."""

_UNUSED = {
    "redrive: `dlq show`": {
        "Write on topic billing.dlq.actions",
        "Write on topic billing.dlq.jobs",
        "Write on topic billing.dlq.parked",
        "Write on topics billing.ready.*",
        "Write on transactional ids billing.dlq.*",
    },
    "redrive: `dlq edit`": {"Write on topic billing.dlq.parked"},
}
"""Rights of the role that a command does without."""

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "redeliveryDelay": 200}}


class Roles:
    """A group whose roles run their commands on dead letters that they have not seen yet."""

    def __init__(self, users: Users, folder: Path) -> None:
        self.users, self._folder = users, folder
        self._numbers = count(1_000, 2)  # offsets that no source record has

    def run(self, case: str) -> tuple[int, str]:
        """Run the commands of a case up to the first that fails; return the exit code and what it says."""
        role = _CASES[case]
        self._prepare(role)
        for line in self._lines(case):
            done = self._done(role, *line)
            said = (done.out + done.err).partition(NOT_IN_AUDIT_TRAIL)[0]
            if done.code or "grant the right" in said:
                return done.code, said
        return 0, ""

    def succeed(self, case: str) -> None:
        """Run the commands of a case, which has all rights; only `show` names parts of a story that it may not read."""
        code, said = self.run(case)
        assert (code, "" if "show" in case else said) == (0, ""), said

    def _prepare(self, role: str) -> None:
        number = next(self._numbers)
        dead_letter(self.users.group, [number, number + 1])
        self._key = f"k{number % 7}"
        ends = self.users.group.cluster.ends(self.users.group.dead_letters)
        topic, partition = next(iter(ends))
        self._letter = f"{topic}-{partition}@{ends[topic, partition] - 1}"
        if role == "purge":
            self._succeed("redrive", "dlq", "discard", "--yes")
            self._succeed("redrive", "dlq", "discard", "--state", "sent", "--yes")

    def _lines(self, case: str) -> list[list[str]]:
        source = self.users.group.source
        match case:
            case "redrive: `dlq show`":
                return [["dlq", "show", self._letter]]
            case "redrive: `dlq edit`":
                value = self._folder / "edited.json"
                value.write_text('{"n": 1, "do": ["ok"], "edited": true}', encoding="utf-8")
                return [["dlq", "edit", self._letter, "--file", str(value), "--yes"]]
            case "operator":
                pauses = [["pause", "--source", source], ["resume", "--source", source]]
                return [["status"], ["find", self._key], ["find", f"{source}-0@0"], *pauses]
            case "viewer":
                index = f"--index={self._folder / 'index'}"
                looks = [["list", index], ["summary", index], ["export"], ["jobs"]]
                return [["dlq", *each] for each in looks]
            case "redrive":
                kinds, parking = (
                    ["list", f"--index={self._folder / 'index'}"],
                    ["redrive", "--again", "--max-redrives=1"],
                )
                return [["dlq", *each] for each in (kinds, ["redrive", "--yes"], ["jobs"], [*parking, "--yes"])]
            case "import":
                return [["dlq", "import", str(self._kept()), "--yes"]]
            case _:
                # An index of its own, or it has the letters already that another command has read.
                return [["dlq", "purge", "--yes", f"--index={self._folder / 'purge'}"]]

    def settle(self, role: str) -> None:
        """Go on with the jobs that a missing right has stopped; wait until all processes obey the last pause."""
        if role == "viewer":
            return
        if role == "operator":
            until(lambda: self._done(role, "status").code == 0, "`status` reports no fault")
            return
        jobs = json.loads(self._succeed("redrive", "dlq", "jobs", "--json"))["jobs"]
        for job in jobs:
            if job["state"] not in {"done", "cancelled"}:
                self._succeed("redrive", "dlq", "resume", job["job"])

    def _kept(self) -> Path:
        """Return a file with letters that died in another cluster, so that none of them is there."""
        number = next(self._numbers)
        exported = self._succeed("redrive", "dlq", "export").splitlines()[:2]
        letters = [json.loads(line) | {"timestampMs": number} for line in exported]
        file = self._folder / "letters.jsonl"
        file.write_text("".join(f"{json.dumps(letter)}\n" for letter in letters), encoding="utf-8")
        return file

    def _succeed(self, role: str, *line: str) -> str:
        done = self._done(role, *line)
        assert done.code == 0, done
        return done.out

    def _done(self, role: str, *line: str) -> commands.Done:
        user = f"--set=kafka.sasl.username={self.users.name(role)}"
        return commands.in_process(*line, user, file=self.users.group.file)


@pytest.fixture
def roles(secured: AuthenticatedKafka, unique: str, tmp_path: Path) -> Iterator[Roles]:
    """A group with its topics, of which no process runs."""
    folder = tmp_path / "group"
    folder.mkdir()
    users = Users(secured, Group(secured.cluster, unique, folder))
    users.configure(policyEntry=_POLICY, journal=True)
    users.apply()
    try:
        yield Roles(users, tmp_path)
    finally:
        users.group.close()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("case", _CASES)
def test_each_right_of_each_command(roles: Roles, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documentation has a table of what is seen. With WRITE_RIGHTS_TABLE set, it is written."""
    monkeypatch.setenv("COLUMNS", "1000")  # no message is wrapped
    users, role, rows = roles.users, _CASES[case], []
    users.grant(*_ROLES)
    roles.succeed("redrive")  # so that there are jobs to read about
    if role == "operator":  # a group without processes is a fault that `status` reports
        users.grant("worker", "scheduler")
        users.start("worker")
        users.start("scheduler")
        users.group.send([["ok"]] * 8)
        users.group.settle()
    roles.succeed(case)
    roles.settle(role)
    unused = set()
    for acl in users.acls(role):
        users.secured.revoke(acl)
        right, group = right_of(acl), users.group
        for _ in range(1 if example(group, str(right)) in _UNUSED.get(case, ()) else _ATTEMPTS):
            code, said = roles.run(case)
            if shown := _JOB.sub("3f9a2c01bd", _FILE.sub("", message_of(group, right, said))):
                break
        users.secured.grant([acl])
        roles.settle(role)
        print(case, right, code, said)  # noqa: T201 - shown if the test fails
        if case in _UNUSED and (code, shown) == (0, ""):
            unused.add(example(group, str(right)))
        else:
            rows.append(command_row(case, example(group, str(right)), code, shown))
    assert unused == _UNUSED.get(case, set())
    roles.succeed(case)
    documented = {each: [row for row in COMMANDS.rows() if row.startswith(f"| {each} |")] for each in _CASES}
    if os.environ.get("WRITE_RIGHTS_TABLE"):
        COMMANDS.write(row for each in (documented | {case: rows}).values() for row in each)
        return
    assert [row for row in rows if NOT_NOTICED in row] == []
    assert documented[case] == rows


def test_the_table_has_no_other_row() -> None:
    """Each row is one of a case."""
    assert {row.split(" | ")[0].removeprefix("| ") for row in COMMANDS.rows()} == set(_CASES)
