"""What a process does without one right of its role, and the table of it in docs/reference/missing-rights.md."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kafka_redelivery.topology.cluster.kafka_rights import Operation as Allowed
from kafka_redelivery.topology.cluster.kafka_rights import PatternType, Resource, ResourceType, Right
from tests.scenarios.authenticated import Acl
from tests.scenarios.running import Group

PAGE = Path(__file__).parents[2] / "docs/reference/missing-rights.md"
_ROLES = ("worker", "scheduler", "apply")
NOT_NOTICED = "not noticed"
NOT_IN_AUDIT_TRAIL = "it is not in the audit trail"
"""How a remark of `pause` and `resume` begins: that needs the role `redrive`, too."""

_PREFIX = re.compile(r"^\S+ \S+ (?:INFO|WARNING|ERROR) \S+: ")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_GRANT = re.compile(r"grant the right (.+?) \(`redelivery topology acls")
_TYPES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def right_of(acl: Acl) -> Right:
    """Return the right that an ACL grants."""
    return Right(Resource(_TYPES[acl.flag], PatternType(acl.pattern), acl.name), Allowed(acl.operation))


def example(group: Group, text: str) -> str:
    """Return a text about a group with the names of the documentation."""
    text = text.replace(group.source, "orders").replace(group.output, "receipts")
    return _ADDRESS.sub("kafka:9093", text.replace(group.name, "billing"))


def names(right: Right, text: str) -> bool:
    """Whether a text says that this right is to be granted."""
    return any(_line_names(right, line) for line in text.splitlines())


def message_of(group: Group, right: Right, text: str) -> str:
    """Return the first line of a log or of an error that names a right, as the documentation shows it; "" if none."""
    line = next((line for line in text.splitlines() if _line_names(right, line)), "")
    shown = example(group, _PREFIX.sub("", line).strip().removeprefix("error: "))
    return f"``{shown}``" if "`" in shown else shown and f"`{shown}`"


def _line_names(right: Right, line: str) -> bool:
    if line.strip() == str(right):
        return True
    found = _GRANT.search(line)
    if found is None or not found[1].startswith(f"{right.operation} "):
        return False
    words = re.split("[ ,]+", found[1])
    if right.resource.pattern is PatternType.PREFIXED:
        return any(word.startswith(right.resource.name) for word in words)
    return right.resource.name in words


class Cell(NamedTuple):
    """What was seen of a role without a right."""

    start: str
    running: str


@dataclass
class Table:
    """What was seen, by role, right and mode; the rights have the names of the documentation."""

    seen: dict[tuple[str, str], dict[str, Cell]] = field(default_factory=dict)

    def note(self, role: str, right: str, mode: str, cell: Cell) -> None:
        """Note what was seen."""
        print(role, right, mode, *cell, sep=" | ")  # noqa: T201 - shown if the test fails
        self.seen.setdefault((role, right), {})[mode] = cell

    def rows(self) -> list[str]:
        """Return the rows of the table; modes in which the same was seen share one."""
        found = []
        for role, right in sorted(self.seen, key=lambda key: _order(*key)):
            modes = self.seen[role, right]
            for cell in dict.fromkeys(modes.values()):
                alike = " and ".join(mode for mode in modes if modes[mode] == cell)
                found.append(_row(role, right, alike, *cell))
        return found


def _order(role: str, right: str) -> tuple[int, str, str]:
    """Order by role, resource and operation."""
    operation, _, resource = right.partition(" on ")
    return _ROLES.index(role), resource, operation


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


class PageTable(NamedTuple):
    """A table of the page that a test writes."""

    name: str
    head: tuple[str, ...]

    def rows(self) -> list[str]:
        """Return its rows in the documentation."""
        text = PAGE.read_text(encoding="utf-8")
        begin, end = self._marks
        return text[text.index(begin) + len(begin) : text.index(end)].strip().splitlines()[2:]

    def write(self, rows: Iterable[str]) -> None:
        """Replace its rows in the documentation."""
        text = PAGE.read_text(encoding="utf-8")
        begin, end = self._marks
        table = [_row(*self.head), _row(*("---" for _ in self.head)), *rows]
        before, rest = text[: text.index(begin)], text[text.index(end) :]
        PAGE.write_text("".join([before, begin, *(f"{line}\n" for line in table), rest]), encoding="utf-8")

    @property
    def _marks(self) -> tuple[str, str]:
        return f"<!-- {self.name}: begin -->\n", f"<!-- {self.name}: end -->\n"


PROCESSES = PageTable(
    "table of the test", ("role", "without the right", "mode", "at the start", "revoked while it runs")
)
COMMANDS = PageTable("table of the test of commands", ("role", "without the right", "its commands"))
JOBS = PageTable("table of the test of jobs on Spark", ("role", "without the right", "its job"))


def command_row(role: str, right: str, code: int, message: str) -> str:
    """Return a row of the table of commands."""
    return _row(role, right, f"exit code {code}: {message or NOT_NOTICED}")
