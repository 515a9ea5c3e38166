"""What commands show before they do something is what they do."""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.cli import options
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.choosing import selection_of
from kafka_redelivery.dead_letters.creation import _listed, create
from kafka_redelivery.dead_letters.exporting import exportable
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import LetterState, Selection
from kafka_redelivery.dead_letters.reading import letter_ends, letter_in
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.wire.headers import has_expired
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from tests.scenarios.cluster import Sent
from tests.scenarios.letters import now_ms
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json, previewed, sent, settings_of
from tests.scenarios.running import Group, exactly
from tests.unit.dead_letters.model import Standings, matches

pytestmark = pytest.mark.kafka


def _mixed(group: Group) -> None:
    """Write letters that are waiting, sent, discarded, parked, expired, damaged, sent before, and another group's."""
    group.prepare()
    dead_letter(group, range(8))
    dlq_json(group, "redrive", "--yes", "--key", "k1", "--key", "k2")
    dlq_json(group, "discard", "--yes", "--id", f"{group.dead_letters}-0@0")
    marked = died(group, 12)
    marked = Sent(marked.value, marked.key, [*marked.headers, ("redrive", b"0123456789/0@3/3")], 0)
    group.cluster.produce(group.dead_letters, [marked])
    dlq_json(group, "redrive", "--yes", "--id", f"{group.dead_letters}-0@4")
    cut = [pair for pair in died(group, 13, reason=Reason.BAD_HEADERS).headers if pair[0] != "_AMQ_ORIG_MESSAGE_ID"]
    group.cluster.produce(
        group.dead_letters,
        [
            died(group, 14, expires_ms=now_ms() - 1000),
            died(group, 15, expires_ms=now_ms() + 3_600_000, reason=Reason.REJECTED),
            died(group, 16, of="another"),
            Sent(b"{}", b"cut", cut, 1),
            marked,
        ],
    )


def _expected(settings: Settings, options: JobOptions, wanted: Selection) -> tuple[set[str], dict[str, LetterState]]:
    """Return the letters that a job lists, and those that an export has, each read from its topic and judged alone."""
    ledger, listed, exported = Ledger(settings), set(), {}
    standings = Standings(ledger.jobs, ledger.actions, ledger.topics)
    ends = letter_ends(settings, ledger.partition_counts)
    starts = PartitionOffsets(settings.kafka).log_start_offsets(ends)
    for message in read_between(settings.kafka, settings.group, starts, ends):
        letter = letter_in(message, settings)
        standing = standings.of(letter.topic, letter.partition, letter.offset)
        if letter.group == settings.group and matches(wanted, letter, standing):
            exported[letter.id] = standing.state
            if standing.may_be_sent(again=options.again) and not has_expired(letter.expiration_ms, now_ms()):
                listed.add(letter.id)
    return listed, exported


@pytest.mark.long
def test_a_preview_is_what_a_job_has(group: Group) -> None:
    """For each selection and each set of options; so is what an export says, and what `purge` would remove."""
    _mixed(group)
    settings, name = settings_of(group), group.name
    selections: list[Mapping[str, Any]] = [
        {},
        {"key": ["k3"]},
        {"reason": ["re*"]},
        {"state": ["sent", "parked"]},
        {"id": [f"{group.dead_letters}-1@1"]},
    ]
    options = [
        JobOptions(group=name),
        JobOptions(group=name, again=True, max_redrives=1),
        JobOptions(group=name, discard=True),
        JobOptions(group=name, discard=True, again=True),
        JobOptions(group=name, to=group.output, max_redrives=9),
    ]
    for wanted in (selection_of(each, now_ms()) for each in selections):
        for each in options:
            listed, exported = _expected(settings, each, wanted)
            with previewed(settings, each, wanted) as (index, chosen):
                found = {
                    f"{topic}-{number}@{at}" for (topic, number), its in _listed(index, chosen).items() for at in its
                }
                assert found == listed, (wanted, each)
                assert chosen.total == len(listed)
                assert exportable(index, wanted, now_ms()).total == len(exported)
    everything = dlq_json(group, "redrive", "--dry-run")
    assert (everything["parking"], everything["refused"], everything["expired"]) == (1, 1, 1)

    lines = [json.loads(line) for line in dlq(group, "export").out.splitlines()]
    assert {line["id"]: line["state"] for line in lines} == _expected(settings, options[0], Selection())[1]
    said = dlq_json(group, "export", "--dry-run")
    assert (said["letters"], said["expired"]) == (len(lines), 1)
    states = Counter(each["state"] for each in said["kinds"] for _ in range(each["letters"]))
    assert states == Counter(line["state"] for line in lines)
    of_another = dlq_json(group, "export", "--dry-run", "--of-group", "another", code=1)
    assert "there is no topic another.dlq.jobs" in of_another["message"]

    for _ in range(2):
        said = dlq_json(group, "purge", "--dry-run")
        assert dlq_json(group, "purge", "--yes")["removed"] == said["removed"]


def test_without_a_kept_index(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """One that lacks what is asked for, or cannot be written: all letters are read, into a temporary one."""
    group.prepare()
    dead_letter(group, range(4))
    (group.folder / "index").write_text("no folder", encoding="utf-8")
    done = dlq(group, "redrive", "--dry-run", "--key", "k3")
    assert (done.code, f"1 dead letter to {group.ready}" in done.out) == (0, True)
    assert "without an index all dead letters are read" in caplog.text
    assert dlq(group, "purge", "--dry-run").code == 0
    assert "4 dead letters to export\ndry run" in dlq(group, "export", "--dry-run").out

    (group.folder / "index").unlink()
    group.configure(deadLetters={"index": {"path": str(group.folder / "index"), "values": False}})
    assert dlq_json(group, "redrive", "--dry-run", "--key", "k3")["letters"] == 1
    assert dlq_json(group, "export", "--dry-run", "--key", "k3")["letters"] == 1
    assert dlq_json(group, "redrive", "--yes", "--key", "k3")["sent"] == 1
    assert not list((group.folder / "index").rglob("letters-*"))


def test_a_kept_index_that_cannot_be_written_any_more(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, for example: commands that have no --index go on with a temporary one, too, and remove it."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    group.prepare()
    dead_letter(group, range(2))
    name = f"{group.dead_letters}-0@0"
    assert dlq_json(group, "redrive", "--yes")["sent"] == 2
    (folder,) = (group.folder / "index").iterdir()
    (folder / "manifest.new").mkdir()
    assert dlq_json(group, "show", name)["state"] == "sent"
    assert dlq_json(group, "redrive", "--yes", "--again", "--id", name)["sent"] == 1
    assert "without an index all dead letters are read" in caplog.text
    assert not list(temporary.glob("redelivery-index-*"))


def test_another_folder(group: Group, tmp_path: Path) -> None:
    """Each command that previews takes the folder of the index, so that a group has one index."""
    group.prepare()
    dead_letter(group, range(4))
    folder = tmp_path / "indexes"
    listed = dlq_json(group, "list", "--index", str(folder))["letters"]
    first = sorted(path.name for path in folder.iterdir())
    for command in ("redrive", "discard", "export"):
        found = dlq_json(group, command, "--dry-run", "--index", str(folder))
        assert found["letters"] == listed == 4, command
    assert dlq_json(group, "purge", "--dry-run", "--index", str(folder))["removed"] == 0
    assert sorted(path.name for path in folder.iterdir()) == first
    assert not (group.folder / "index").exists()


def test_a_person_says_yes(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job has what was shown, without letters that died since, or that another job has claimed since."""
    group.prepare()
    dead_letter(group, range(6))
    asked: list[str] = []

    def answering(before: Callable[[], object]) -> Callable[[str], bool]:
        def confirm(question: str) -> bool:
            asked.append(question)
            if len(asked) == 1:
                before()
            return True

        return confirm

    def redrive(before: Callable[[], object], *wanted: str) -> int:
        asked.clear()
        monkeypatch.setattr(options, "confirm", answering(before))
        monkeypatch.setattr(options, "can_ask", lambda **_: True)
        assert dlq(group, "redrive", *wanted).code == 0
        return len(asked)

    first = (f"--id={group.dead_letters}-{number}@{number}" for number in range(2))
    assert redrive(lambda: dead_letter(group, [6, 7]), *first) == 1
    assert sent(group) == exactly([0, 3])
    others = ["--id", f"{group.dead_letters}-1@0"]
    assert redrive(lambda: dlq_json(group, "discard", "--yes", *others)) == 1
    assert sent(group) == exactly([0, 2, 3, 4, 5, 6, 7])
    last = dlq_json(group, "jobs")["jobs"][-1]
    assert (last["letters"], last["inOtherJobs"]) == (5, 1)


def test_what_was_shown_is_gone_from_the_disk(group: Group) -> None:
    """Another configuration of the group has replaced the index during the question: nothing is sent by guess."""
    group.prepare()
    dead_letter(group, [0, 2])
    settings, options = settings_of(group), JobOptions(group=group.name)
    with previewed(settings, options) as (index, chosen):
        dlq_json(group, "discard", "--id", f"{group.dead_letters}-0@0", "--yes")
        dead_letter(group, [7])
        group.configure(deadLetters={"index": {"path": str(group.folder / "index"), "values": False}})
        dlq_json(group, "list")
        with pytest.raises(RedriveError, match="have changed since they were shown"):
            create(Ledger(settings), index, chosen)
    assert [job["kind"] for job in dlq_json(group, "jobs")["jobs"]] == ["discard"]


@pytest.mark.parametrize("kind", ["standings", "letters"])
def test_a_bit_that_flips_sends_nothing(group: Group, kind: str) -> None:
    """In a file whose size and time are as before. The index is built anew, and the next command is right."""
    group.prepare()
    dead_letter(group, range(4))
    assert dlq_json(group, "redrive", "--yes")["sent"] == 4
    dead_letter(group, [4])
    settings, options = settings_of(group), JobOptions(group=group.name)
    with previewed(settings, options) as (index, chosen):
        file = next(index.path.glob(f"{kind}-*"))
        before, content = file.stat(), bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(RedriveError, match="nothing is done; preview again"):
            create(Ledger(settings), index, chosen)
    assert dlq_json(group, "redrive", "--yes")["sent"] == 1
    assert sent(group) == exactly(range(5))
