"""Hides passwords and keys where the configuration is shown."""

from __future__ import annotations

import re
from typing import Any, Final

from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.config.shape import CLIENT_SETTINGS

HIDDEN = "********"

_SECTIONS: Final = (*CLIENT_SETTINGS, "spark")
"""Sections with settings of other libraries. Of these only what is known to be no secret is shown."""

_SHOWN: Final = frozenset(
    (
        "acks",
        "algorithm",
        "assignor",
        "bytes",
        "close",
        "codec",
        "compress",
        "connection",
        "cores",
        "crcs",
        "debug",
        "deploymode",
        "disable",
        "enable",
        "enabled",
        "family",
        "flight",
        "fraction",
        "id",
        "idempotence",
        "instances",
        "interval",
        "kbytes",
        "level",
        "list",
        "location",
        "log_level",
        "lookup",
        "master",
        "maxexecutors",
        "maxfailures",
        "mechanism",
        "mechanisms",
        "memory",
        "memoryoverhead",
        "messages",
        "method",
        "minexecutors",
        "ms",
        "name",
        "packages",
        "parallelism",
        "partitioner",
        "partitions",
        "principal",
        "protocol",
        "push",
        "rack",
        "reset",
        "retries",
        "scope",
        "servers",
        "size",
        "speculation",
        "stores",
        "strategy",
        "suites",
        "timeout",
        "timezone",
        "ttl",
        "type",
        "url",
        "username",
        "verification",
    )
)
"""Last words of the names that are shown."""

_SECRET: Final = re.compile(r"password|secret|token|jaas|credential|user\.info|\.pem$", re.IGNORECASE)
"""Hidden, whatever the last word."""

_USER_IN_URL: Final = re.compile(r"(\w+://)?[^\s,]*@")
_QUERY: Final = re.compile(r"\?[^\s,]*")


def shown(settings: Settings) -> dict[str, Any]:
    """Return all settings, defaults included, as in the file. Those of other libraries are hidden unless harmless."""
    document: dict[str, Any] = _without_secrets(settings.model_dump(mode="json", by_alias=True))
    return document


def _without_secrets(value: Any, name: str = "", *, others: bool = False) -> Any:  # noqa: ANN401 - any part of it
    if isinstance(value, dict):
        below = others or name in _SECTIONS
        return {key: _without_secrets(each, str(key), others=below) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_secrets(each, name, others=others) for each in value]
    if not others:
        return value
    last = name.rpartition(".")[2].lower()
    if _SECRET.search(name) or last not in _SHOWN:
        return HIDDEN
    if isinstance(value, str) and (last == "url" or "://" in value):
        return _QUERY.sub(f"?{HIDDEN}", _USER_IN_URL.sub(rf"\g<1>{HIDDEN}@", value))
    return value
