"""The kill points: each step of worker and scheduler at which a process can die, before it and after it."""

from dataclasses import dataclass
from typing import Final, Literal

from tests.scenarios.running import Role

When = Literal["before", "after"]
Mode = Literal["transacted", "auto", "client", "individual"]
Flow = Literal[
    "plain", "full", "refused", "halted", "aborted", "compressed", "expired", "joined", "left", "stalled", "stopped"
]
"""What else happens in the group.

* ``plain``: one worker and one scheduler have work.
* ``full``: more records than the buffer holds, so partitions are paused and resumed.
* ``refused``: the broker refuses records for their size, so transactions are aborted and producers replaced.
* ``halted``: the broker refuses a dead letter for its size, so a partition halts; then the broker accepts it.
* ``aborted``: the third write with records times out, is found not to be committed, and is repeated.
* ``compressed``: the broker takes some records only with the best compression, so their write is repeated with it.
* ``expired``: the broker has forgotten the transactional id, so the first write with records is repeated with another.
* ``joined``: a second process of the same role joins.
* ``left``: a second process of the same role joined first, and leaves.
* ``stalled``: the process is suspended for longer than its session, so its partitions are reassigned.
* ``stopped``: the process receives SIGTERM.
"""

STEPS: Final = {
    "init": "take over the transactional id; this ends the transaction of a predecessor",
    "begin": "begin a transaction",
    "offsets": "add the offsets to the transaction, before its records",
    "produce": "hand one record to the producer",
    "flush": "wait until the broker has the records; in a transaction, this is all that comes before its end",
    "commit": "commit: the transaction, or in mode auto the offsets",
    "abort": "abort a transaction whose records are refused",
    "trial": "try whether the broker accepts by now the record for which a partition halts",
    "fetch": "wait for a record; after it, the record is fetched and not handed out",
    "handle": "call the handler; after it, the handler has returned and its outcome is not collected",
    "acknowledge": "the handler acknowledges, in modes client and individual",
    "recover": "the handler recovers its session, in the same modes",
    "committed": "read the committed offsets",
    "settle": "find out from the committed offsets whether to repeat an aborted write",
    "seek": "rewind to an offset after an aborted write",
    "pause": "pause partitions while the buffer is full",
    "resume": "resume them",
    "assigned": "receive newly assigned partitions",
    "assign": "assign them in the client, with their start positions",
    "revoked": "partitions go to another process: finish, write",
    "lost": "another process already owns the partitions",
    "leave": "give the partitions back and leave the group, unless membership is static and `leaveOnStop` is off",
    "slots": "leave the slots",
    "close": "close the producer",
}
"""What the process does in each step."""

_SESSIONS: Final[tuple[Mode, ...]] = ("client", "individual")

EAGER: Final = "range"
COOPERATIVE: Final = "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class KillPoint:
    """A process of ``role`` dies directly ``when`` the ``number``-th ``step`` begins (before) or has ended (after)."""

    role: Role
    step: str
    when: When
    number: int = 1
    flow: Flow = "plain"
    mode: Mode = "transacted"
    strategy: str = COOPERATIVE
    noting: bool = False
    """Whether attempts are committed before delivery and redelivery blocks, which adds metadata to each commit."""

    batch: bool = False
    """Whether the handler takes batches, with ``noting`` of one record for each key."""

    wide: bool = False
    """Whether the source has so many partitions that their retries share few partitions of a tier."""

    @property
    def by_handler(self) -> bool:
        """Whether the handler acknowledges."""
        return self.mode in _SESSIONS

    @property
    def trap(self) -> str:
        """The argument ``TRAP`` of :mod:`tests.crash.program`."""
        return f"{self.step}:{self.when}:{self.number}:die" + (":3" if self.flow == "aborted" else "")

    def __str__(self) -> str:
        words = [self.role, self.when, self.step, str(self.number)]
        words += [word for word in (self.flow, self.mode) if word not in {"plain", "transacted"}]
        words += ["eager"] if self.strategy == EAGER else []
        words += ["noting"] if self.noting else []
        words += ["batch"] if self.batch else []
        words += ["wide"] if self.wide else []
        return "-".join(words)


ROLES: Final[tuple[Role, ...]] = ("worker", "scheduler")
BOTH: Final[tuple[When, ...]] = ("before", "after")

_EACH: Final[tuple[tuple[str, int, Flow], ...]] = (
    ("init", 1, "plain"),
    ("begin", 3, "plain"),
    ("offsets", 3, "plain"),
    ("produce", 8, "plain"),
    ("flush", 3, "plain"),
    ("commit", 3, "plain"),
    ("fetch", 4, "plain"),
    ("committed", 1, "plain"),
    ("assigned", 1, "plain"),
    ("assign", 1, "plain"),
    ("pause", 1, "full"),
    ("resume", 1, "full"),
    ("init", 2, "refused"),
    ("abort", 1, "refused"),
    ("committed", 2, "refused"),
    ("seek", 1, "refused"),
    ("begin", 5, "refused"),
    ("commit", 4, "refused"),
    ("trial", 1, "halted"),
    ("init", 2, "aborted"),
    ("offsets", 4, "aborted"),
    ("commit", 4, "aborted"),
    ("init", 2, "compressed"),
    ("commit", 2, "compressed"),
    ("init", 3, "compressed"),
    ("offsets", 1, "expired"),
    ("init", 2, "expired"),
    ("commit", 1, "expired"),
    ("revoked", 1, "joined"),
    ("assigned", 2, "left"),
    ("assign", 2, "left"),
    ("lost", 1, "stalled"),
    ("leave", 1, "stopped"),
    ("revoked", 1, "stopped"),
    ("close", 1, "stopped"),
)
_OF_A_WORKER: Final[tuple[tuple[str, int, Flow], ...]] = (
    ("handle", 4, "plain"),
    ("settle", 1, "aborted"),
    ("slots", 1, "stopped"),
)
_EAGER: Final[tuple[tuple[str, int, Flow], ...]] = (
    ("revoked", 1, "joined"),
    ("assigned", 2, "joined"),
    ("assign", 2, "joined"),
    ("lost", 1, "stalled"),
)
_AUTO: Final[tuple[tuple[str, int, Flow], ...]] = (
    ("produce", 8, "plain"),
    ("flush", 3, "plain"),
    ("commit", 3, "plain"),
    ("trial", 1, "halted"),
    ("commit", 4, "aborted"),
    ("fetch", 4, "plain"),
    ("revoked", 1, "joined"),
    ("lost", 1, "stalled"),
    ("close", 1, "stopped"),
)
_BY_HANDLER: Final[tuple[tuple[str, int, Flow], ...]] = (
    ("acknowledge", 6, "plain"),
    ("recover", 2, "plain"),
    ("flush", 3, "plain"),
    ("commit", 3, "plain"),
    ("revoked", 1, "joined"),
    ("lost", 1, "stalled"),
)
_NOTING: Final[tuple[tuple[str, int, Flow], ...]] = (
    ("offsets", 3, "plain"),
    ("commit", 3, "plain"),
    ("commit", 8, "plain"),
    ("fetch", 4, "plain"),
    ("handle", 4, "plain"),
    ("handle", 12, "plain"),
    ("committed", 2, "refused"),
    ("seek", 1, "refused"),
    ("settle", 1, "aborted"),
    ("commit", 4, "aborted"),
    ("revoked", 1, "joined"),
    ("lost", 1, "stalled"),
    ("close", 1, "stopped"),
)
_BATCH: Final[tuple[tuple[str, int, Flow], ...]] = (
    ("handle", 2, "plain"),
    ("handle", 6, "plain"),
    ("offsets", 3, "plain"),
    ("commit", 3, "plain"),
    ("fetch", 4, "plain"),
    ("commit", 4, "aborted"),
    ("seek", 1, "refused"),
    ("revoked", 1, "joined"),
    ("lost", 1, "stalled"),
    ("slots", 1, "stopped"),
)
_WIDE: Final[tuple[tuple[str, int, Flow], ...]] = (
    ("offsets", 3, "plain"),
    ("commit", 3, "plain"),
    ("commit", 4, "aborted"),
    ("revoked", 1, "joined"),
    ("lost", 1, "stalled"),
)

POINTS: Final[tuple[KillPoint, ...]] = (
    *(KillPoint(role, step, when, n, flow) for role in ROLES for step, n, flow in _EACH for when in BOTH),
    *(KillPoint("worker", step, when, n, flow) for step, n, flow in _OF_A_WORKER for when in BOTH),
    *(
        KillPoint(role, step, when, n, flow, strategy=EAGER)
        for role in ROLES
        for step, n, flow in _EAGER
        for when in BOTH
    ),
    *(KillPoint(role, step, when, n, flow, mode="auto") for role in ROLES for step, n, flow in _AUTO for when in BOTH),
    *(KillPoint("worker", "handle", when, 4, mode="auto") for when in BOTH),
    *(KillPoint("worker", "settle", when, 1, "aborted", mode="auto") for when in BOTH),
    *(
        KillPoint("worker", step, when, n, flow, mode=mode)
        for mode in _SESSIONS
        for step, n, flow in _BY_HANDLER
        for when in BOTH
    ),
    *(KillPoint("worker", step, when, n, flow, noting=True) for step, n, flow in _NOTING for when in BOTH),
    *(
        KillPoint("worker", step, when, n, flow, noting=noting, batch=True)
        for noting in (False, True)
        for step, n, flow in _BATCH
        for when in BOTH
    ),
    *(KillPoint(role, step, when, n, flow, wide=True) for role in ROLES for step, n, flow in _WIDE for when in BOTH),
)

SAMPLE: Final[tuple[KillPoint, ...]] = (
    KillPoint("worker", "commit", "after", 3),
    KillPoint("worker", "handle", "after", 12, noting=True),
    KillPoint("worker", "commit", "before", 4, "aborted"),
    KillPoint("worker", "init", "after", 2, "expired"),
    KillPoint("scheduler", "commit", "after", 3),
    KillPoint("worker", "revoked", "before", 1, "joined", wide=True),
)
"""The kill points that every test run tries."""
