"""A secret of the configuration is in nothing that a command prints, logs or writes, whether it succeeds or fails."""

import json
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from tests.activemq.broker import Broker
from tests.scenarios.canary import CANARY, REGISTRY, SECRETS, SPARK
from tests.scenarios.letters import now_ms
from tests.scenarios.redriving import died
from tests.scenarios.running import COMMAND, Group, Process
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import LONG_S, until

pytestmark = pytest.mark.kafka

_KAFKA = {name: value for name, value in SECRETS.items() if name != "sasl.password"}


def _commands(group: Group, folder: Path) -> Iterator[str]:
    """Yield each command that needs no Spark, in an order in which it has something to do."""
    letters, unread = f"{group.dead_letters}-0@0", f"{group.dead_letters}-1@0"
    edited = folder / "edited.json"
    edited.write_text("{}", encoding="utf-8")
    yield from ("config show", "config check", "topology check", "topology plan", "topology acls", "topology apply")
    yield from (
        f"explain {group.source}",
        "status",
        "find k0",
        f"find {group.source}-0@0",
        "pause --all",
        "status",
        "resume --all",
    )
    yield from ("dlq list", "dlq list --each", "dlq list --header traceparent=00-0", "dlq summary", "dlq export")
    yield from (f"dlq show {letters}", f"dlq show {letters} --raw", f"dlq show {letters} --diff {unread}")
    yield from (f"dlq edit {letters} --file {edited} --dry-run", "dlq redrive --dry-run")
    yield from (f"dlq redrive --id {letters} --yes", f"dlq discard --id {unread} --yes", "dlq jobs")
    yield from ("dlq resume nothing", "dlq cancel nothing --yes", "dlq purge --dry-run", "dlq purge --yes", "sweep")
    yield f"dlq import {folder / 'letters.jsonl'} --yes"
    for scheme in ("stomp://", "stomp+ssl://", "http://", f"stomp://u:{CANARY}@", f"http://u:{CANARY}@"):
        yield f"import-letters {scheme}127.0.0.1:{free_port()} --yes"
    yield f"import-letters stomp://u:{CANARY}@127.0.0.1:port --yes"
    yield f"status --set kafka.sasl.pasword={CANARY}"
    yield f"status --set kafka.sasl.jaas.config={CANARY}"


def _foreign(group: Group) -> Iterator[str]:
    """Yield commands over another system's dead letters, which have no configuration file."""
    start = f"dlq --bootstrap {group.cluster.servers} --topic {group.dead_letters}"
    yield from (f"{start} list", f"{start} redrive --dry-run", f"{start} list --set limits.batch={CANARY}")
    yield f"{start} list --set registry.password={CANARY}"
    yield f"dlq --bootstrap 127.0.0.1:{free_port()} --topic x list"


def _printed(command: str, environment: Mapping[str, str | None]) -> str:
    """Run a command with its traceback, if it has one."""
    done = CliRunner(env=environment).invoke(app, ["--debug", *command.split()])
    said = done.output + str(done.exception or "")
    assert CANARY not in said, (command, said)
    return said


def _watch(group: Group) -> None:
    """Follow the dead letters in a process until one more is shown."""
    command = [*COMMAND, "--debug", "dlq", "summary", "--json", "--every", "200ms", "--config", str(group.file)]
    process = Process("summary", command, os.environ, group.folder / "summary.log", warm=True)
    group.processes.append(process)
    until(lambda: '"letters"' in process.log, "it shows what is there")
    before = len(process.log)
    group.cluster.produce(group.dead_letters, [died(group, 6)])
    until(lambda: len(process.log) > before, "it shows one more")
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(LONG_S) == 0
    assert CANARY not in process.log


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["", "x"])
def test_a_canary_as_the_password_of_activemq(
    group: Group, tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    """Its messages are imported with a password from a file, or the broker refuses a wrong one; neither shows it."""
    caplog.set_level(logging.DEBUG)
    group.prepare()
    password = tmp_path / "password"
    password.write_text(f"{CANARY}\n", encoding="utf-8")
    with Broker("classic", tmp_path / "broker", "admin", f"{CANARY}{wrong}") as broker:
        broker.fill(4)
        # Not until the queue is silent for a second: a busy broker may take longer to send its first message.
        command = f"import-letters {broker.url.replace('//', '//admin@')} --origin {group.source} --limit 4 --wait 60s"
        _printed(f"{command} --yes --password-file {password} --config {group.file}", {})
        broker.until_it_has(4 if wrong else 0)
    written = group.cluster.read(group.dead_letters)
    assert len(written) == (0 if wrong else 4)
    assert CANARY not in str(written)
    assert CANARY not in caplog.text


@pytest.mark.long
def test_a_canary_in_every_command(group: Group, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As text, as JSON, with tracebacks and all logs; the index, the topics and exported letters have none either."""
    password = tmp_path / "password"
    password.write_text(CANARY, encoding="utf-8")
    group.prepare(
        kafka=_KAFKA | {"sasl.password.file": str(password)},
        sources=[{"topic": group.source, "value": {"format": "avro", "registry": REGISTRY}}],
        pipeline={"checkpoint": "checkpoint", "spark": SPARK},
        journal=True,
    )
    group.cluster.produce(group.dead_letters, [died(group, n) for n in range(6)])
    (tmp_path / "letters.jsonl").write_text(
        json.dumps({"version": 1, "id": f"{group.dead_letters}-0@9", "timestampMs": now_ms(), "key": None})[:-1]
        + ', "value": null, "headers": []}\n',
        encoding="utf-8",
    )
    caplog.set_level(logging.DEBUG)
    unset = {"REDELIVERY_ACTIVEMQ_PASSWORD": CANARY}
    ran = 0
    for command in _commands(group, tmp_path):
        ran += bool(_printed(f"{command} --config {group.file}", unset))
        if command != "sweep" and not command.startswith(("dlq export", "dlq resume", "dlq cancel")):
            _printed(f"{command} --config {group.file} --json", unset)
    for command in _foreign(group):
        ran += bool(_printed(command, unset | {"REDELIVERY_KAFKA__SASL_PASSWORD": CANARY}))
    assert ran > 30
    _watch(group)
    assert CANARY not in caplog.text
    topics = sorted(topic for topic in group.cluster.topics() if group.name in topic)
    assert CANARY not in str(group.cluster.read(*topics))
    index = [each for each in (group.folder / "index").rglob("*") if each.is_file()]
    assert index
    assert not [each for each in index if CANARY.encode() in each.read_bytes()]
