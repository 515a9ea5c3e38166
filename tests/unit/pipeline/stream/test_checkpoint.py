"""Spark's checkpoint compared with the group's offsets."""

import json

import pytest

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.stream import checkpoint
from kafka_redelivery.pipeline.stream.checkpoint import refuse_skipped_records
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition

PARTITION = Partition("t", 0)


def test_a_gap_is_refused_if_kafka_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Kafka does not return whether the gap has records, the query is refused."""
    monkeypatch.setattr(checkpoint, "_STALLED_S", 0.5)
    settings = load_settings(
        json.dumps(
            {"group": "g", "kafka": {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, "sources": [{"topic": "t"}]}
        )
    )

    with pytest.raises(PipelineRefusedError, match=r"Kafka sent nothing for 0\.5 s;.* or remove the checkpoint"):
        refuse_skipped_records(settings, "c", {PARTITION: 10}, {PARTITION: 5})
