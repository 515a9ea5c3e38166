"""The runbook "200,000 dead letters on Monday morning", line by line, with some hundred letters."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery import HandlerKit
from kafka_redelivery.topology.policy.decision import Reason
from tests.scenarios.commands import Done, in_process
from tests.scenarios.letters import emptied
from tests.scenarios.redriving import died, dlq_json, sent
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

PAGE = (Path(__file__).parents[3] / "docs" / "runbooks" / "many-dead-letters.md").read_text(encoding="utf-8")
LETTERS, REJECTED = 300, 20


def _commands() -> Iterator[str]:
    """Yield each line of each block of the page."""
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        yield from block.splitlines()


def _run(group: Group, line: str) -> Done:
    """Run a line with the names of the group; a question is answered with yes, and a redirection is a file."""
    command, _, file = line.partition(" > ")
    named = command.replace("DLQ.orders", group.dead_letters).replace("--source orders", f"--source {group.source}")
    program, *arguments = shlex.split(named)
    assert program == "redelivery"
    asks = {"redrive", "discard", "purge"} & {*arguments} and "--dry-run" not in arguments
    # By default they wait ten seconds for the processes, which may be too short on a busy machine.
    wait = ["--wait", "60s"] if arguments[0] in {"pause", "resume"} else []
    done = in_process(*arguments, *(["--yes"] if asks else []), *wait, file=group.file)
    assert done.code == 0, (line, done)
    if file:
        (group.folder / file).write_text(done.out, encoding="utf-8")
    return done


def _settled(group: Group) -> bool:
    return not any(kind["state"] == "sent" for kind in dlq_json(group, "list")["kinds"])


def test_every_line_does_what_the_page_says(group: Group) -> None:
    """In the end all have recovered once, the hopeless ones are set aside, and the topic is empty."""
    group.prepare()
    letters = [died(group, n) for n in range(LETTERS)]
    letters += [died(group, LETTERS + n, reason=Reason.REJECTED, exception="Reject") for n in range(REJECTED)]
    group.cluster.produce(group.dead_letters, letters)
    group.worker()
    group.scheduler()
    until(lambda: in_process("status", file=group.file).code == 0, "both processes are there")
    done: dict[str, Done] = {}
    for line in _commands():
        if line.startswith("redelivery dlq show") and line in done:
            until(lambda: _settled(group), "the letter has its outcome")
        if line.startswith(("redelivery dlq jobs", "redelivery dlq purge")):
            until(lambda: _settled(group), "all have their outcome")
        done[line] = _run(group, line)

    assert f"{LETTERS}" in done["redelivery dlq list --since 3d"].out
    assert done["redelivery dlq show DLQ.orders-0@17"].out.splitlines()[-1].endswith("recovered")
    preview = done["redelivery dlq redrive --exception ConnectionError --rate 200 --dry-run"].out
    assert f"{LETTERS - 1} dead letters to {group.ready}" in preview
    assert "1 are left out: " in preview
    assert sent(group) == exactly(range(LETTERS))
    assert group.outputs() == exactly(range(LETTERS))
    exported = (group.folder / "letters.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(exported) == LETTERS
    seen: list[int] = []
    [delivery] = HandlerKit(lambda record: seen.append(json.loads(record.value)["n"])).redeliver(exported[17])
    assert delivery.failure is None
    assert len(seen) == 1
    assert f"{LETTERS + REJECTED} dead letters to remove" in done["redelivery dlq purge"].out
    group.stop()
    assert emptied(group)
