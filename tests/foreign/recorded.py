"""What other systems have written, as record.py has kept it, and `redelivery dlq` over such letters."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from tests.scenarios.cluster import Cluster, Seen, Sent
from tests.scenarios.commands import Done

_CACHE = TemporaryDirectory(prefix="redelivery-cache-")
_RECORDINGS = Path(__file__).parent / "recordings"
_FOR_EVER = {"retention.ms": "-1"}
"""The recorded times are in the past, and Kafka would delete the records."""


def recorded(system: str) -> list[Seen]:
    """Return the records of a system: those that it has read, and the dead letters that it has written."""
    document = json.loads((_RECORDINGS / f"{system}.json").read_text(encoding="utf-8"))
    return [
        Seen(
            each["topic"],
            each["partition"],
            each["offset"],
            _bytes(each["key"]),
            _bytes(each["value"]),
            tuple((name, _bytes(value)) for name, value in each["headers"]),
            each["timestampMs"],
        )
        for each in document["records"]
    ]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@dataclass(frozen=True, slots=True)
class Letters:
    """A dead-letter topic of another system."""

    cluster: Cluster
    topic: str
    mapping: tuple[str, ...] = ()
    """``FIELD=HEADER`` of each ``--map``."""

    system: str = ""
    """The name that ``--system`` gives."""

    def dlq(self, *arguments: str) -> Done:
        """Run `redelivery dlq` for the topic, without a configuration."""
        options = [word for each in self.mapping for word in ("--map", each)]
        options += ["--system", self.system] if self.system else []
        words = ["dlq", "--bootstrap", self.cluster.servers, "--topic", self.topic, *options, *arguments]
        environment: dict[str, str | None] = dict.fromkeys(
            name for name in os.environ if name.startswith("REDELIVERY_")
        )
        # Without a configuration the index is in the user's cache.
        environment["XDG_CACHE_HOME"] = _CACHE.name
        done = CliRunner(env=environment).invoke(app, words)
        return Done(done.exit_code, done.stdout, done.stderr)

    def dlq_json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Run it with ``--json`` and return the result."""
        done = self.dlq(*arguments, "--json")
        assert done.code == code, done
        found: dict[str, Any] = json.loads(done.out)
        return found


@dataclass(frozen=True, slots=True)
class Replayed(Letters):
    """A dead-letter topic of a recording, on a broker."""

    inputs: Mapping[str, Seen] = field(default_factory=dict)
    """All records that the system had read, by ``topic-partition@offset``."""

    letters: Sequence[Seen] = ()


def replay(cluster: Cluster, system: str, topic: str) -> Replayed:
    """Write the dead letters of a topic as they were recorded; the topics that they came from are empty."""
    records = recorded(system)
    letters = [each for each in records if each.topic == topic]
    read = [each for each in records if each.topic.rpartition("-")[2] not in {"dlt", "dlq"}]
    cluster.create(topic, *{each.topic for each in read}, partitions=3, config=_FOR_EVER)
    cluster.produce(
        topic, [Sent(each.value, each.key, each.headers, each.partition, each.timestamp_ms) for each in letters]
    )
    inputs = {f"{each.topic}-{each.partition}@{each.offset}": each for each in read}
    return Replayed(cluster, topic, inputs=inputs, letters=letters)
