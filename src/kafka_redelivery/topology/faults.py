"""What is wrong with a configuration or with a cluster's topics, and how to fix it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.errors import TopologyError

Path = tuple[str | int, ...]
"""The names and list indexes that lead from the root of the configuration to one value."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A fault of a configuration, before it is known where the value at ``path`` was written.

    ``key`` is true if the name at the path is wrong, and not its value.
    """

    path: Path
    problem: str
    fix: str
    key: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a configuration: where it is, what is wrong there and what to write instead.

    ``location`` is ``file:line:column dotted.path``, an environment variable or a command-line flag.
    """

    location: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.location}: {self.problem}; {self.fix}"

    def document(self) -> dict[str, str]:
        """Return the fault as plain data for JSON."""
        return asdict(self)


class ConfigurationError(TopologyError):
    """A configuration cannot be used; ``faults`` holds all faults that were found.

    Raised by :func:`load_settings`. Fix each fault and load the configuration again.
    """

    exit_code = exit_codes.CONFIGURATION

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n".join([f"the configuration has {count}", *(f"  {fault}" for fault in faults)]))
        self.faults = faults


class Severity(StrEnum):
    """Whether processes start in spite of a fault."""

    REFUSE = "refuse"
    """Records would be lost or could not be written: workers and schedulers do not start."""

    WARN = "warn"
    """No record is lost at present: processes start; ``redelivery topology check`` reports the fault."""


@dataclass(frozen=True, slots=True)
class TopologyFault:
    """A fault of a topic: what is wrong, which records it loses, and the command or setting that fixes it."""

    severity: Severity
    topic: str
    problem: str
    loss: str
    fix: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.problem}; {self.loss}; {self.fix}"

    def document(self) -> dict[str, str]:
        """Return the fault as plain data for JSON."""
        return asdict(self)


def refusal(topic: str, problem: str, loss: str, fix: str) -> TopologyFault:
    """Return a fault of severity ``refuse``."""
    return TopologyFault(Severity.REFUSE, topic, problem, loss, fix)


def warning(topic: str, problem: str, loss: str, fix: str) -> TopologyFault:
    """Return a fault of severity ``warn``."""
    return TopologyFault(Severity.WARN, topic, problem, loss, fix)


def dotted(path: Path) -> str:
    """Return a path as text, such as ``sources.0.topic``."""
    return ".".join(str(step) for step in path)
