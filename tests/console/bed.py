"""A group that has everything the views show: failures of several kinds, a job, an edit, a pause, records that wait."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafka_redelivery.topology.policy.decision import Reason
from tests.console.views import Known
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.commands import in_process
from tests.scenarios.redriving import died, dlq_json
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

KINDS: Final = (
    (Reason.REDELIVERIES_EXCEEDED, "ConnectionError", 60),
    (Reason.REJECTED, "Reject", 14),
    (Reason.CLIENT_DIED, "InsufficientFundsForThisAndEveryOtherAccountOfTheCustomerError", 5),
)
FRAMES: Final = ("shop.payments.handlers.PaymentsOfEveryCustomer.__call__:191", "shop.payments.bank.charge:61")
"""The first one is wider than a narrow window."""

LETTERS: Final = sum(number for _, _, number in KINDS)
_WAIT_S: Final = 1800
_WAITING: Final = 12


@contextmanager
def busy_group(cluster: Cluster, name: str, folder: Path, **sections: Any) -> Iterator[tuple[Group, Known]]:  # noqa: ANN401 (sections of a configuration)
    """Run a group with a worker and a scheduler, dead letters, two jobs, and records that wait half an hour."""
    group = Group(cluster, name, folder)
    try:
        delays = {"initialRedeliveryDelay": 1000 * _WAIT_S, "redeliveryDelay": 1000 * _WAIT_S}
        group.prepare(policyEntry={"redeliveryPolicy": delays}, **sections)
        cluster.produce(group.dead_letters, list(letters(group)))
        group.send([["raise"]] * _WAITING)
        group.worker()
        group.scheduler()
        until(lambda: in_process("status", file=group.file).code == 0, "both processes are there")
        first, second = f"{group.dead_letters}-1@0", f"{group.dead_letters}-0@1"
        for arguments in (
            ("dlq", "redrive", "--id", f"{group.dead_letters}-0@0", "--yes"),
            ("dlq", "discard", "--exception", "Insufficient*", "--yes"),
        ):
            done = in_process(*arguments, file=group.file)
            assert done.code == 0, done
        [job, *_] = dlq_json(group, "jobs")["jobs"]
        # From here on nothing changes by itself, so that two looks at a view show the same.
        until(lambda: len(cluster.read(group.tier("30m"))) == _WAITING, "records wait")
        until(
            lambda: sum(each["recovered"] for each in dlq_json(group, "jobs")["jobs"]) == 1,
            "the letter that was sent again recovers",
        )
        yield group, Known(first, second, job["job"])
    finally:
        group.close()


def letters(group: Group) -> Iterator[Sent]:
    """Make dead letters of several kinds; the last has a long value that has no place to wrap."""
    n = 0
    for reason, exception, number in KINDS:
        for _ in range(number):
            yield died(group, n, reason=reason, exception=exception, frames=FRAMES)
            n += 1


def new_letters(group: Group, first: int, number: int) -> None:
    """Write more dead letters, as if they died now."""
    group.cluster.produce(group.dead_letters, [died(group, first + n) for n in range(number)])


def now_ms() -> int:
    """Return the time in epoch milliseconds."""
    return time.time_ns() // 1_000_000
