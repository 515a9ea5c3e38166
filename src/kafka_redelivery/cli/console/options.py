"""How a console runs: what it shows, and what it lets people do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """The options of a console."""

    read_only: bool = False
    """Whether nothing can be changed."""

    hide_payloads: bool = False
    """Whether keys, values and headers are neither shown nor can be asked for."""

    confirm_over: int = 100
    """A redrive of more letters asks for their number."""

    index: Path | None = None
    """The folder of all indexes."""

    grafana: str | None = None
    """The address of Grafana, to which pages link."""

    def needs_number(self, letters: int, *, discard: bool) -> bool:
        """Whether a person confirms a redrive or a discard of ``letters`` letters by entering their number."""
        return discard or letters > self.confirm_over
