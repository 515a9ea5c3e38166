"""Hides passwords and keys where the configuration is shown."""

from __future__ import annotations

import re
from typing import Any

from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.config.shape import CLIENT_SETTINGS

HIDDEN = "********"

_SECRET = re.compile(
    r"password|secret|token|jaas|credential|user\.info|\.pem$|sasl\.oauthbearer\.config", re.IGNORECASE
)
_USER_IN_URL = re.compile(r"//[^/@\s]+@")


def shown(settings: Settings) -> dict[str, Any]:
    """Return all settings, defaults included, as in the file, with passwords and keys hidden."""
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
        return _USER_IN_URL.sub(f"//{HIDDEN}@", value)
    return value
