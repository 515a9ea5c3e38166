"""Opens the index of dead letters for `redelivery dlq`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_redelivery.cli.output import stderr
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology.config.settings import Settings

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index


@contextmanager
def refreshed_index(
    settings: Settings, group: str, folder: Path | None, wanted: Selection | None = None, base: Path = Path()
) -> Iterator[Index]:
    """Open an index that can select what is wanted, bring it up to date, and close it on exit.

    ``base`` is the folder of the configuration.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.dead_letters.index.index import Index

    with closing(Index.open_for(settings, group, wanted or Selection(), path=folder, base=base)) as index:
        with progress(stderr(), "reading new dead letters") as report_progress:
            index.refresh(report_progress, waiting=Waiting())
        yield index


class Waiting:
    """Says once why nothing happens."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self) -> None:
        """Say it, unless it was said."""
        if not self._told:
            stderr().print("waiting for another process that brings the index up to date")
        self._told = True
