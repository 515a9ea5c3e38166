"""Where the values of ``${...}`` come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Values:
    """``given`` are those that the user names, ``environment`` the process's own."""

    given: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def for_spring(self, own: Mapping[str, str]) -> dict[str, str]:
        """With those that the file holds itself, which stand above the environment."""
        return {**self.environment, **own, **self.given}

    def for_artemis(self) -> dict[str, str]:
        """System properties stand above the environment."""
        return {**self.environment, **self.given}
