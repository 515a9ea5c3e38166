"""What is wrong with a configuration, told all at once."""

from __future__ import annotations

from dataclasses import dataclass

from topology.errors import TopologyError

Path = tuple[str | int, ...]
"""The way to a value of the file: names and list indexes from the root."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, in plain words.

    ``place`` is ``file:line:column dotted.path``, an environment variable or a flag; ``problem`` says
    what is wrong there, ``mend`` what to write instead.
    """

    place: str
    problem: str
    mend: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}; {self.mend}"

    def document(self) -> dict[str, str]:
        """The fault as plain data."""
        return {"place": self.place, "problem": self.problem, "mend": self.mend}


class ConfigurationError(TopologyError):
    """A configuration cannot be used. Raised once, with every fault of it.

    Raised by :func:`topology.configuration.load_settings`; mend each fault and load again.
    """

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n".join([f"the configuration has {count}", *(f"  {fault}" for fault in faults)]))
        self.faults = faults


def dotted(path: Path) -> str:
    """A path as people write it: ``sources.0.topic``."""
    return ".".join(str(step) for step in path)
