"""How the preview counts a letter whose record is gone, or has headers that the client cannot return."""

import pytest

from kafka_redelivery.dead_letters.creation import Preview, count_by_source
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.pointers import Source
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.wire.headers import HeaderList
from tests.unit.consumers.records import Fetched


class Unreadable(Fetched):
    """Behaves like the client class the first time that it is asked."""

    def headers(self) -> HeaderList | None:
        raise SystemError("returned a result with an exception set")


@pytest.mark.parametrize("no_content", [True, False])
def test_the_preview_goes_on(*, no_content: bool) -> None:
    """One record of a source must not keep all other letters from being sent."""
    found = Preview(Selection(), JobOptions(group="dead"), None, 0)
    source = Source(Unreadable("orders", 0, 7))
    count_by_source(found, "orders", 0, "share-group", source, no_content=no_content)
    assert (found.total, found.refused, found.fetched, found.targets.total()) == (1, 1, 0, 0)


@pytest.mark.parametrize("there", [True, False])
def test_a_letter_without_record_is_not_parked(*, there: bool) -> None:
    """A job looks for the content of a letter before it counts how often that was sent."""
    found = Preview(Selection(), JobOptions(group="dead"), None, 0)
    source = Source(Fetched("orders", 0, 7), by_time_only=True) if there else Source(None, "it is not there")
    count_by_source(found, "orders", 99, "share-group", source, no_content=True)
    assert (found.parking, found.gone, found.fetched) == (there, not there, there)
