"""The form of a redrive says which letters its page has counted, so that later ones are not sent."""

import pytest

from kafka_redelivery.cli.console.pages.send import Asked, _ends
from kafka_redelivery.cli.console.selection_form import Chosen
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.transport.protocols import Partition


def test_the_ends_come_back() -> None:
    """As they were when the page was made."""
    ends = {Partition("DLQ.orders", 1): 7, Partition("DLQ.orders", 0): 2**53 + 1}
    asked = Asked(Chosen({}, Selection(), {}), JobOptions(group="billing"), {}, {}, ends=ends)
    assert _ends(asked.ends_text) == ends


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "x", "[[1]]", '[["t", "x", 1]]', "[" * 9000, '{"a": 1}'])
def test_a_form_without_them(text: str) -> None:
    """Another program may post anything: the present ends then count, and the number of letters has to fit."""
    assert _ends(text) is None
