"""The calls of a handler as spans, if this process traces them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Final

from kafka_redelivery.consumers.handlers.handler import Handler
from kafka_redelivery.consumers.telemetry.tracing import CLOSING_OF_A_CHILD_S, spans_exported, tracing

NOT_TRACED: Final[Mapping[str, str]] = {}


def with_tracing(handler: Handler) -> Handler:
    """Return a handler each call of which is a span; the handler itself if this process has no traces."""
    if not tracing():
        return handler
    from kafka_redelivery.consumers.handlers.spans import with_spans  # noqa: PLC0415 - an optional dependency

    return with_spans(handler)


def carrier() -> Callable[[], Mapping[str, str]]:
    """Return a function that returns what another process needs to continue the current span."""
    if not tracing():
        return lambda: NOT_TRACED
    from kafka_redelivery.consumers.handlers.spans import current_carrier  # noqa: PLC0415 - an optional dependency

    return current_carrier


def continuing(stack: ExitStack) -> Callable[[Mapping[str, str]], AbstractContextManager[None]]:
    """Return what continues a span of the parent in a child process, whose own are exported until ``stack`` ends."""
    stack.enter_context(spans_exported("", CLOSING_OF_A_CHILD_S))
    from kafka_redelivery.consumers.handlers.spans import continued  # noqa: PLC0415 - an optional dependency

    return continued
