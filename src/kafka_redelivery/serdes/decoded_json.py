"""Decoded values as JSON, as the archive and `--where` have them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from kafka_redelivery.serdes.objects import plain


def as_json(value: object) -> str:
    """Return a decoded value as JSON.

    Times become ISO 8601, bytes URL-safe base64, decimals and UUIDs strings, NaN and infinities their names.
    """
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=_fallback).decode()
    except (PydanticSerializationError, UnicodeEncodeError):
        # The value has a lone surrogate, which JSON can only hold as an escape.
        return json.dumps(value, default=_other)


def _fallback(value: object) -> object:
    found = plain(value)  # a Protobuf message
    return str(value) if found is value else found


def _other(value: Any) -> object:  # noqa: ANN401 - any type that a codec returns
    return urlsafe_b64encode(value).decode() if isinstance(value, bytes) else _fallback(value)
