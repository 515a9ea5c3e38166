"""`redelivery import-letters`: moves the messages of an ActiveMQ dead-letter queue to dead-letter topics."""

from __future__ import annotations

import logging
import os
from contextlib import closing, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit

import typer
from rich.console import Console

from kafka_redelivery.cli.commands.dlq_options import load_quietly
from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    Overrides,
    Yes,
    ask,
    duration,
    refuse_without_question,
)
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.dead_letters.draining import Drain, Drained
from kafka_redelivery.topology import exit_codes

if TYPE_CHECKING:
    from kafka_redelivery.transport.activemq.queue_reader import BrokerAddress


_log = logging.getLogger(__name__)

_PASSWORD = "REDELIVERY_ACTIVEMQ_PASSWORD"  # noqa: S105 - the name of a variable
_PORTS = {"stomp": 61613, "stomp+ssl": 61614}


@dataclass(frozen=True, kw_only=True)
class ImportLetters:
    """Move the messages of a dead-letter queue of ActiveMQ Classic or Artemis to dead-letter topics.

    A message leaves the queue when its dead letter is committed. Run an interrupted import again: what is in the topic
    already is recognised. Exit code 1 if messages are left in the queue.
    """

    broker: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help=f"stomp://USER@HOST:PORT, or stomp+ssl:// with --ca; the password: {_PASSWORD} or --password-file.",
        ),
    ]
    config: ConfigFile = DEFAULT_CONFIG
    overrides: Overrides = None
    queue: Annotated[
        str, typer.Option("--queue", metavar="NAME", help="The dead-letter queue; in Artemis mostly DLQ.")
    ] = "ActiveMQ.DLQ"
    origin: Annotated[
        str | None,
        typer.Option(
            "--origin",
            metavar="TOPIC",
            help="The source of all messages. Default: for each, the one of its destination.",
        ),
    ] = None
    selector: Annotated[
        str | None, typer.Option("--selector", metavar="SQL", help="A JMS selector: only the messages that it selects.")
    ] = None
    key: Annotated[
        str, typer.Option("--key", metavar="PROPERTY", help="The property that becomes the key of the record.")
    ] = "JMSXGroupID"
    ca: Annotated[str | None, typer.Option("--ca", metavar="FILE", help="Trusted certificates, for TLS.")] = None
    password_file: Annotated[
        Path | None, typer.Option("--password-file", metavar="FILE", help="A file that holds only the password.")
    ] = None
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Import this many at most.")] = None
    wait: Annotated[
        str, typer.Option("--wait", metavar="DURATION", help="The queue is empty if no message comes for this time.")
    ] = "5s"
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be imported; change nothing.")] = False
    yes: Yes = False
    as_json: AsJson = False

    def __call__(self) -> None:
        """Show what is in the queue, ask, and move it."""
        from kafka_redelivery.cli.progress import progress
        from kafka_redelivery.transport.activemq.queue_reader import QueueReader

        refuse_without_question(dry_run=self.dry_run, yes=self.yes, as_json=self.as_json)
        settings = load_quietly(self.config, self.overrides)
        address, wait_s = (
            _address(self.broker, self.ca, self.password_file),
            duration(self.wait, "--wait").total_seconds(),
        )

        def drain(*, browse: bool) -> Drained:
            moving = Drain(settings, self.origin, self.key)
            doing = "looking at messages" if browse else "importing messages"
            with (
                stop_event() as stop,
                progress(stderr(), doing) as report_progress,
                closing(QueueReader(address, self.queue, self.selector, browse=browse)) as inbox,
            ):
                if browse:
                    return moving.preview(inbox, stop, self.limit, wait_s)
                return moving.run(
                    inbox, stop, self.limit, wait_s, lambda done: report_progress(done, self.limit or done)
                )

        found = drain(browse=True) if not self.yes or self.dry_run else None
        if not self.dry_run:
            if found is not None:
                print_drained(stdout(), found, "to import")
                if not (found.topics or found.present):
                    raise typer.Exit(exit_codes.FAILED if found.left else exit_codes.OK)
                ask("import them?")
            found = drain(browse=False)
        assert found is not None  # noqa: S101 - one of the two has run
        if self.as_json:
            print_json({"ok": not found.left, "dryRun": self.dry_run, **drained_document(found)})
        else:
            print_drained(stdout(), found, "to import" if self.dry_run else "imported")
            if self.dry_run:
                stdout().print("dry run: nothing was changed")
        if found.left:
            raise typer.Exit(exit_codes.FAILED)


def _address(url: str, ca: str | None, password_file: Path | None) -> BrokerAddress:
    from kafka_redelivery.transport.activemq.queue_reader import BrokerAddress
    from kafka_redelivery.transport.opening import password_in

    parts = urlsplit(url)
    try:
        usual = _PORTS[parts.scheme]
        port = parts.port or usual
    except (KeyError, ValueError):
        shown = url.rpartition("@")[2]  # what is before it may be a password
        raise typer.BadParameter(
            f"{shown!r} is not stomp://HOST:PORT or stomp+ssl://HOST:PORT", param_hint="URL"
        ) from None
    if not parts.hostname or parts.password is not None:
        raise typer.BadParameter(
            f"it needs a host, and no password: that belongs in {_PASSWORD}, or in --password-file", param_hint="URL"
        )
    if parts.scheme == "stomp+ssl" and ca is None:
        raise typer.BadParameter("name the trusted certificates with --ca FILE for stomp+ssl://", param_hint="--ca")
    if parts.scheme == "stomp" and ca is not None:
        raise typer.BadParameter("stomp:// is without TLS; write stomp+ssl://, or leave --ca out", param_hint="--ca")
    user = None if parts.username is None else unquote(parts.username)
    password = os.environ.get(_PASSWORD)
    if password_file is not None:
        try:
            password = password_in(password_file)
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"cannot be read: {error}", param_hint="--password-file") from None
    address = BrokerAddress(host=parts.hostname, port=port, user=user, password=password, ca_file=ca)
    if ca is None and password is not None and not _is_loopback(address.host):
        _log.warning("the password for %s crosses the network unencrypted; use stomp+ssl:// and --ca", address)
    return address


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host.rstrip(".").lower() == "localhost"


def print_drained(console: Console, found: Drained, done: str) -> None:
    """Print how many messages become dead letters, where, and why others are left in the queue.

    Args:
        console: where to print.
        found: the numbers.
        done: ``imported`` or ``to import``.
    """
    for topic, number in sorted(found.topics.items()):
        console.print(f"{number} messages {done} as dead letters in {topic}", markup=False)
    if found.present:
        console.print(f"{found.present} are there already, from an import that was interrupted")
    for destination, number in sorted(found.without_source.items()):
        where = f"destination {destination}" if destination else "no destination"
        console.print(f"{number} with {where} are left in the queue: no source has it (--origin)", markup=False)
    for reason, number in sorted(found.unknown_content.items()):
        console.print(f"{number} are left in the queue, whose content may not arrive whole: {reason}", markup=False)
    for reason, number in sorted(found.refused.items()):
        console.print(
            f"{number} are left in the queue, because Kafka refuses their dead letters: {reason}", markup=False
        )
    if found.held:
        console.print(
            f"{found.held} more are in the queue and were not delivered: another reader holds them, or one that was "
            "killed; or the broker cannot show them, such as compressed large texts of Artemis; import again later"
        )
    if not found.topics:
        console.print(f"nothing {done}")


def drained_document(found: Drained) -> dict[str, Any]:
    """Return the same as plain data for JSON."""
    return {
        "letters": found.topics.total(),
        "topics": dict(found.topics),
        "present": found.present,
        "withoutSource": dict(found.without_source),
        "withoutBody": found.unknown_content.total(),
        "unknownContent": dict(found.unknown_content),
        "refused": dict(found.refused),
        "held": found.held,
    }
