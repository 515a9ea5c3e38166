"""The configuration as it may be shown: without its secrets."""

from __future__ import annotations

import re
from typing import Any

from topology.settings import Settings
from topology.shape import CLIENT_SETTINGS

HIDDEN = "********"

_SECRET = re.compile(
    r"password|secret|token|jaas|credential|user\.info|\.pem$|sasl\.oauthbearer\.config", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"//[^/@\s]+@")


def shown(settings: Settings) -> dict[str, Any]:
    """All settings with their defaults, as the file would hold them; passwords and keys are hidden."""
    document: dict[str, Any] = _without_secrets(settings.model_dump(mode="json", by_alias=True))
    return document


def _without_secrets(value: Any, name: str = "", *, clients: bool = False) -> Any:  # noqa: ANN401 - any part of it
    if isinstance(value, dict):
        below = clients or name in CLIENT_SETTINGS
        return {key: _without_secrets(each, str(key), clients=below) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_secrets(each, clients=clients) for each in value]
    if clients and _SECRET.search(name):
        return HIDDEN
    if clients and isinstance(value, str):
        return _IN_ADDRESS.sub(f"//{HIDDEN}@", value)
    return value
