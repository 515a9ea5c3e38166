"""``reportInterval``: a line each time that the discarding plugin has dropped so many more."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

_log = logging.getLogger(__name__)


class DiscardReport:
    """What the plugin has dropped in this process. One thread."""

    def __init__(self) -> None:
        self._dropped: Counter[int] = Counter()

    def add(self, dropped: Mapping[int, int]) -> None:
        """Count what a confirmed write has dropped, by the interval of the plugin that did it."""
        for interval, number in dropped.items():
            before = self._dropped[interval]
            after = self._dropped[interval] = before + number
            for total in range((before // interval + 1) * interval, after + 1, interval):
                _log.info("the discarding plugin has dropped %d dead letters since this process began", total)
