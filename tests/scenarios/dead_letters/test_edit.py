"""`redelivery dlq edit`: one dead letter is sent again with another value, exactly once, and it is known who did it."""

import json
import os
import sys
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from kafka_redelivery.cli.commands import dlq_letter
from kafka_redelivery.cli.main import app
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.creation import Edit
from kafka_redelivery.dead_letters.editing import MAX_BYTES
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter_jobs import one_dead_letter
from kafka_redelivery.topology.redrive.job import EDIT_PART_BYTES, JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from tests.scenarios.dead_letters.test_show import ORDER, UNITED
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json, settings_of
from tests.scenarios.running import Group
from tests.scenarios.waiting import until
from tests.unit.serdes.conftest import Registry, registry  # noqa: F401 - a fixture

pytestmark = pytest.mark.kafka

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 0}}


def _file(group: Group, text: str) -> str:
    file = group.folder / "edited"
    file.write_text(text, encoding="utf-8", newline="")
    return str(file)


def _copies(group: Group) -> list[bytes | None]:
    return [record.value for record in group.cluster.read_written(group.ready)]


def test_the_letter_recovers_with_another_value(group: Group) -> None:
    """The copy has the new value, and all else of the letter; the letter stays, and the job says who and what."""
    group.prepare(policyEntry=_POLICY)
    group.cluster.produce(group.dead_letters, [died(group, 0, do="reject"), died(group, 2)])
    name = f"{group.dead_letters}-0@0"
    before = group.cluster.read(group.dead_letters)
    printed = dlq(group, "edit", name, "--print").out
    assert printed == '{\n  "n": 0,\n  "do": [\n    "reject"\n  ]\n}\n'
    assert dlq_json(group, "edit", name, "--file", _file(group, printed), "--yes")["changed"] is False
    assert "nothing changed" in dlq(group, "edit", name, "--file", _file(group, printed), "--yes").out

    edited = _file(group, printed.replace("reject", "ok"))
    done = dlq(group, "edit", name, "--file", edited, "--dry-run")
    assert '-    "reject"\n+    "ok"\n' in done.out
    assert f"26 bytes become 22, sent to {group.ready}" in done.out
    assert dlq_json(group, "edit", name, "--file", edited, "--dry-run")["bytes"] == 22
    assert dlq_json(group, "jobs")["jobs"] == []
    assert dlq(group, "edit", name, "--file", edited).code == 2, "there is no terminal to ask on"
    assert dlq(group, "edit", name).code == 2

    job = dlq_json(group, "edit", name, "--file", edited, "--yes")
    assert (job["kind"], job["state"], job["sent"], job["letters"]) == ("edit", "done", 1, 1)
    assert (job["edited"]["bytes"], job["edited"]["originalBytes"]) == (22, 26)
    assert "@" in job["by"]
    (copy,) = group.cluster.read_written(group.ready)
    assert copy.value == b'{"n": 0, "do": ["ok"]}'
    assert copy.key == before[0].key
    assert (copy.header("traceparent"), copy.header("JMSXDeliveryCount")) == ("00-0", "0")
    assert str(copy.header("redrive")).startswith(f"{job['job']}/0@0/1")
    assert group.cluster.read(group.dead_letters) == before, "the letter stays as it is"
    assert "do" not in json.dumps(dlq_json(group, "jobs")["jobs"][0]["selection"])

    group.worker()
    until(lambda: dlq_json(group, "list", "--state", "recovered")["letters"] == 1, "it has recovered")
    assert group.outputs().total() == 1
    assert dlq_json(group, "resume", job["job"])["sent"] == 1
    assert len(_copies(group)) == 1
    (found,) = dlq_json(group, "jobs")["jobs"]
    assert (found["kind"], found["recovered"]) == ("edit", 1)
    assert found["edited"] == job["edited"]
    assert "edit" in dlq(group, "jobs").out
    refused = dlq(group, "edit", name, "--file", edited, "--yes")
    assert (refused.code, "it is recovered already; --again" in refused.err) == (1, True)


def test_avro_is_written_with_its_own_schema(group: Group, registry: Registry) -> None:  # noqa: F811
    """Framing and all other fields are the same bytes; what does not fit the schema is refused with its place."""
    registry.add(7, ORDER)
    serde = {"format": "avro", "registry": {"url": registry.url}}
    group.prepare(sources=[{"topic": group.source, "value": serde}])
    blocks = b"\0\0\0\0\x08" + b"\x01\x02\x02\0"  # an array whose block says its size
    registry.add(8, {"type": "array", "items": "int"}, version=2)
    values = [UNITED, None, blocks, None, b"\0\0\0\0\x09", None, None]
    letters = [replace(died(group, n), value=value) for n, value in enumerate(values)]
    group.cluster.produce(group.dead_letters, letters)
    names = [f"{group.dead_letters}-0@{n}" for n in range(4)]
    text = dlq(group, "edit", names[0], "--print").out
    assert json.loads(text) == {
        "carrier": "UA",
        "amount": "123.00",
        "at": "2026-11-23T02:00:00.000Z",
        "note": "x",
        "scan": "\x01ÿ",
    }
    for wrong, place in (('"1.234"', "$.amount: '1.234' has more than 2 digits"), ("12", "$.amount: needs a decimal")):
        file = _file(group, text.replace('"123.00"', wrong))
        refused = dlq(group, "edit", names[0], "--file", file, "--yes")
        assert (refused.code, place in refused.err) == (1, True), refused
    for name, problem in (
        (names[1], "differ from byte 5 on: 01 02 02 00 would become 02 02 00"),
        (names[2], "unknown_schema"),
        (names[3], "it is null"),
    ):
        refused = dlq(group, "edit", name, "--file", _file(group, "[]"), "--yes")
        assert (refused.code, problem in refused.err) == (1, True), refused
    registry.instead = (503, b"{}")
    assert "is unavailable" in dlq(group, "edit", names[0], "--print").err
    registry.instead = None
    assert dlq_json(group, "jobs")["jobs"] == []

    file = _file(group, text.replace('"UA"', '"LH"'))
    assert dlq_json(group, "edit", names[0], "--file", file, "--yes")["sent"] == 1
    assert _copies(group) == [UNITED.replace(b"UA", b"LH")]


def test_what_is_not_sent(group: Group) -> None:
    """A switch forbids it; an expired letter, another group's, a damaged one and one in a job are not edited."""
    group.prepare(policyEntry=_POLICY)
    group.cluster.produce(
        group.dead_letters,
        [
            died(group, 0, expires_ms=1),
            died(group, 2, of="others"),
            replace(died(group, 4), headers=[("_AMQ_ORIG_QUEUE", group.name.encode())]),
            replace(died(group, 6), value=b"\xff"),
            replace(died(group, 8), value=b'{"n": '),
        ],
    )
    names = [f"{group.dead_letters}-0@{n}" for n in range(6)]
    file = _file(group, '{"n": 8}')
    for name, problem in (
        (names[0], "it has expired"),
        (names[1], "--of-group others"),
        (names[2], "damaged"),
        (names[3], "not_utf8"),
        (names[5], "there is no dead letter"),
    ):
        refused = dlq(group, "edit", name, "--file", file, "--yes")
        assert (refused.code, problem in refused.err) == (1, True), refused
    forbidden = dlq(group, "edit", names[4], "--file", file, "--yes", "--set", "deadLetters.edit=false")
    assert "deadLetters.edit is false" in forbidden.err
    for broken in ('{"n": ', "\x00"):
        assert "not_json" in dlq(group, "edit", names[4], "--file", _file(group, broken + "x"), "--yes").err
    (group.folder / "edited").write_bytes(b"\xff")
    assert "not UTF-8" in dlq(group, "edit", names[4], "--file", file, "--yes").err
    large = _file(group, json.dumps("x" * MAX_BYTES))
    assert "at most" in dlq(group, "edit", names[4], "--file", large, "--yes").err
    assert _copies(group) == []

    # What should be JSON and is not is repaired as text.
    assert dlq_json(group, "edit", names[4], "--file", _file(group, '{"n": 8, "do": []}\n'), "--yes")["sent"] == 1
    assert _copies(group) == [b'{"n": 8, "do": []}']


def test_a_value_of_several_records(group: Group) -> None:
    """A value that does not fit into one record of the topic of the jobs."""
    group.prepare(policyEntry=_POLICY)
    dead_letter(group, range(4))
    name = f"{group.dead_letters}-0@0"
    large = json.dumps({"n": 0, "do": ["ok"], "x": "y" * (EDIT_PART_BYTES + 1000)})
    assert dlq_json(group, "edit", name, "--file", _file(group, large), "--yes")["sent"] == 1
    assert _copies(group) == [large.encode()]


def test_a_job_that_cannot_send_what_was_edited(group: Group) -> None:
    """Its value is damaged, or its letter is another one: nothing is sent, least of all the original."""
    group.prepare(policyEntry=_POLICY)
    dead_letter(group, range(2))
    settings, options = settings_of(group), JobOptions(group=group.name)
    ledger = Ledger(settings)
    jobs = []
    for partition, original in ((0, b"another letter"), (1, None)):
        letter, message = one_dead_letter(settings, ledger, f"{group.dead_letters}-{partition}@0")
        edit = Edit(original or message.value() or b"", b'{"n": 9}')
        summary = edit.summary()
        if original is None:
            edit = edit._replace(value=b"damaged")
        spec = JobSpec(
            job=f"job{partition}",
            at_ms=1,
            by="ann",
            seen=ledger.seen,
            options=options,
            selection={},
            slices=(SliceId(letter.topic, letter.partition),),
            edited=summary,
        )
        letters = {spec.slices[0]: OffsetSet([letter.offset])}
        ledger.append(spec.job, job_records(spec, letters, edit.value))
        jobs.append(spec.job)
    other = dlq_json(group, "resume", jobs[0], code=1)
    assert (other["sent"], other["refused"], other["state"]) == (0, 1, "done")
    assert "not the letter that was edited" in other["refusals"][0]
    damaged = dlq_json(group, "resume", jobs[1], code=1)
    assert "sends nothing, because its edited value cannot be read" in damaged["message"]
    assert dlq_json(group, "cancel", jobs[1], "--yes")["state"] == "cancelled"
    assert _copies(group) == []


_SCRIPT = """
import pathlib, sys
log, *arguments, file = sys.argv[1:]
file, log = pathlib.Path(file), pathlib.Path(log)
with log.open("a") as lines:
    print(f"{file.stat().st_mode:o} {file.parent.stat().st_mode:o} {file.suffix}", *arguments, file=lines)
before = file.read_text()
file.write_text('{"n": 0, "do": ["ok"]}' if before == "{\\n" else "{")
"""


def test_the_editor(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets its arguments and a private file; a wrong value can be edited again; nothing of it stays behind."""
    group.prepare(policyEntry=_POLICY)
    group.cluster.produce(group.dead_letters, [died(group, 0, do="reject")])
    script, log = group.folder / "editor.py", group.folder / "log of editor"
    script.write_text(_SCRIPT, encoding="utf-8")
    monkeypatch.setattr(dlq_letter, "has_terminal", lambda: True)
    name = f"{group.dead_letters}-0@0"
    unset = dict.fromkeys(each for each in os.environ if each.startswith("REDELIVERY_"))
    temporary = group.folder / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    command = f"{sys.executable} '{script}' '{log}' '$(touch {group.folder}/shell)'"
    runner = CliRunner(env={**unset, "VISUAL": command})
    arguments = ["dlq", "edit", name, "--config", str(group.file)]
    done = runner.invoke(app, [*arguments, "--yes"], input="y\n")
    assert done.exit_code == 0, (done.stdout, done.stderr)
    assert "not_json" in done.stderr
    assert "edit it again?" in done.stdout
    first, second = log.read_text(encoding="utf-8").splitlines()
    assert first == f"100600 40700 .json $(touch {group.folder}/shell)"
    assert second == first
    assert not (group.folder / "shell").exists(), "nothing goes through a shell"
    assert list(temporary.iterdir()) == []
    assert _copies(group) == [b'{"n": 0, "do": ["ok"]}']


@pytest.mark.parametrize(
    ("command", "problem"),
    [("false", "ended with code 1"), ("no-such-editor-here", "cannot be started"), ("'", "No closing"), ("rm", "read")],
)
def test_an_editor_that_fails(monkeypatch: pytest.MonkeyPatch, command: str, problem: str) -> None:
    """Nothing is sent, and the message says what happened."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", command)
    with pytest.raises((RedriveError, typer.BadParameter), match=problem):
        dlq_letter.edited("text", ".txt")
