"""What a destination of a broker is called as a Kafka topic."""

from __future__ import annotations

import re

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")


def kafka_topic(name: str) -> str:
    """The name with every character that Kafka does not allow as ``_``."""
    topic = _ILLEGAL.sub("_", name)
    return topic.replace(".", "_") if topic in {".", ".."} else topic
