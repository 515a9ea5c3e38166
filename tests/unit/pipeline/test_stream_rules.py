"""What a query cannot heed is refused, all of it at once."""

import json
from typing import Any

import pytest

from pipeline.errors import StreamRefusedError
from pipeline.stream_rules import refuse_what_means_nothing
from topology.configuration import load_settings

GOOD: dict[str, Any] = {
    "group": "g",
    "kafka": {"bootstrap.servers": "a:1"},
    "sources": [{"topic": "t"}],
    "handler": {"callable": "m:f"},
    "pipeline": {"checkpoint": "c"},
}


def refusal(**changes: Any) -> str:  # noqa: ANN401 - as in a file
    """What is said about a configuration with these changes."""
    settings = load_settings(json.dumps(GOOD | changes))
    with pytest.raises(StreamRefusedError) as raised:
        refuse_what_means_nothing(settings)
    return str(raised.value)


def test_a_good_configuration_passes() -> None:
    """The section comes back."""
    assert refuse_what_means_nothing(load_settings(json.dumps(GOOD))).checkpoint == "c"


def test_all_faults_are_told_at_once() -> None:
    """Each setting that means nothing here is named."""
    handler = {
        "callable": "m:f",
        "slots": 4,
        "ordering": "key",
        "nonBlockingRedelivery": False,
        "persistDeliveryCountBeforeDelivery": True,
    }

    told = refusal(handler=handler)

    for name in ("slots", "ordering", "nonBlockingRedelivery", "persistDeliveryCountBeforeDelivery"):
        assert f"handler.{name}" in told


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"mode": "auto"}, "mode is auto"),
        ({"handler": None}, "section handler"),
        ({"pipeline": None}, "section pipeline"),
        (
            {
                "handler": {"callable": "m:f", "vectorized": True},
                "sources": [{"topic": "t", "value": {"format": "json"}}],
            },
            "format json",
        ),
    ],
)
def test_what_is_missing_or_cannot_be(changes: dict[str, Any], named: str) -> None:
    """The message names it."""
    assert named in refusal(**changes)
