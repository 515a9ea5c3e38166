"""Opens the index of dead letters for `redelivery dlq`, where there can be one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_redelivery.cli.output import stderr
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.config.settings import Settings

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index


def can_index(settings: Settings) -> bool:
    """Whether the letters are ours."""
    return not isinstance(settings, ForeignTopic)


def refuse_without_index(settings: Settings) -> None:
    """Refuse a command that needs the index where there can be none.

    Raises:
        IndexUnusableError: the letters are those of another system.
    """
    from kafka_redelivery.consumers.errors import IndexUnusableError

    if not can_index(settings):
        raise IndexUnusableError("there is no index of dead letters of other systems; `list` reads all of them")


@contextmanager
def refreshed_index(settings: Settings, group: str, folder: Path | None) -> Iterator[Index]:
    """Open the index, bring it up to date, and close it on exit."""
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.dead_letters.index.index import Index

    index = Index.open(settings, group, path=folder)
    try:
        with progress(stderr(), "reading new dead letters") as report_progress:
            index.refresh(report_progress, waiting=Waiting())
        yield index
    finally:
        index.close()


class Waiting:
    """Says once why nothing happens."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self) -> None:
        """Say it, unless it was said."""
        if not self._told:
            stderr().print("waiting for another process that brings the index up to date")
        self._told = True
