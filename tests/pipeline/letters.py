"""Creates dead letters as workers write them."""

import json
from collections.abc import Sequence
from typing import Any

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import dead_letter_headers
from tests.scenarios.cluster import Cluster, Sent

DAY_MS = 86_400_000
FIRST_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""

KEPT = {"retention.ms": "-1"}
"""Settings of a topic with old records."""


def settings_of(cluster: Cluster, group: str, *sources: str, **sections: object) -> Settings:
    """Return a configuration with JSON sources, each with its own dead-letter topic."""
    return load_settings(json.dumps(document_of(cluster, group, *sources) | sections))


def document_of(cluster: Cluster, group: str, *sources: str) -> dict[str, Any]:
    """Return the same configuration as a document."""
    return {
        "group": group,
        "kafka": {"bootstrap.servers": cluster.servers},
        "sources": [{"topic": source, "value": {"format": "json"}} for source in sources],
        "policyEntry": {"deadLetterStrategy": {"kind": "individual"}},
    }


def letter(
    source: str,
    offset: int,
    *,
    at_ms: int = FIRST_MS,
    value: bytes | None = b'{"n":1}',
    failure: Failure | None = None,
    deliveries: int = 5,
    headers: Sequence[tuple[str, bytes | None]] = (),
    group: str = "billing",
) -> Sent:
    """Return a dead letter of partition 0 of a source."""
    lineage = Lineage(source, 0, offset, at_ms - 1000, deliveries)
    failure = failure or Failure(FailureKind.RAISED, "KeyError", f"no plane {offset}")
    decision = DeadLetter(Reason.REDELIVERIES_EXCEEDED, failure, 0)
    made = dead_letter_headers(lineage, group, list(headers), decision, at_ms)
    return Sent(value, b"key-%d" % offset, made, 0, at_ms)
