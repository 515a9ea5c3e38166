"""Which origins `erase --origin` means: what it erases is gone for good."""

import re

import pytest

from kafka_redelivery.pipeline.archive.delta_table import expression


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        ("orders*", ["orders", "orders.eu"]),
        ("*orders", ["orders", "preorders"]),
        ("order?", ["orders"]),
        ("[op]*orders", ["preorders"]),
    ],
)
def test_a_pattern_means_whole_names(pattern: str, chosen: list[str]) -> None:
    """Spark's ``rlike`` looks for the expression anywhere in a name, as ``re.search`` does."""
    names = ["orders", "preorders", "orders.eu", "bills"]
    assert [name for name in names if re.search(expression(pattern), name)] == chosen
