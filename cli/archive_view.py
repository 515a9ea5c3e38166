"""What `redelivery pipeline archive` tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from cli.output import print_json, print_table, stderr, stdout

if TYPE_CHECKING:
    from pipeline.archive import ArchiveRun
    from pipeline.archive_positions import Positions, Removed
    from pipeline.compaction import Compacted


def print_pending(found: Positions, counts: Mapping[tuple[str, int], int], *, as_json: bool) -> None:
    """What a run would archive."""
    if as_json:
        places = [{"topic": place[0], "partition": place[1], "letters": counts[place]} for place in sorted(counts)]
        print_json({"dryRun": True, "letters": sum(counts.values()), "places": places, **_lacking(found)})
        return
    table = Table("topic", "partition", "dead letters")
    for (topic, partition), count in sorted(counts.items()):
        table.add_row(topic, str(partition), f"{count:,}")
    if counts:
        print_table(stdout(), table)
    typer.echo(f"{sum(counts.values()):,} dead letters would be archived")
    _tell_lacking(found.missing, found.removed)


def print_run(output: str, run: ArchiveRun, compacted: Compacted | None, *, as_json: bool, more: bool = False) -> None:
    """What a run did; with ``more`` to come, on one line."""
    if as_json:
        document = {"letters": run.letters, "batches": len(run.batches), "output": output, **_lacking(run)}
        document["compacted"] = None if compacted is None else asdict(compacted)
        if more:
            typer.echo(json.dumps(document))
        else:
            print_json(document)
        return
    typer.echo(f"{run.letters:,} dead letters archived in {output} (batches: {len(run.batches)})")
    if compacted is not None and compacted.folders:
        typer.echo(f"{compacted.before:,} small files became {compacted.after:,}, in {compacted.folders:,} folders")
    if compacted is not None and compacted.deleted:
        typer.echo(f"{compacted.deleted:,} files deleted that nobody reads any more")
    _tell_lacking(run.missing, run.removed)


def _lacking(found: Positions | ArchiveRun) -> dict[str, object]:
    return {"missingTopics": list(found.missing), "removed": [asdict(each) for each in found.removed]}


def _tell_lacking(missing: tuple[str, ...], removed: list[Removed]) -> None:
    for topic in missing:
        stderr().print(f"there is no topic {topic} yet")
    for each in removed:
        place = f"{each.topic}-{each.partition}"
        stderr().print(f"{place}: offsets {each.first} to {each.next - 1} were removed before they were archived")
