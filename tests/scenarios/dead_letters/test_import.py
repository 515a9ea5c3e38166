"""Exported dead letters are imported exactly once, however often, and by whomever the import is repeated."""

import json
from threading import Event

import pytest

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.importing import Import
from kafka_redelivery.dead_letters.ledger import open_dlq_writer
from kafka_redelivery.dead_letters.reading import no_progress
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.scenarios.letters import emptied, now_ms
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json, sent, settings_of
from tests.scenarios.running import Group, exactly

pytestmark = pytest.mark.kafka


def test_letters_come_back_once(group: Group) -> None:
    """Byte for byte; not those that have never left; and they can be sent again."""
    group.prepare()
    dead_letter(group, range(30))
    others = f"{group.name}-others"
    group.cluster.create(f"{others}.dlq.jobs", f"{others}.dlq.actions")
    group.cluster.produce(group.dead_letters, [died(group, 40, of=others), died(group, 41, expires_ms=now_ms() + 1)])
    file = group.folder / "letters.jsonl"
    file.write_text(dlq(group, "export").out + dlq(group, "export", "--of-group", others).out, encoding="utf-8")
    name = str(file)
    before = group.cluster.read(group.dead_letters)
    nothing = dlq_json(group, "import", name, "--yes")
    assert (nothing["letters"], nothing["present"], nothing["expired"], nothing["ofOthers"]) == (0, 30, 1, 1)

    for partition in (0, 1):
        group.cluster.delete_before(group.dead_letters, partition, 10)
    assert dlq(group, "import", name).code == exit_codes.USAGE, "there is no terminal to ask on"
    previewed = dlq_json(group, "import", name, "--dry-run")
    assert (previewed["letters"], previewed["present"], previewed["topics"]) == (20, 10, {group.dead_letters: 20})
    assert dlq_json(group, "import", name, "--yes")["letters"] == 20
    assert dlq_json(group, "import", name, "--yes")["letters"] == 0
    imported = [each for each in group.cluster.read(group.dead_letters) if each.header("dlqImportedFrom")]
    assert len(imported) == 20
    known = {(each.partition, each.key, each.value, tuple(each.headers)) for each in before}
    kept = {(each.partition, each.key, each.value, tuple(each.headers[:-1])) for each in imported}
    assert kept < known

    # What was imported is exported, deleted and imported again: it is still the same letter.
    file.write_text(dlq(group, "export").out + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert dlq_json(group, "import", name, "--yes")["letters"] == 0
    assert dlq_json(group, "redrive", "--yes")["sent"] == 30
    group.cluster.wait_for_markers(group.ready)
    assert sent(group) == exactly(range(30))
    assert all(each.header("dlqImportedFrom") is None for each in group.cluster.read(group.ready))


def test_an_import_that_was_interrupted_is_repeated(group: Group) -> None:
    """What a dead import has left open is not there, what it has committed is; an older import ends."""
    group.prepare()
    dead_letter(group, range(8))
    file = group.folder / "letters.jsonl"
    lines = dlq(group, "export").out.splitlines()
    file.write_text("\n".join([*lines, "", lines[0]]), encoding="utf-8")
    for partition in (0, 1):
        group.cluster.delete_before(group.dead_letters, partition, 4)
    settings = settings_of(group)
    older = Import(settings, group.name, file)
    assert len(older.preview(no_progress).missing) == 8
    dead = open_dlq_writer(settings, group.name, "import")
    document = json.loads(lines[0])
    mark: HeaderList = [("dlqImportedFrom", f"{document['id']}/{document['timestampMs']}".encode())]
    dead.write([ProducerRecord(group.dead_letters, 0, None, b'{"n": 0}', mark)], {})
    newer = Import(settings, group.name, file)
    assert len(newer.preview(no_progress).missing) == 7
    assert newer.run(Event(), no_progress)
    assert older.run(Event(), no_progress), "it has read again what is missing"
    dead.close()
    assert sorted(json.loads(each.value or b"")["n"] for each in group.cluster.read(group.dead_letters)) == [*range(8)]


OF_A_SOURCE = '{"version":1,"id":"orders-0@1","timestampMs":1,"key":null,"value":null,"headers":[]}'


@pytest.mark.parametrize(("line", "problem"), [("{}", "line 1: .* not a line"), (OF_A_SOURCE, "no dead-letter topic")])
def test_what_cannot_be_imported(group: Group, line: str, problem: str) -> None:
    """Nothing is written."""
    group.prepare()
    file = group.folder / "letters.jsonl"
    file.write_text(line, encoding="utf-8")
    with pytest.raises(RedriveError, match=problem):
        Import(settings_of(group), group.name, file).preview(no_progress)
    assert emptied(group)
