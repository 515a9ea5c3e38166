"""`redelivery dlq`: lists dead letters and sends them again."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_redelivery.cli.commands.confirmation import Yes, ask, refuse_without_question
from kafka_redelivery.cli.commands.dlq_foreign import CreateTopics, create_missing, foreign_options
from kafka_redelivery.cli.commands.dlq_options import (
    DEFAULT_MAX_REDRIVES,
    DrySending,
    JobName,
    JobsOf,
    KeepAttempts,
    Ready,
    To,
)
from kafka_redelivery.cli.commands.dlq_running import create_and_run, load_quietly, run_job
from kafka_redelivery.cli.commands.dlq_selection import IndexFolder, OfGroup, selecting
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.standing import UNKNOWN_OUTCOME
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.job import MAX_RATE, MIN_RATE, JobOptions

app = typer.Typer(no_args_is_help=True)
app.callback()(foreign_options)


@app.command(name="list")
@selecting
def list_letters(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    *,
    wanted: Selection,
    of_group: OfGroup = None,
    each: Annotated[bool, typer.Option("--each", help="Print every letter instead of their kinds.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="With --each: print this many at most.")] = 1000,
    index: IndexFolder = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters: how many of which kind, and what became of those that were sent again."""
    from kafka_redelivery.cli.commands.dlq_listing import Listing, listing
    from kafka_redelivery.cli.views.dlq import print_kinds, print_letters

    settings = load_quietly(config, overrides)
    found: Listing = listing(
        settings, of_group or settings.group, wanted, limit if each else 0, index, config.absolute().parent
    )
    if as_json:
        document = {
            "ok": True,
            "letters": found.letters,
            "expired": found.expired,
            "ofOthers": found.others,
            "unreadable": found.unreadable,
        }
        print_json(document | ({"each": found.each} if each else {"kinds": found.kinds}))
        return
    if each:
        print_letters(stdout(), found.each)
        if len(found.each) < found.letters:
            stdout().print(f"{found.letters - len(found.each)} more (--limit)")
    else:
        print_kinds(stdout(), found.kinds, found.expired, found.others, found.unreadable)


@app.command()
@selecting
def redrive(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    *,
    wanted: Selection,
    of_group: OfGroup = None,
    to: To = None,
    ready: Ready = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=MIN_RATE, max=MAX_RATE, metavar="N", help="Letters in a second. Default: no limit."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also letters that were sent before.")] = False,
    keep_attempts: KeepAttempts = False,
    max_redrives: Annotated[
        int, typer.Option("--max-redrives", min=1, help="A record sent again so often goes to the parking topic.")
    ] = DEFAULT_MAX_REDRIVES,
    allow_empty: Annotated[
        bool,
        typer.Option("--allow-empty", help="With --bootstrap: also letters without the content of their records."),
    ] = False,
    create_topics: CreateTopics = False,
    index: IndexFolder = None,
    dry_run: DrySending = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters again, each exactly once, to the ready topic of the group that failed.

    Those of another system (--bootstrap) go to the topic that their headers name.
    The letters are fixed when the job is created; letters that die later are not sent. If this command is
    interrupted, `redelivery dlq resume` goes on. Exit code 1 if a letter could not be sent or the job has not ended.
    """
    refuse_without_question(dry_run=dry_run, yes=yes, as_json=as_json)
    settings = load_quietly(config, overrides)
    options = JobOptions(
        group=of_group or settings.group,
        to=to,
        ready=ready,
        keep_attempts=keep_attempts,
        again=again,
        max_redrives=max_redrives,
        rate=rate,
        allow_empty=allow_empty,
    )
    if not dry_run:
        create_missing(settings, create=create_topics, yes=yes, as_json=as_json)
    base = config.absolute().parent
    create_and_run(settings, wanted, options, base, index, dry_run=dry_run, yes=yes, as_json=as_json)


@app.command()
@selecting
def discard(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    *,
    wanted: Selection,
    of_group: OfGroup = None,
    create_topics: CreateTopics = False,
    index: IndexFolder = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be discarded.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Set dead letters aside: they count as done, and `redrive` leaves them out without --again. Deletes nothing.

    `--state sent` and `--state gone` take letters whose outcome stays unknown.
    """
    refuse_without_question(dry_run=dry_run, yes=yes, as_json=as_json)
    settings = load_quietly(config, overrides)
    options = JobOptions(
        group=of_group or settings.group, discard=True, again=not UNKNOWN_OUTCOME.isdisjoint(wanted.states)
    )
    if not dry_run:
        create_missing(settings, create=create_topics, yes=yes, as_json=as_json)
    base = config.absolute().parent
    create_and_run(settings, wanted, options, base, index, dry_run=dry_run, yes=yes, as_json=as_json)


@app.command()
def purge(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    index: IndexFolder = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove dead letters that are done from the start of each partition, up to the first one that is not.

    Done are letters that recovered, died again, expired, were parked or discarded. Another group's letters stay.
    """
    from kafka_redelivery.cli.commands.dlq_index import refreshed_index
    from kafka_redelivery.cli.views.dlq import print_removable, removable_document, removable_letters
    from kafka_redelivery.dead_letters.created_again import refuse_created_again
    from kafka_redelivery.dead_letters.purge import removable, remove, topics_of

    refuse_without_question(dry_run=dry_run, yes=yes, as_json=as_json)
    settings = load_quietly(config, overrides)
    with refreshed_index(settings, settings.group, index) as opened:
        chosen = removable(opened)
        if not as_json:
            print_removable(stdout(), chosen)
        if removable_letters(chosen) and not (yes or dry_run):
            ask("remove them for good?")
            # A job may have taken some of them since; and nothing that was not shown is removed.
            opened.refresh()
            refuse_created_again(topics_of(chosen), opened.topics, "removed")
            chosen = removable(opened, {partition: each.before for partition, each in chosen.items()})
    failed = {} if dry_run else remove(settings, chosen)
    if as_json:
        print_json({"ok": not failed, "dryRun": dry_run, **removable_document(chosen, failed)})
    elif dry_run:
        stdout().print("dry run: nothing was changed")
    else:
        stdout().print(f"{removable_letters(chosen, failed)} dead letters removed")
    for partition, reason in failed.items():
        stderr().print(f"{partition} stays: {reason}")
    if failed:
        raise typer.Exit(exit_codes.FAILED)


@app.command()
def jobs(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    of_group: JobsOf = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs: how far each is, and what became of the records that it sent."""
    from kafka_redelivery.cli.views.dlq import job_document, print_jobs
    from kafka_redelivery.dead_letters.ledger import Ledger

    ledger = Ledger(load_quietly(config, overrides), of_group)
    documents = [job_document(ledger, job) for job in ledger.jobs.jobs.values()]
    if as_json:
        first = [{"id": name, "problem": why} for name, why in ledger.left_out.first]
        unreadable = {"records": ledger.left_out.count, "first": first}
        print_json({"ok": True, "jobs": documents, "unreadable": unreadable})
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
    from kafka_redelivery.dead_letters.ledger import Ledger

    settings = load_quietly(config, overrides)
    ledger = Ledger(settings, of_group)
    run_job(settings, ledger, ledger.job(job).id, as_json=as_json)


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
    from kafka_redelivery.cli.views.dlq import job_document, print_job
    from kafka_redelivery.dead_letters.ledger import Ledger
    from kafka_redelivery.dead_letters.run import cancel as cancel_job

    refuse_without_question(yes=yes, as_json=as_json)
    settings = load_quietly(config, overrides)
    ledger = Ledger(settings, of_group)
    name = ledger.job(job).id
    if not yes:
        print_job(stdout(), job_document(ledger, ledger.job(name)))
        ask("cancel it for good?")
    cancel_job(settings, ledger, name)
    document = job_document(ledger, ledger.job(name))
    if as_json:
        print_json({"ok": True, **document})
    else:
        print_job(stdout(), document)
