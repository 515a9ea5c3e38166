"""Bytes of our headers on a retry record and on a dead letter, at the second and the fiftieth delivery."""

import uuid
from collections.abc import Iterator

from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT
from tests.bench.bed import Bed, Team
from tests.bench.feed import feed
from tests.bench.options import Options
from tests.bench.pair import Pair
from tests.bench.result import Result
from tests.scenarios.cluster import Seen

NAME_LENGTH = 40
EARLY, LATE = 2, 50
_N = 40
_PARTITIONS = 2


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield one result."""
    bed.report_progress(f"{LATE} deliveries each")
    group, source = (uuid.uuid4().hex.ljust(NAME_LENGTH, end) for end in "gs")
    bed.cluster.create(source, partitions=_PARTITIONS)
    feed(bed.servers, source, _N, value_bytes=options.value_bytes, keys=_N)
    policy = {
        "redeliveryPolicy": {"maximumRedeliveries": LATE - 1, "initialRedeliveryDelay": 1, "redeliveryDelay": 1},
    }
    parameters = {"n": _N, "reject_at": EARLY}
    with bed.team(source, "FailsAtLength", options, name=group, parameters=parameters, policyEntry=policy) as team:
        Pair(team, options)
        dead = bed.act("tail:count", topic=team.dead_letters, partitions=_PARTITIONS, n=_N, within_s=120)
        team.stop()
        retries = _by_delivery(bed, team.settings.naming().tier_topic(1))
        letters = _by_delivery(bed, team.dead_letters)
        bare = _bare(team)
    yield Result(
        workload="headers",
        mode=options.mode,
        params={"n": _N, "name_length": NAME_LENGTH, "deliveries": [EARLY, LATE]},
        lost=dead["lost"],
        doubled=dead["doubled"],
        header_retry=max(retries.values()),
        header_dead_letter=max(letters.values()),
        details={
            "retry_at": {str(at): retries[at - 1] for at in (EARLY, LATE)},
            "dead_letter_at": {str(at): letters[at] for at in (EARLY, LATE)},
            "names": bare,
        },
    )


def _by_delivery(bed: Bed, topic: str) -> dict[int, int]:
    """Return the greatest header bytes of a topic's records, by delivery count."""
    found: dict[int, int] = {}
    for record in bed.cluster.read(topic):
        made = int(record.header(DELIVERY_COUNT) or 0)
        found[made] = max(found.get(made, 0), _bytes(record))
    return found


def _bytes(record: Seen) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in record.headers)


def _bare(team: Team) -> dict[str, int]:
    return {"group": len(team.name), "source": len(team.source)}
