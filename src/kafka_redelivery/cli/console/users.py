"""Who uses the console, and what they may do."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Self


class Role(IntEnum):
    """What a user may do. Each role may do all that a lower one may."""

    VIEWER = 1
    """Read."""

    OPERATOR = 2
    """Redrive, discard, edit, export, cancel and resume jobs, pause and resume the group."""

    ADMIN = 3
    """Also purge, which deletes letters for good."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Return a role by its name.

        Raises:
            ValueError: there is none with this name.
        """
        try:
            return cls[text.strip().upper()]
        except KeyError:
            names = ", ".join(each.label for each in cls)
            raise ValueError(f"{text!r} is none of the roles {names}") from None

    @property
    def label(self) -> str:
        """The name of the role, as people write it."""
        return self.name.lower()


class User(NamedTuple):
    """A person, as the console knows them."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether the user has a role, or a higher one."""
        return self.role >= role
