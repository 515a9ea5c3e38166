"""Settings that a query does not support are refused in one message."""

import json
from typing import Any

import pytest

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.stream.stream import validate_settings
from kafka_redelivery.topology.config.loading import load_settings

GOOD: dict[str, Any] = {
    "group": "g",
    "kafka": {"bootstrap.servers": "a:1"},
    "sources": [{"topic": "t"}],
    "handler": {"callable": "m:f"},
    "pipeline": {"checkpoint": "c"},
}


def refusal(**changes: Any) -> str:  # noqa: ANN401 - as in a file
    """Return the error message for a configuration with these changes."""
    settings = load_settings(json.dumps(GOOD | changes))
    with pytest.raises(PipelineRefusedError) as raised:
        validate_settings(settings)
    return str(raised.value)


def test_a_valid_configuration_passes() -> None:
    """The result is the section ``pipeline``."""
    assert validate_settings(load_settings(json.dumps(GOOD))).checkpoint == "c"


@pytest.mark.parametrize("ordering", ["partition", "key", "unordered"])
def test_slots_and_their_order_are_supported(ordering: str) -> None:
    """They have the same meaning as in workers."""
    handler = {"callable": "m:f", "slots": 4, "ordering": ordering}

    assert validate_settings(load_settings(json.dumps(GOOD | {"handler": handler}))).checkpoint == "c"


def test_one_message_names_all_faults() -> None:
    """Each unsupported setting of the handler is in the message."""
    handler = {
        "callable": "m:f",
        "slots": 4,
        "vectorized": True,
        "nonBlockingRedelivery": False,
        "persistDeliveryCountBeforeDelivery": True,
    }

    message = refusal(handler=handler)

    for name in ("slots", "nonBlockingRedelivery", "persistDeliveryCountBeforeDelivery"):
        assert f"handler.{name}" in message


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"mode": "auto"}, "mode is auto"),
        ({"handler": None}, "section handler"),
        ({"pipeline": None}, "section pipeline"),
        ({"handler": {"callable": "m:f", "batch": {}}}, "handler.batch is set"),
        ({"handler": {"callable": "m:f", "batch": {}}}, "vectorized: true"),
        (
            {
                "handler": {"callable": "m:f", "vectorized": True},
                "sources": [{"topic": "t", "value": {"format": "json"}}],
            },
            "format json",
        ),
    ],
)
def test_a_missing_section_or_unsupported_setting_is_refused(changes: dict[str, Any], named: str) -> None:
    """The message names the section or setting."""
    assert named in refusal(**changes)
