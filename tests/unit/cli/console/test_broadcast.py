"""Events that were sent while a page was on its way."""

import pytest

from kafka_redelivery.cli.console.live import Broadcast


def test_a_page_makes_up_for_what_it_has_missed() -> None:
    """Only events after the page was made are named, also by an address that is damaged."""
    broadcast = Broadcast()
    broadcast.publish("letters", "changed")
    seen = broadcast.seen
    assert broadcast.missed(seen) == {}
    broadcast.publish("letters", "changed")
    broadcast.publish("jobs", "changed")
    assert broadcast.missed(seen) == {"letters": "changed", "jobs": "changed"}
    assert broadcast.missed(broadcast.seen) == {}


@pytest.mark.parametrize("seen", ["", ",", "letters", "letters.x", "letters.0,letters.9", "." * 100])
def test_a_damaged_address_has_seen_nothing(seen: str) -> None:
    """So the page asks for everything again."""
    broadcast = Broadcast()
    assert broadcast.missed(seen) == {}
    broadcast.publish("letters", "changed")
    assert broadcast.missed(seen) == {"letters": "changed"}
