"""Topics that no dead letter is sent to."""

import pytest

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import refuse_target
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.redrive.job import JobOptions

_SETTINGS = load_settings(
    """
group: billing
kafka: {bootstrap.servers: 'localhost:9092'}
sources: [{topic: orders}]
handler: {callable: 'examples:handle'}
"""
)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("orders", "is a source"),
        ("DLQ.orders", "is a dead-letter topic"),
        ("billing.retry.1s", "is an internal topic"),
        ("billing.control", "is an internal topic"),
        ("billing.dlq.parked", "is an internal topic"),
        ("billing.ready.orders", "is a ready topic"),
        ("shipping.retry.1s", "is an internal topic"),
        ("shipping.journal", "is an internal topic"),
        ("shipping.dlq.jobs", "is an internal topic"),
        ("shipping.ready.orders", "is a ready topic"),
        ("__consumer_offsets", "is an internal topic"),
    ],
)
def test_a_target_that_is_refused(topic: str, reason: str) -> None:
    """Letters of another group may not go to the internal topics of either."""
    with pytest.raises(RedriveError, match=reason):
        refuse_target(_SETTINGS, JobOptions(group="shipping", to=topic))


@pytest.mark.parametrize(
    "options",
    [
        JobOptions(group="billing", ready="elsewhere"),
        JobOptions(group="shipping", ready="elsewhere", to="elsewhere"),
    ],
)
def test_options_that_exclude_each_other(options: JobOptions) -> None:
    """--ready is for the letters of another group, and without --to."""
    with pytest.raises(RedriveError, match="--ready"):
        refuse_target(_SETTINGS, options)


@pytest.mark.parametrize("options", [JobOptions(group="billing"), JobOptions(group="shipping", ready="theirs")])
def test_what_is_allowed(options: JobOptions) -> None:
    """Own letters go to the ready topics, those of another group to one with any other name."""
    refuse_target(_SETTINGS, options)
