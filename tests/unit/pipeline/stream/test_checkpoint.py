"""Spark's checkpoint compared with the group's offsets."""

import json
from typing import Any, cast

import pytest

from kafka_redelivery.pipeline.errors import StreamRefusedError
from kafka_redelivery.pipeline.stream import checkpoint
from kafka_redelivery.pipeline.stream.checkpoint import refuse_skipped_records
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition

PARTITION = Partition("t", 0)


def test_a_gap_is_refused_if_kafka_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Kafka does not return whether the gap has records, the query is refused."""
    monkeypatch.setattr(checkpoint, "checkpoint_offsets", lambda *_: {PARTITION: 10})
    monkeypatch.setattr(checkpoint, "_MAX_POLLS", 3)
    settings = load_settings(
        json.dumps(
            {"group": "g", "kafka": {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, "sources": [{"topic": "t"}]}
        )
    )

    with pytest.raises(StreamRefusedError, match="does not return"):
        refuse_skipped_records(cast("Any", None), settings, "c", {PARTITION: 5})
