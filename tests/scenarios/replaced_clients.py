"""Opens clients of a test's own class in the place of those of the product."""

import logging
from collections.abc import Callable
from typing import Any

from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.client_log import client_log
from kafka_redelivery.transport.opening import OnError


def opens(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function like those of :mod:`kafka_redelivery.transport.opening` that opens clients of a class."""

    def open_client(config: Config, logger: logging.Logger = client_log, on_error: OnError | None = None) -> Any:  # noqa: ANN401 - of that class
        reports = {} if on_error is None else {"error_cb": on_error}
        return kind({**config, **reports}, logger=logger)

    return open_client
