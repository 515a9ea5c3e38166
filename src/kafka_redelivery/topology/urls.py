"""URLs may have a password or a token, which must not be in what is printed, logged or shown."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "********"

_USER: Final = re.compile(r"(\w+://)?(\S*)@")
_QUERY: Final = re.compile(r"\?\S*")
_PASSWORD: Final = re.compile(
    r"\w+://([^/\s]*:[^/\s]*@|[^/\s@[\]]*:(?!\d*([/?#,]|$)))|https?://[^/\s]*@", re.IGNORECASE
)
"""A user with a password, or what would be a port if the password had no slash; in an address of a website any user."""

_SECRET_QUERY: Final = re.compile(r"[?&](?!var-)[^=&]*(auth|key|pass|secret|sig|token)[^=&]*=", re.IGNORECASE)
"""``var-`` begins the name of a variable of a Grafana dashboard."""

_CONTAINERS: Final = frozenset({"abfs://", "abfss://", "wasb://", "wasbs://"})
"""Schemes of Azure, in which a container takes the place of the user."""


def without_secrets(text: str) -> str:
    """Return a URL, or a text with URLs, in which :data:`HIDDEN` stands for users, passwords and queries."""
    return _QUERY.sub(f"?{HIDDEN}", _USER.sub(_without_user, text))


def _without_user(found: re.Match[str]) -> str:
    scheme, user = found[1] or "", found[2]
    return found[0] if scheme.lower() in _CONTAINERS and ":" not in user else f"{scheme}{HIDDEN}@"


def has_secret(url: str) -> bool:
    """Whether a URL has a password, or a query with something like a token."""
    return _PASSWORD.match(url) is not None or _SECRET_QUERY.search(url) is not None
