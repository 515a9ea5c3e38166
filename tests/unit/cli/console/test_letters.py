"""The console's questions to the index: asked once until the index changes, of files that stay open until then."""

from pathlib import Path

import pytest

from kafka_redelivery.cli.console.letters import Letters, NotReadYetError
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.consumers.errors import IndexUnusableError
from kafka_redelivery.dead_letters.index import index as index_module
from kafka_redelivery.dead_letters.index import store
from kafka_redelivery.dead_letters.index.files import Manifest
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.index.rows import table_of
from kafka_redelivery.dead_letters.index.store import Store
from kafka_redelivery.topology.config.loading import load_settings
from tests.unit.cli.console.consoles import CONFIGURATION, client, console_of, guarded
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import BASIS, SLOTS, TOPIC, batch_of, published, rows_of
from tests.unit.dead_letters.index.test_selecting import opened


def _letter(at: int) -> Fetched:
    cause = b'{"reason":"undecodable","exception":"","message":"no JSON"}'
    headers = [("_AMQ_ORIG_QUEUE", b"billing"), ("dlqDeliveryFailureCause", cause)]
    return Fetched(TOPIC, 0, at, b"k", b"v", [*headers], NOW)


def _number(index: Index) -> int:
    return int(index.rows("SELECT count(*) FROM letters")[0][0])


class _Counted:
    """Counts how often the files are opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = 0
        really = store.database

        def database(*arguments: object) -> object:
            self.opened += 1
            return really(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(index_module, "database", database)


def test_what_is_open_and_known_ends_with_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer and no open file is older than the last change; the files are closed when no page is open."""
    counted = _Counted(monkeypatch)
    folder = published(tmp_path / "billing", [_letter(at) for at in range(3)])
    writer = opened(folder)
    letters = Letters(load_settings(CONFIGURATION), ConsoleOptions())
    with pytest.raises(NotReadYetError):
        letters.ask("number", _number)
    letters._writer, letters._state = writer, 1
    assert [letters.ask(name, _number) for name in ("a", "b", "a")] == [3, 3, 3]
    assert counted.opened == 1
    assert not letters._lock.locked()

    manifest = folder.manifest()
    assert manifest is not None
    store = Store(folder)
    more = store.write("letters", [table_of(rows_of().columns(batch_of([_letter(at) for at in range(3, 5)])))])
    store.close()
    files = (*manifest.letter_files, more)
    folder.publish(Manifest(basis=BASIS, next_slot=len(SLOTS), slots=SLOTS, letter_files=files, refreshed_ms=1))
    assert letters.ask("c", _number) == 3, "a reader sees the index as it was when it was opened"
    letters._changed(writer)
    assert [letters.ask(name, _number) for name in ("a", "c")] == [5, 5]
    assert counted.opened == 2

    letters.rest()
    assert letters.ask("d", _number) == 5
    assert counted.opened == 3
    letters.rest()


def test_an_answer_stays_with_a_remark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that cannot be decoded, or cannot be counted, take away neither the texts nor the list."""
    console = console_of(tmp_path)
    console.letters._writer, console.letters._state = opened(published(tmp_path / "billing", [_letter(0)])), 1
    browser = client(guarded(console))

    def fail(*_: object) -> str:
        raise IndexUnusableError("the disk is gone")

    for said, undecoded in (("1 value", lambda *_: "1 value"), ("the disk is gone", fail)):
        monkeypatch.setattr(Index, "undecoded", undecoded)
        console.letters._answers.clear()
        for path, content in (("failures/texts", "<b>1</b>"), ("letters", "<b>1</b> letter"), ("failures", "<b>1</b>")):
            page = browser.get(f"/{path}", params={"where": "value is not null", "state": "any"}).text
            assert said in page
            assert content in page
