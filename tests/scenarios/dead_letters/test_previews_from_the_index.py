"""What commands show before they do something comes from the index; what they do is decided by the topics."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.cli.commands import confirmation
from kafka_redelivery.cli.commands.dlq_previews import quick_exportable, quick_preview, quick_removable
from kafka_redelivery.cli.commands.dlq_running import create_and_run
from kafka_redelivery.cli.commands.dlq_selection import selection
from kafka_redelivery.cli.views.dlq import preview_document, removable_document
from kafka_redelivery.dead_letters.creation import preview
from kafka_redelivery.dead_letters.exporting import exportable
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.meant import meant
from kafka_redelivery.dead_letters.purge import removable
from kafka_redelivery.dead_letters.reading import dead_letters, no_progress
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.redrive.job import JobOptions
from tests.scenarios.cluster import Sent
from tests.scenarios.letters import now_ms
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json, sent, settings_of
from tests.scenarios.running import Group, exactly

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


@pytest.mark.long
def test_both_say_the_same(group: Group) -> None:
    """For each selection and each set of options, and for what `purge` would remove."""
    _mixed(group)
    settings, name = settings_of(group), group.name
    selections: list[Mapping[str, Any]] = [
        {},
        {"keys": ["k3"]},
        {"reasons": ["re*"]},
        {"states": ["sent", "parked"]},
        {"ids": [f"{group.dead_letters}-1@1"]},
        {"where": "attempts >= 3 and key <> 'k4'"},
    ]
    options = [
        JobOptions(group=name),
        JobOptions(group=name, again=True, max_redrives=1),
        JobOptions(group=name, discard=True),
        JobOptions(group=name, discard=True, again=True),
        JobOptions(group=name, to=group.output, max_redrives=9),
    ]
    for wanted in (selection(**each) for each in selections):
        for each in options:
            quick = quick_preview(settings, wanted, each)
            assert quick is not None
            read = preview(settings, Ledger(settings), wanted, each, no_progress)
            assert preview_document(quick.preview, each) == preview_document(read, each), (wanted, each)
        exported = quick_exportable(settings, name, wanted)
        assert exported is not None
        letters = (each for each in dead_letters(settings, Ledger(settings), no_progress) if each.letter.group == name)
        assert exported == exportable(meant(letters, wanted, settings, Path()), now_ms()), wanted
    everything = dlq_json(group, "redrive", "--dry-run")
    assert (everything["parking"], everything["refused"], everything["expired"]) == (1, 1, 1)

    lines = [json.loads(line) for line in dlq(group, "export").out.splitlines()]
    said = dlq_json(group, "export", "--dry-run")
    assert (said["letters"], said["expired"]) == (len(lines), 1)
    states = Counter(each["state"] for each in said["kinds"] for _ in range(each["letters"]))
    assert states == Counter(line["state"] for line in lines)
    of_another = dlq_json(group, "export", "--dry-run", "--of-group", "another", code=1)
    assert "there is no topic another.dlq.jobs" in of_another["message"]

    for _ in range(2):
        quick_purge = quick_removable(settings)
        assert quick_purge is not None
        read_purge = removable(settings, Ledger(settings), no_progress)
        assert removable_document(quick_purge, {}) == removable_document(read_purge, {})
        assert dlq_json(group, "purge", "--yes")["removed"] == removable_document(read_purge, {})["removed"]


def test_without_an_index(group: Group) -> None:
    """One that cannot answer, or that cannot be written: all letters are read."""
    group.prepare()
    dead_letter(group, range(4))
    by_key = selection(keys=["k3"])
    (group.folder / "index").write_text("no folder", encoding="utf-8")
    assert quick_preview(settings_of(group), by_key, JobOptions(group=group.name)) is None
    done = dlq(group, "redrive", "--dry-run", "--key", "k3")
    assert (done.code, f"1 dead letters to {group.ready}" in done.out) == (0, True)
    assert "without an index all dead letters are read" in done.err
    assert dlq(group, "purge", "--dry-run").code == 0
    assert "4 dead letters to export\ndry run" in dlq(group, "export", "--dry-run").out

    (group.folder / "index").unlink()
    group.configure(deadLetters={"index": {"path": str(group.folder / "index"), "values": False}})
    assert quick_preview(settings_of(group), by_key, JobOptions(group=group.name)) is None
    assert dlq_json(group, "redrive", "--dry-run", "--key", "k3")["letters"] == 1
    assert dlq_json(group, "export", "--dry-run", "--key", "k3")["letters"] == 1


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
    """The job has what was shown, without letters that died since; if it cannot be that, it is shown again."""
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

    def redrive(wanted: Selection, before: Callable[[], object]) -> int:
        asked.clear()
        monkeypatch.setattr(confirmation, "confirm", answering(before))
        options = JobOptions(group=group.name)
        settings = settings_of(group)
        create_and_run(settings, wanted, options, Path(), None, dry_run=False, yes=False, as_json=False)
        return len(asked)

    first = selection(ids=[f"{group.dead_letters}-{number}@{number}" for number in range(2)])
    assert redrive(first, lambda: dead_letter(group, [6, 7])) == 1
    assert sent(group) == exactly([0, 3])
    others = ["--id", f"{group.dead_letters}-1@0"]
    assert redrive(Selection(), lambda: dlq_json(group, "discard", "--yes", *others)) == 2
    assert sent(group) == exactly([0, 2, 3, 4, 5, 6, 7])
