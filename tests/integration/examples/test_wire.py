"""The handler's codecs can decode flights and cannot decode broken records."""

from __future__ import annotations

from examples.flights import data
from examples.flights.broken import broken_record, record_of
from examples.flights.layout import layout
from examples.flights.scenario import Broken, scenario
from examples.flights.wire import CONFIG, FLIGHTS, flight_record
from kafka_redelivery.serdes.build import SerdeSettings, build_codec
from kafka_redelivery.serdes.errors import DecodeError
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import SerdeSection

_SETTINGS = load_settings(CONFIG.read_text(encoding="utf-8"))


def _decodes(section: SerdeSection, data_: bytes | None) -> bool:
    schemas = {number: CONFIG.parent / path for number, path in section.schemas.items()}
    codec = build_codec(SerdeSettings(section.format, schemas, write_id=section.write_id))
    try:
        codec.decode(data_)
    except DecodeError:
        return False
    return True


def test_the_configuration_decodes_flights() -> None:
    """Every flight can be decoded with the codecs of redelivery.yaml."""
    (source,) = _SETTINGS.sources
    assert source.topic == FLIGHTS
    for record in data.flights(1):
        key, value = flight_record(record)
        assert _decodes(source.key, key)
        assert _decodes(source.value, value)


def test_no_broken_record_can_be_decoded() -> None:
    """Of each broken record the key or the value is refused."""
    (source,) = _SETTINGS.sources
    given = scenario(data.flights(2), data.planes())
    broken = [record_of(record) for record in given.records if isinstance(record, Broken)]
    assert len(broken) == 300
    for key, value in broken:
        assert not (_decodes(source.key, key) and _decodes(source.value, value))


def test_broken_records_are_broken_in_many_ways() -> None:
    """All eight kinds occur, the same in every run, and none is a tombstone."""
    given = scenario(data.flights(2), data.planes())
    first = next(record.flight for record in given.records if isinstance(record, Broken))
    kinds = [broken_record(Broken(number, first)) for number in range(8)]
    assert len(set(kinds)) == 8
    assert kinds == [broken_record(Broken(number, first)) for number in range(8)]


def test_the_layout_follows_the_policy() -> None:
    """There is a tier for each redelivery, with the name of the group's topic."""
    found = layout()
    assert found.tiers == tuple(f"seat-miles.retry.{delay}s" for delay in (1, 2, 4, 8))
    assert found.redeliveries == _SETTINGS.policy_entry.redelivery_policy.maximum_redeliveries
    assert (found.ready, found.journal) == ("seat-miles.ready.flights", "seat-miles.journal")
    assert found.dead_letters == "DLQ.flights"
