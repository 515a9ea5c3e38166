"""The report of `redelivery migrate plan`: as Markdown, and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

from kafka_redelivery.cli.views.acls import AclUser, documents, kafka_commands
from kafka_redelivery.topology.classic.destination import without_kind
from kafka_redelivery.topology.cluster.plan import TopologyPlan
from kafka_redelivery.topology.durations import format_milliseconds
from kafka_redelivery.topology.faults import TopologyFault
from kafka_redelivery.topology.migration.connection_uri import NAME
from kafka_redelivery.topology.migration.result import Note
from kafka_redelivery.topology.migration.versions import PRODUCTS
from kafka_redelivery.topology.printable import printable, printable_line

LETTERS: Final = {
    "TextMessage": ("taken, compressed ones (`useCompression`), too", "taken"),
    "a text with U+0000": ("stays: STOMP ends it there", "taken"),
    "an empty text, or none": ("stays: it looks like a MapMessage", "stays: the two look the same"),
    "BytesMessage": ("taken, compressed and empty ones, too", "taken"),
    "an empty BytesMessage, or one of four zero bytes": ("taken", "stays: the two look the same"),
    "a large BytesMessage, compressed by its client (`compressLargeMessage`)": (
        "",
        "stays: its bytes arrive compressed",
    ),
    "a large TextMessage or MapMessage, compressed by its client": (
        "",
        "stays: before 2.55 the broker fails to show it; it counts as not delivered",
    ),
    "MapMessage, ObjectMessage, StreamMessage, Message": (
        "stays: no body arrives",
        "stays: a few bytes of its encoding arrive",
    ),
    "a message of AMQP": (
        (
            "stays: its body is AMQP's whole encoding, and its acknowledgement ends the connection "
            "(`transport.transformer=jms` makes JMS messages of those that follow)"
        ),
        "stays: the broker does not tell its type",
    ),
    "a message with a property called `ack`, `destination`, `expires`, `persistent`, `priority`, `redelivered`, "
    "`subscription`, `timestamp` or `type`": ("stays: it replaces the header of STOMP", "stays: the same"),
}
"""What `import-letters` does with a message, for Classic and Artemis: its report has it as a table."""

_BROKERS: Final = tuple(PRODUCTS)
_WIDTH: Final = 40
_LEFT_OUT: Final = "not carried over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that moves: its configuration, and what follows from it.

    Attributes:
        group: its consumer group.
        servers: where its Kafka is.
        configuration: its configuration as YAML.
        notes: those of its client, and of the configuration.
        destinations: the explanation of each source.
        blocking: whether a failed record holds back those behind it.
        planned: its topics.
        faults: those of the plan.
        users: the users of its roles.
    """

    group: str
    servers: str
    configuration: str
    notes: tuple[Note, ...]
    destinations: tuple[Mapping[str, Any], ...]
    blocking: bool
    planned: TopologyPlan
    faults: tuple[TopologyFault, ...]
    users: tuple[AclUser, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """All that a report is about.

    Attributes:
        source: the name of the broker's file.
        dialect: ``activemq`` or ``artemis``.
        version: the version of the broker in words; ``None`` if it was not given.
        stomp: URLs of its STOMP connectors.
        notes: those of the broker's file.
        services: the services that move.
        partitions: how many each source topic has.
    """

    source: str
    dialect: str
    version: str | None
    stomp: tuple[str, ...]
    notes: tuple[Note, ...]
    services: tuple[Service, ...]
    partitions: int


def document(moved: Moved) -> dict[str, Any]:
    """Return the report as plain data."""
    return {
        "source": moved.source,
        "broker": moved.version or PRODUCTS[moved.dialect],
        "notes": _notes(moved.notes),
        "services": [
            {
                "group": service.group,
                "configuration": service.configuration,
                "notes": _notes(service.notes),
                "destinations": list(service.destinations),
                "topology": service.planned.document(),
                "faults": [fault.document() for fault in service.faults],
                "tests": _tests(service),
                "acls": documents(service.users),
            }
            for service in moved.services
        ],
        "letters": {
            "queues": _letter_queues(moved),
            "messages": [
                {"message": message, "taken": text.startswith("taken"), "text": text}
                for message, text in _letters(moved.dialect)
            ],
            "commands": _letter_commands(moved),
        },
        "steps": _steps(moved),
    }


def markdown(moved: Moved) -> str:
    """Return the report as Markdown."""
    return printable("\n".join(_report(moved))) + "\n"


def _report(moved: Moved) -> Iterator[str]:
    yield f"# From {moved.version or PRODUCTS[moved.dialect]} to Kafka"
    yield ""
    yield f"Source: `{printable_line(moved.source)}`. Nothing was asked of the broker or of Kafka; source topics are"
    yield f"assumed to have {moved.partitions} partitions."
    for service in moved.services:
        yield from _service(service, alone=len(moved.services) == 1)
    yield from _section("Differences that matter", _decisive(moved.notes) or ["The import has none."])
    left_out = [f"- {note}" for note in moved.notes if _LEFT_OUT in note.text]
    if left_out:
        yield from _section("Left out, because Kafka does it in its own way", left_out)
    yield from _section("Letters", _letter_lines(moved))
    yield from _section("Steps", [f"{number}. {step}" for number, step in enumerate(_steps(moved), start=1)])


def _section(title: str, lines: Iterable[str], level: int = 2) -> Iterator[str]:
    yield ""
    yield f"{'#' * level} {title}"
    yield ""
    yield from lines


def _service(service: Service, *, alone: bool) -> Iterator[str]:
    yield ""
    yield f"## Group `{service.group}`"
    level = 3
    yield from _section("Sources", _sources(service), level)
    yield from _section("Delays", _drawings(service), level)
    yield from _section("Topics", _topics(service), level)
    if not alone or service.notes or service.faults:
        notes = [f"- {note}" for note in service.notes]
        notes += [f"- {each.topic} {each.problem}. Loss: {each.loss}. Fix: {each.fix}" for each in service.faults]
        yield from _section("Differences of this service", notes or ["None."], level)
    yield from _section("To test", [f"- {each}" for each in _tests(service)], level)
    yield from _section("Rights", ["```sh", *kafka_commands(service.users, service.servers), "```"], level)
    yield from _section("Configuration", ["```yaml", *service.configuration.splitlines(), "```"], level)


def _sources(service: Service) -> Iterator[str]:
    yield "| destination | topic | decided by | deliveries | dead letters | expired |"
    yield "|---|---|---|---|---|---|"
    for each in service.destinations:
        matched = ", ".join(each["matched"]) or "no pattern"
        yield _row(
            f"`{each['destination']}`",
            f"`{each['topic']}`",
            f"{each['layer']}, `{matched}`",
            _deliveries(each),
            _kept(each["dead_letter_topic"]),
            _kept(each["expiry_topic"]),
        )


def _row(*cells: str) -> str:
    return f"| {' | '.join(printable_line(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _deliveries(explained: Mapping[str, Any]) -> str:
    limit = explained["max_deliveries"]
    return "no limit" if limit < 0 else str(limit)


def _kept(topic: str | None) -> str:
    return "dropped and counted" if topic is None else f"`{topic}`"


def _drawings(service: Service) -> Iterator[str]:
    """Draw the deliveries of each policy once, with the sources that have it."""
    together: dict[str, list[Mapping[str, Any]]] = {}
    for each in service.destinations:
        drops = each["dead_letter_topic"] is None
        together.setdefault(repr((each["attempts"], each["max_deliveries"], drops)), []).append(each)
    for number, group in enumerate(together.values()):
        if number:
            yield ""
        names = ", ".join(f"`{each['topic']}`" for each in group)
        yield f"{names}:"
        yield ""
        yield "```text"
        yield from drawn(group[0])
        yield "```"


def drawn(explained: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each delivery of a record that always fails: when it comes, and a bar for the wait before it."""
    attempts: Sequence[Mapping[str, Any]] = explained["attempts"]
    limit, total = explained["max_deliveries"], sum(each["delay_ms"] for each in attempts)
    yield f"{'delivery':>8}  {'after':>15}  {'at':>9}"
    if limit:
        yield f"{1:>8}  {'':>15}  {format_milliseconds(0):>9}"
    at = 0
    for each in attempts:
        start, at = at, at + each["delay_ms"]
        first, last = (_WIDTH * time // max(total, 1) for time in (start, at))
        bar = " " * min(first, _WIDTH - 1) + "=" * max(last - first, 1 if at > start else 0)
        low, high = each["delay_range_ms"]
        after = (
            format_milliseconds(each["delay_ms"])
            if low == high
            else f"{format_milliseconds(max(0, low))} to {format_milliseconds(max(0, high))}"
        )
        when = f"{each['redelivery'] + 1:>8}  {after:>15}  {format_milliseconds(at):>9}"
        yield f"{when}  {bar:<{_WIDTH}}  {each['tier'] or ''}".rstrip()
    if limit < 0 or limit - 1 > len(attempts):
        yield f"{'...':>8}"
    if limit < 0:
        yield "and so on, without a limit"
    elif explained["dead_letter_topic"] is None:
        yield "then dropped and counted"
    else:
        yield "then a dead letter"


def _topics(service: Service) -> Iterator[str]:
    yield "| topic | purpose | partitions |"
    yield "|---|---|---|"
    for topic in service.planned.topics:
        yield _row(f"`{topic.name}`", str(topic.role), str(topic.partitions))
    yield ""
    yield "`redelivery topology plan` shows their configurations; `redelivery topology apply` creates them."


def _notes(notes: Iterable[Note]) -> list[dict[str, str]]:
    return [{"location": note.location, "text": note.text} for note in notes]


def _decisive(notes: Iterable[Note]) -> list[str]:
    return [f"- {note}" for note in notes if _LEFT_OUT not in note.text]


def _tests(service: Service) -> list[str]:
    """Return what to try with the service's own handler, from the settings of its sources."""
    found = []
    for each in service.destinations:
        topic, limit, dead = each["topic"], each["max_deliveries"], each["dead_letter_topic"]
        if limit < 0:
            found.append(f"`{topic}`: a record that always fails is redelivered without a limit. Who notices it?")
            continue
        end = "is dropped and counted" if dead is None else f"is in `{dead}`"
        whole_ms = sum(attempt["delay_ms"] for attempt in each["attempts"])
        when = (
            f"after {format_milliseconds(whole_ms)} of delays" if limit - 1 == len(each["attempts"]) else "in the end"
        )
        times = f"{limit} {'delivery' if limit == 1 else 'deliveries'}"
        found.append(f"`{topic}`: a record that always fails {end} after {times}, {when}.")
    if service.blocking:
        found.append("A record that fails holds back those behind it in its partition: measure with your failures.")
    else:
        found.append(
            "Two records of one key, of which the first fails: the second overtakes it. Set "
            "`handler.nonBlockingRedelivery: false` where that must not happen."
        )
    found.append("The same record twice: the handler has to stand it (`context.once()`, `record.message_id`).")
    found.append("A record that the codec cannot decode: it is dead-lettered at once, byte for byte.")
    return found


def _letters(dialect: str) -> Iterator[tuple[str, str]]:
    for message, texts in LETTERS.items():
        text = texts[_BROKERS.index(dialect)]
        if text:
            yield message, text


def _letter_queues(moved: Moved) -> list[str]:
    """Return the broker's dead-letter queues, then those of expired messages, as far as the settings name them."""
    explained = [each for service in moved.services for each in service.destinations if each["dead_letter_topic"]]
    names = [*map(_letter_queue, explained), *map(_expiry_queue, explained)]
    return list(dict.fromkeys(name for name in names if name))


def _letter_queue(explained: Mapping[str, Any]) -> str:
    """Return the dead-letter queue of a destination; empty if there is none, or it is a topic."""
    strategy, settings = explained["dead_letter_strategy"], explained["policy"]
    if strategy is not None:
        kind, _, name = strategy["dead_letter_destination"].partition(":")
        return name if kind == "queue" else ""
    if settings["auto-create-dead-letter-resources"]:
        address = without_kind(explained["destination"])
        return f"{settings['dead-letter-queue-prefix']}{address}{settings['dead-letter-queue-suffix']}"
    return settings["dead-letter-address"] or ""


def _expiry_queue(explained: Mapping[str, Any]) -> str:
    """Return Artemis's queue for what expires; empty if there is none. Classic has its dead-letter queue for it."""
    settings = explained["policy"]
    if explained["dead_letter_strategy"] is not None or not settings["expiry-address"]:
        return ""
    if settings["auto-create-expiry-resources"]:
        address = without_kind(explained["destination"])
        return f"{settings['expiry-queue-prefix']}{address}{settings['expiry-queue-suffix']}"
    return str(settings["expiry-address"])


def _letter_commands(moved: Moved) -> list[str]:
    url = (moved.stomp or ("stomp://HOST:61613",))[0].replace("://", "://USER@")
    ca = " --ca FILE" if url.startswith("stomp+ssl") else ""
    return [f"redelivery import-letters {url}{ca} --queue {quote(name)} --dry-run" for name in _letter_queues(moved)]


def _letter_lines(moved: Moved) -> Iterator[str]:
    if moved.stomp:
        yield f"The file has a STOMP connector: {', '.join(f'`{url}`' for url in moved.stomp)}."
    else:
        missing = "No STOMP connector is known" if moved.source == NAME else "The file has no STOMP connector"
        yield f"**{missing}**, which `import-letters` needs. Add"
        if moved.dialect == "activemq":
            yield '`<transportConnector name="stomp" uri="stomp://127.0.0.1:61613"/>` and restart the broker.'
        else:
            yield '`<acceptor name="stomp">tcp://127.0.0.1:61613?protocols=STOMP</acceptor>`.'
    commands = _letter_commands(moved)
    if commands:
        yield from ("", "```sh", *commands, "```")
    yield ""
    yield "| message | what happens with it |"
    yield "|---|---|"
    for message, text in _letters(moved.dialect):
        yield _row(message, text)


_COPY: Final = {
    "activemq": 'a `<compositeQueue>` with `forwardOnly="false"`',
    "artemis": "a `<divert>` that is not exclusive",
}
_EMPTY: Final = {
    "activemq": "QueueSize is 0, also of what the scheduler of the broker holds",
    "artemis": "message count, delivering count and scheduled count are 0",
}


def _steps(moved: Moved) -> list[str]:
    """Return the steps of the move in their order."""
    topics = ", ".join(dict.fromkeys(f"`{each['topic']}`" for one in moved.services for each in one.destinations))
    groups = ", ".join(f"`{service.group}`" for service in moved.services)
    return [
        (
            "Save the configuration above, set `kafka` and `handler.callable`, and run `redelivery config check`. Test "
            "each handler (`HandlerKit`)."
        ),
        (
            f"Create the source topics with {moved.partitions} partitions: {topics}. Grant the rights. Run `redelivery "
            "topology apply`, then `redelivery topology check`."
        ),
        (
            f"Dual run: {_COPY[moved.dialect]} and a Camel route copy the messages to Kafka, and the old consumers go "
            f"on. Run the workers of {groups} with harmless effects, and compare the counts."
        ),
        (
            "Before the weekend: note the numbers of the broker's queues, and the way back: until the producers write "
            "to Kafka, the old consumers can be started again."
        ),
        "Stop the copy, and the workers of the dual run. Let the old consumers finish: " + _EMPTY[moved.dialect] + ".",
        (
            "Stop the old consumers. Start `redelivery scheduler` and `redelivery worker`. Let the producers write to "
            "Kafka; for one that cannot yet, let the route take its messages instead of copying them."
        ),
        (
            "Import the dead letters, first with `--dry-run`: the commands are above. What stays in the queue stays "
            "readable for JMS clients."
        ),
        (
            "Look at `redelivery status`, `redelivery dlq list` and the alerts. Keep the broker until its dead-letter "
            "queues are empty."
        ),
    ]
