"""Dead letters with the headers that workers write, the command `redelivery dlq`, and what it has sent."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.dead_letters.creation import Preview, create, preview
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.reading import letter_ends
from kafka_redelivery.dead_letters.source import LetterSource
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.job import Job, JobOptions
from kafka_redelivery.topology.wire.headers import dead_letter_headers
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import Done
from tests.scenarios.running import Group
from tests.unit.dead_letters.model import Standings


def settings_of(group: Group) -> Settings:
    """Return the configuration of a group."""
    return load_settings(group.file.read_text(encoding="utf-8"))


def died(
    group: Group,
    n: int,
    *,
    reason: Reason = Reason.REDELIVERIES_EXCEEDED,
    exception: str = "ConnectionError",
    of: str | None = None,
    expires_ms: int = 0,
    do: str = "ok",
    frames: tuple[str, ...] = (),
) -> Sent:
    """Make the dead letter of source record ``n``, in partition ``n % 2``, that is number ``n`` there, too.

    ``do``: what the handler does when it gets the record again. ``frames``: those of the code in which it failed.
    """
    lineage = Lineage(group.source, n % 2, n, 1_700_000_000_000, deliveries=3)
    failure = Failure(FailureKind.RAISED, exception, f"the bank is down for {n}", frames=frames)
    decision = DeadLetter(reason, failure, expiration_ms=expires_ms)
    user = [("traceparent", b"00-%d" % n)]
    headers = dead_letter_headers(lineage, of or group.name, user, decision, time.time_ns() // 1_000_000)
    return Sent(json.dumps({"n": n, "do": [do]}).encode(), b"k%d" % (n % 7), headers, n % 2)


def dead_letter(group: Group, numbers: Iterable[int]) -> None:
    """Write dead letters."""
    group.cluster.produce(group.dead_letters, [died(group, n) for n in numbers])


def dlq(group: Group, *arguments: str) -> Done:
    """Run `redelivery dlq` in this process."""
    unset = dict.fromkeys(name for name in os.environ if name.startswith("REDELIVERY_"))
    done = CliRunner(env=unset).invoke(app, ["dlq", *arguments, "--config", str(group.file)])
    return Done(done.exit_code, done.stdout, done.stderr)


def dlq_json(group: Group, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run `redelivery dlq` with ``--json`` and return the result."""
    done = dlq(group, *arguments, "--json")
    assert done.code == code, done
    found: dict[str, Any] = json.loads(done.out)
    return found


@contextmanager
def previewed(
    settings: LetterSource, options: JobOptions, selection: Selection | None = None
) -> Iterator[tuple[Index, Preview]]:
    """Yield what a job would send, and the index that says it."""
    wanted = selection or Selection()
    with Index.refreshed(settings, options.group, wanted) as index:
        topics = ClusterAdmin(settings.kafka).partition_counts()
        yield index, preview(settings, index, wanted, options, topics, time.time_ns() // 1_000_000)


def created(settings: LetterSource, options: JobOptions, selection: Selection | None = None) -> tuple[Ledger, Job]:
    """Create a job that does not run."""
    ledger = Ledger(settings, options.group)
    with previewed(settings, options, selection) as (index, chosen):
        return ledger, create(ledger, index, chosen)


def in_topics(settings: Settings) -> dict[str, tuple[str, str | None, int]]:
    """Return state, job and number of sends of each letter, from the topics alone."""
    ledger = Ledger(settings)
    standings, found = Standings(ledger.jobs, ledger.actions, ledger.topics), {}
    ends = letter_ends(settings, ledger.partition_counts)
    starts = PartitionOffsets(settings.kafka).log_start_offsets(ends)
    for message in read_between(settings.kafka, settings.group, starts, ends):
        place = message.topic(), message.partition(), message.offset()
        its = standings.of(*place)
        found[f"{place[0]}-{place[1]}@{place[2]}"] = (str(its.state), its.job, its.sends)
    return found


def sent(group: Group, topic: str | None = None) -> Counter[int]:
    """Return the numbers of the records that were sent to a topic, and how often each occurs; retries are left out."""
    return Counter(
        json.loads(record.value or b"")["n"]
        for record in group.cluster.read(topic or group.ready)
        if record.header("_AMQ_SCHED_DELIVERY") is None
    )
