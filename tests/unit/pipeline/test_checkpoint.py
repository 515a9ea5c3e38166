"""Spark's notes against the group's offsets."""

import json
from typing import Any, cast

import pytest

from pipeline import checkpoint
from pipeline.checkpoint import refuse_gaps
from pipeline.errors import StreamRefusedError
from topology.configuration import load_settings
from transport.protocols import Partition

PLACE = Partition("t", 0)


def test_a_gap_that_nobody_can_look_into_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka does not say whether there are records between the group and the checkpoint: then there may be some."""
    monkeypatch.setattr(checkpoint, "noted_start", lambda *_: {PLACE: 10})
    monkeypatch.setattr(checkpoint, "_LOOKS", 3)
    settings = load_settings(
        json.dumps(
            {"group": "g", "kafka": {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, "sources": [{"topic": "t"}]}
        )
    )

    with pytest.raises(StreamRefusedError, match="does not tell"):
        refuse_gaps(cast("Any", None), settings, "c", {PLACE: 5})
