"""`redelivery dlq`: lists dead letters, sends them again, and removes those that are done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_redelivery.cli.command import Commands
from kafka_redelivery.cli.commands.dlq_options import (
    CreateTopics,
    DrySending,
    IndexFolder,
    JobName,
    JobsOf,
    KeepAttempts,
    OfGroup,
    Ready,
    Selecting,
    To,
    create_missing,
    foreign_options,
    foreign_settings,
    load_letters,
    refreshed_index,
)
from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    Note,
    Overrides,
    Yes,
    ask,
    refuse_without_question,
)
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.job import MAX_RATE, MAX_REDRIVES, MIN_RATE, JobOptions

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.creation import Preview
    from kafka_redelivery.dead_letters.jobs import OpenJob
    from kafka_redelivery.dead_letters.letter import Selection

app = Commands(no_args_is_help=True)
app.callback()(foreign_options)


@app.command(name="list")
@dataclass(frozen=True, kw_only=True)
class ListLetters(Selecting):
    """List dead letters: how many of which kind, and what became of those that were sent again."""

    each: Annotated[bool, typer.Option("--each", help="Print every letter instead of their kinds.")] = False
    limit: Annotated[int, typer.Option("--limit", min=1, help="With --each: print this many at most.")] = 1000
    as_json: AsJson = False

    def __call__(self) -> None:
        """List them."""
        from kafka_redelivery.cli.views.dlq import print_kinds, print_letters, unread_partitions
        from kafka_redelivery.consumers.clock import wall_clock_ms
        from kafka_redelivery.dead_letters.index.sql import unexpired
        from kafka_redelivery.dead_letters.letter import By

        wanted, settings = self.selection(), self.settings()
        by, each = (By.ORIGIN, By.REASON, By.EXCEPTION, By.STATE), []
        with self.refreshed_index(settings, wanted, skip_leaderless=True) as index:
            meant = index.condition(wanted)
            found = index.summary(by, meant)
            if self.each:
                shown = index.ours & meant & unexpired(wall_clock_ms())
                each = [row.document() for row in index.select(shown.sql, shown.parameters, limit=self.limit)]
        kinds = [
            {
                **{column.value: row.kind[column] or "" for column in by},
                "letters": row.letters,
                "oldestMs": row.first_ms,
                "newestMs": row.last_ms,
            }
            for row in found.rows
        ]
        if self.as_json:
            document = {
                "ok": True,
                "letters": found.letters,
                "expired": found.expired,
                "ofOthers": found.others,
                "unreadable": found.unreadable,
                **unread_partitions(index.unread),
            }
            print_json(document | ({"each": each} if self.each else {"kinds": kinds}))
        elif self.each:
            print_letters(stdout(), each)
            if len(each) < found.letters:
                stdout().print(f"{found.letters - len(each)} more (--limit)")
        else:
            print_kinds(stdout(), kinds, found.expired, found.others, found.unreadable)


@dataclass(frozen=True, kw_only=True)
class Sending(Selecting, ABC):
    """A command that creates a job of the letters of a selection, and runs it."""

    create_topics: CreateTopics = False
    dry_run: DrySending = False
    note: Note = ""
    yes: Yes = False
    as_json: AsJson = False

    skip_refused = False
    """Whether letters are left out that there is no topic for; an option of some commands."""

    @abstractmethod
    def job_options(self, group: str, wanted: Selection) -> JobOptions:
        """Return how the job sends its letters."""

    def __call__(self) -> None:
        """Show what the job would do, ask, create it and run it."""
        from kafka_redelivery.cli.views.dlq import print_failures
        from kafka_redelivery.dead_letters.creation import create_job

        wanted = self.selection()
        refuse_without_question(dry_run=self.dry_run, yes=self.yes, as_json=self.as_json)
        settings = self.settings()
        options = self.job_options(self.of_group or settings.group, wanted)
        if not self.dry_run:
            create_missing(settings, create=self.create_topics, yes=self.yes, as_json=self.as_json)
        unknown: Sequence[str] = ()
        with self.refreshed_index(settings, wanted) as index:

            def agrees(chosen: Preview) -> bool:
                nonlocal unknown
                unknown = chosen.unknown_ids
                if not self.as_json:
                    print_failures(stdout(), index.summary(meant=index.condition(wanted)))
                return self._agrees(chosen)

            job = create_job(settings, index, wanted, options, agrees, note=self.note, skip_refused=self.skip_refused)
        if job is not None:
            run_job(job, as_json=self.as_json, created=True, unknown_ids=unknown)

    def _agrees(self, chosen: Preview) -> bool:
        """Show what a job would do, and ask; whether there is something to do."""
        from kafka_redelivery.cli.views.dlq import print_preview

        if not self.as_json:
            print_preview(stdout(), chosen)
        if self.dry_run or not chosen.total:
            unclear = bool(chosen.unknown_ids or (self.dry_run and (chosen.unrecognised or chosen.claimed)))
            if self.as_json:
                document = chosen.document()
                print_json({"ok": not unclear, "dryRun": self.dry_run, "job": None, **document})
            elif self.dry_run:
                stdout().print("dry run: nothing was changed")
            if unclear:
                raise typer.Exit(exit_codes.FAILED)
            return False
        if not self.yes:
            ask("discard them?" if chosen.options.discard else "send them?")
        return True


@app.command()
@dataclass(frozen=True, kw_only=True)
class Redrive(Sending):
    """Send dead letters again, each exactly once, to the ready topic of the group that failed.

    Those of another system (--bootstrap) go to the topic that their headers name. A dry run has exit code 1 if it is
    not clear which system has written a letter.
    The letters are fixed when the job is created; letters that die later are not sent. If this command is
    interrupted, `redelivery dlq resume` goes on. Exit code 1 if a letter could not be sent, the job has not ended, or
    there is no letter with an id that is given.
    """

    to: To = None
    ready: Ready = None
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=MIN_RATE, max=MAX_RATE, metavar="N", help="Letters in a second. Default: no limit."),
    ] = None
    again: Annotated[bool, typer.Option("--again", help="Also letters that were sent before.")] = False
    keep_attempts: KeepAttempts = False
    max_redrives: Annotated[
        int, typer.Option("--max-redrives", min=1, help="A record sent again so often goes to the parking topic.")
    ] = MAX_REDRIVES
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty", help="With --bootstrap: letters without the content of their records as they are."
        ),
    ] = False
    restore_headers: Annotated[
        bool,
        typer.Option(
            "--restore-headers",
            help="With --bootstrap: headers that a share group left out, from the record where it came from.",
        ),
    ] = False

    skip_refused: Annotated[
        bool, typer.Option("--skip-refused", help="Leave letters out whose target topic does not exist.")
    ] = False

    def job_options(self, group: str, wanted: Selection) -> JobOptions:
        """Return how the job sends its letters."""
        del wanted
        return JobOptions(
            group=group,
            to=self.to,
            ready=self.ready,
            keep_attempts=self.keep_attempts,
            again=self.again,
            max_redrives=self.max_redrives,
            rate=self.rate,
            allow_empty=self.allow_empty,
            restore_headers=self.restore_headers,
        )


@app.command()
@dataclass(frozen=True, kw_only=True)
class Discard(Sending):
    """Set dead letters aside: they count as done, and `redrive` leaves them out without --again. Deletes nothing.

    `--state sent` and `--state gone` take letters whose outcome stays unknown.
    """

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be discarded.")] = False

    def job_options(self, group: str, wanted: Selection) -> JobOptions:
        """Return how the job sets its letters aside."""
        from kafka_redelivery.dead_letters.creation import discarding

        return discarding(group, wanted)


def run_job(job: OpenJob, *, as_json: bool, created: bool = False, unknown_ids: Sequence[str] = ()) -> None:
    """Run a job to its end, or until a signal; print what it has done. Exit code 1 if it has not sent everything.

    ``unknown_ids``: those of the selection that no letter has.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.dlq import print_job
    from kafka_redelivery.dead_letters.jobs import all_sent

    if created and not as_json:
        stdout().print(f"job {job.id} is created")
    doing = "setting dead letters aside" if job.discards else "sending dead letters again"
    with stop_event() as stop, progress(stderr(), doing) as report_progress:
        ended = job.run(stop, report_progress)
    document = job.document()
    whole = ended and all_sent(document) and not unknown_ids
    if as_json:
        print_json({"ok": whole, **document} | ({"unknownIds": list(unknown_ids)} if created else {}))
    else:
        print_job(stdout(), document)
        if not ended:
            stdout().print(f"go on with: {job.ledger.command('resume', job.id)}")
    if not whole:
        raise typer.Exit(exit_codes.FAILED)


@app.command()
def jobs(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    of_group: JobsOf = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs: how far each is, and what became of the records that it sent."""
    from kafka_redelivery.cli.views.dlq import print_jobs, unread_partitions
    from kafka_redelivery.dead_letters.jobs import job_document
    from kafka_redelivery.dead_letters.ledger import Ledger
    from kafka_redelivery.transport.admin.topics import no_leader

    ledger = Ledger(load_letters(config, overrides), of_group, skip_leaderless=True)
    if ledger.unread:
        stderr().print(no_leader(ledger.unread, "jobs may have done more than is said"))
    documents = [job_document(ledger, job) for job in ledger.jobs.jobs.values()]
    if as_json:
        first = [{"id": name, "problem": why} for name, why in ledger.left_out.first]
        unreadable = {"records": ledger.left_out.count, "first": first}
        print_json({"ok": True, "jobs": documents, "unreadable": unreadable, **unread_partitions(ledger.unread)})
    else:
        print_jobs(stdout(), documents)


@app.command()
def resume(
    job: JobName,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    of_group: JobsOf = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a job that was interrupted, or take it over from another process."""
    from kafka_redelivery.dead_letters.jobs import OpenJob

    run_job(OpenJob.named(load_letters(config, overrides), job, of_group), as_json=as_json)


@app.command()
def cancel(
    job: JobName,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    of_group: JobsOf = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Cancel a job for good, wherever it runs. What it has sent stays sent; its other letters are free again."""
    from kafka_redelivery.cli.views.dlq import print_job
    from kafka_redelivery.dead_letters.jobs import OpenJob

    refuse_without_question(yes=yes, as_json=as_json)
    found = OpenJob.named(load_letters(config, overrides), job, of_group)
    if not yes:
        print_job(stdout(), found.document())
        ask("cancel it for good?")
    found.cancel()
    if as_json:
        print_json({"ok": True, **found.document()})
    else:
        print_job(stdout(), found.document())


@app.command()
def purge(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    index: IndexFolder = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed.")] = False,
    note: Note = "",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove dead letters that are done from the start of each partition, up to the first one that is not.

    Done are letters that recovered, died again, expired, were parked or discarded. Another group's letters stay.
    With --note it is written to the audit trail, which needs the rights of the role redrive, too.
    """
    from kafka_redelivery.cli.views.dlq import letters_text, print_removable
    from kafka_redelivery.dead_letters.ledger import author
    from kafka_redelivery.dead_letters.purge import Purge, removable_letters

    refuse_without_question(dry_run=dry_run, yes=yes, as_json=as_json)
    settings = load_letters(config, overrides)
    with refreshed_index(settings, settings.group, index, None, config.absolute().parent) as opened:
        found = Purge.of(settings, opened)
        if not as_json:
            print_removable(stdout(), found.chosen)
        if removable_letters(found.chosen) and not (yes or dry_run):
            ask("remove them for good?")
            opened.refresh()  # a job may have taken some of them since; and nothing that was not shown is removed
            found = Purge.of(settings, opened, found.chosen)
    failed = {} if dry_run else found.remove(author() if note else None, note)
    if as_json:
        print_json({"ok": not failed, "dryRun": dry_run, **found.document(failed)})
    elif dry_run:
        stdout().print("dry run: nothing was changed")
    else:
        stdout().print(f"{letters_text(removable_letters(found.chosen, failed))} removed")
    for partition, reason in failed.items():
        stderr().print(f"{partition} stays: {reason}")
    if failed:
        raise typer.Exit(exit_codes.FAILED)


@app.command()
@dataclass(frozen=True, kw_only=True)
class Export(Selecting):
    """Print dead letters as lines of JSON, byte for byte: key, value and header values are in base64.

    Letters that have expired are among them, as long as they are in their topic. Exit code 1 if there is no letter with
    an id that is given.
    """

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how many letters; export nothing.")] = False
    fetch: Annotated[
        bool,
        typer.Option("--fetch", help="With --bootstrap: letters without content get that of the records they name."),
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print the result as JSON.")] = False

    def __call__(self) -> None:
        """Print them, or how many there are."""
        from kafka_redelivery.cli.progress import progress
        from kafka_redelivery.cli.views.dlq import no_letters, print_exportable
        from kafka_redelivery.consumers.clock import wall_clock_ms
        from kafka_redelivery.dead_letters.choosing import unknown_ids
        from kafka_redelivery.dead_letters.exporting import export_documents, exportable

        wanted, settings = self.selection(), self.settings()
        with self.refreshed_index(settings, wanted) as index:
            unknown = unknown_ids(index, wanted)
            if self.dry_run:
                found = exportable(index, wanted, wall_clock_ms())
                if self.as_json:
                    document = found.document()
                    print_json({"ok": not unknown, "dryRun": True, **document, "unknownIds": list(unknown)})
                else:
                    print_exportable(stdout(), found)
                    stdout().print("dry run: nothing was exported")
            else:
                with progress(stderr(), "reading dead letters") as report_progress:
                    for each in export_documents(settings, index, wanted, report_progress, fetch=self.fetch):
                        print_json(each, indent=None)
        if unknown:
            stderr().print(f"{len(unknown)} {no_letters(unknown)}")
            raise typer.Exit(exit_codes.FAILED)


@app.command()
def check(
    share_group: Annotated[str, typer.Option("--share-group", metavar="GROUP", help="The share group.")],
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Report settings with which a share group of Kafka loses its dead letters, and how to fix them.

    With --bootstrap and --topic, its dead-letter topic. Exit code 1 if letters would be lost.
    """
    from kafka_redelivery.dead_letters.foreign.share_group import TOPIC, share_group_faults
    from kafka_redelivery.transport.admin.share_groups import share_group_configs

    settings = foreign_settings(overrides)
    if settings is None:
        raise typer.BadParameter("add --bootstrap HOST:PORT and --topic TOPIC", param_hint="--share-group")
    topic = settings.dead_letter_topic
    configs = share_group_configs(settings.kafka, share_group, topic, TOPIC)
    faults = list(share_group_faults(share_group, topic, *configs))
    loses = any(each.loses_letters for each in faults)
    if as_json:
        print_json({"ok": not loses, "faults": [each.document() for each in faults]})
    else:
        for each in faults:
            stdout().print(f"{each.problem}; fix: {each.fix}", soft_wrap=True)
        if not faults:
            stdout().print(f"share group {share_group}: no dead letter would be lost")
    if loses:
        raise typer.Exit(exit_codes.FAILED)


@app.command(name="import")
def import_letters(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Lines of `redelivery dlq export`.", dir_okay=False)],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    of_group: OfGroup = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be imported; write nothing.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Send exported dead letters back to their dead-letter topics, each exactly once.

    Letters that are still there, or were imported before, are left out, so run an interrupted import again.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.dlq import print_importable
    from kafka_redelivery.dead_letters.importing import Import

    refuse_without_question(dry_run=dry_run, yes=yes, as_json=as_json)
    settings = load_letters(config, overrides)
    if isinstance(settings, OtherSystem):
        raise typer.BadParameter(
            "import sends our own dead letters back, and needs a configuration", param_hint="--bootstrap"
        )
    try:
        with progress(stderr(), "reading dead letters") as report_progress:
            importing = Import(settings, of_group or settings.group, file)
            found = importing.preview(report_progress)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="FILE") from None
    if not as_json:
        print_importable(stdout(), found)
    whole = True
    if not dry_run and found.missing:
        if not yes:
            ask("import them?")
        with stop_event() as stop, progress(stderr(), "importing dead letters") as report_progress:
            whole = importing.run(stop, report_progress)
    if as_json:
        print_json({"ok": whole, "dryRun": dry_run, **found.document()})
    elif dry_run:
        stdout().print("dry run: nothing was changed")
    elif found.missing:
        stdout().print("all are imported" if whole else "the import was interrupted; run it again to go on")
    if not whole:
        raise typer.Exit(exit_codes.FAILED)
