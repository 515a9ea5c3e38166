"""The views of a console whose group has failures, jobs and pauses, with what each must show."""

from collections.abc import Callable
from typing import Final, NamedTuple


class View(NamedTuple):
    """An address, and the heading of what is there."""

    name: str
    heading: str
    address: Callable[["Known"], str]


class Known(NamedTuple):
    """What addresses name."""

    letter: str
    other: str
    job: str


VIEWS: Final = (
    View("flow", "Flow", lambda _: "/"),
    View("failures", "Failures", lambda _: "/failures"),
    View("failures-selected", "Failures", lambda _: "/failures?exception=*Error&since=2d&where=attempts+%3E+0"),
    View("failures-wrong", "Failures", lambda _: "/failures?where=attempts+%3E&since=yesterday"),
    View("letters", "Letters", lambda _: "/letters"),
    View("letters-none", "Letters", lambda _: "/letters?exception=NoSuchError"),
    View("letter", "DLQ", lambda known: f"/letters/{known.letter}"),
    View("compare", "What differs", lambda known: f"/letters/{known.letter}/compare?with={known.other}"),
    View("edit", "Edit and redrive", lambda known: f"/letters/{known.letter}/edit?again=1"),
    View("find", "Find", lambda known: f"/find?q={known.letter.removeprefix('DLQ.')}"),
    View("find-key", "Find", lambda _: "/find?q=k3"),
    View("pause", "Pause", lambda _: "/pause"),
    View("redrive", "Redrive dead letters", lambda _: "/redrive?exception=*&again=1&rate=20"),
    View("discard", "Discard dead letters", lambda _: "/discard?exception=*"),
    View("export", "Export dead letters", lambda _: "/export"),
    View("purge", "Purge letters that are done", lambda _: "/purge"),
    View("jobs", "Jobs", lambda _: "/jobs"),
    View("job", "Job", lambda known: f"/jobs/{known.job}"),
    View("waiting", "Waiting", lambda _: "/waiting"),
    View("waiting-records", "Waiting records", lambda _: "/waiting/records?exception=ValueError"),
    View("act", "Act on waiting records", lambda _: "/waiting/act?exception=ValueError"),
    View("topology", "Topology", lambda _: "/topology"),
    View("audit", "Audit", lambda _: "/audit"),
)

ALWAYS: Final = frozenset({"flow", "failures", "letter", "find-key", "topology"})
"""The views that a test without ``--long`` looks at, too: at least one of each kind of part."""

NOWHERE: Final = View("nowhere", "Not Found", lambda _: "/no-such-page")
LOGIN: Final = View("login", "Log in", lambda _: "/login")
