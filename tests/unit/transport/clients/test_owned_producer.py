"""When a producer goes on with a fresh transactional id."""

import pytest

from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients import owned_producer
from kafka_redelivery.transport.clients.owned_producer import OwnedProducer
from kafka_redelivery.transport.clients.takeover import Endurance
from kafka_redelivery.transport.errors import WriteAbortedError, WriterFencedError

_ABORTED = WriteAbortedError("made up by a test")


class _Client:
    def purge(self) -> None: ...
    def poll(self, timeout_s: float) -> None: ...


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Return the settings of the producers, none of which connects."""
    found: list[Config] = []

    def take_over(config: Config, *_: object) -> _Client:
        found.append(config)
        return _Client()

    monkeypatch.setattr(owned_producer, "take_over", take_over)
    return found


def _owned(config: Config | None = None) -> OwnedProducer:
    names = iter(range(100))
    endurance = Endurance(lambda *_, **__: None, lambda: f"fresh-{next(names)}", "one")
    own: Config = {"transactional.id": "own"}
    return OwnedProducer(own | (config or {}), endurance, None)


def test_each_series_of_aborts_uses_few_ids(opened: list[Config]) -> None:
    """An outage that aborts a thousand writes uses eight, since Kafka keeps each for days."""
    owned = _owned()
    for _ in range(1000):
        owned.aborted(_ABORTED)
    assert [each["transactional.id"] for each in opened] == ["own", *(f"fresh-{n}" for n in range(8))]


def test_a_committed_write_ends_the_series(opened: list[Config]) -> None:
    """Aborts with commits between them are no reason for a fresh id."""
    owned = _owned()
    for _ in range(100):
        for _ in range(owned_producer._FRESH_AFTER - 1):
            owned.aborted(_ABORTED)
        owned.committed()
    assert len(opened) == 1


def test_better_compression_lasts_for_the_block(opened: list[Config]) -> None:
    """The producers before and after it have the settings of the user, under either name."""
    owned = _owned({"compression.codec": "gzip"})
    with owned.compressing_more():
        assert owned.compresses_best
    assert not owned.compresses_best
    compression = [[each.get(f"compression.{name}") for name in ("codec", "type", "level")] for each in opened]
    assert compression == [["gzip", None, None], [None, "zstd", 12], ["gzip", None, None]]


def test_a_producer_that_is_fenced_meanwhile_does_not_take_its_id_back(opened: list[Config]) -> None:
    """Its owner takes a fresh one first."""
    owned = _owned()
    with pytest.raises(WriterFencedError), owned.compressing_more():
        raise WriterFencedError("made up by a test")
    assert len(opened) == 2
    assert not owned.compresses_best
