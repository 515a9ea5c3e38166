"""What the archive can end in."""

from __future__ import annotations

from pipeline.errors import PipelineError


class CheckpointError(PipelineError):
    """What is noted of an earlier run cannot be read. ``place`` is the file."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(
            f"{place} cannot be read: {problem}; restore it, or begin a new table: with this one's checkpoint lost, "
            "a new run would archive everything once more"
        )
        self.place = place


class LettersRemovedError(PipelineError):
    """Dead letters went from Kafka before they were archived. ``places`` says which."""

    def __init__(self, places: list[str]) -> None:
        super().__init__(
            f"removed from Kafka before they were archived: {'; '.join(places)}. Expired dead letters are removed by "
            "the scheduler, others by the topic's retention. Archive more often than that; to go on without them, "
            "run once with --skip-removed"
        )
        self.places = places


class TableFormatError(PipelineError):
    """The table is not there, or not in the format asked for; the message names the mend."""


class QueryFailedError(PipelineError):
    """A query of Spark ended with an error. What it has written stands; the next run goes on from there."""


class TableLogError(PipelineError):
    """The log of an archive's table is not what our runs write. ``place`` is the file."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(
            f"{place} {problem}: something else than this program has written to the table; leave compaction out, or "
            "copy the table by reading and writing it with Spark, and compact the copy's successor"
        )
        self.place = place


class CompactionError(PipelineError):
    """Files could not be put together. The table is as it was."""
