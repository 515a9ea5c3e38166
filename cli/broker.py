"""`redelivery broker`: a real Apache Kafka on this machine, to try things out with."""

import signal
import threading
from pathlib import Path
from typing import Annotated, Final

import typer

_LOOK_SECONDS: Final = 0.5
_LARGEST_PORT: Final = 65_535
_SMALLEST_HEAP_MB: Final = 128


def broker(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the data here; a broker started here later has it. Default: a temporary directory."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=_LARGEST_PORT, help="Where clients connect, on 127.0.0.1. Default: a free port."),
    ] = None,
    heap_mb: Annotated[int, typer.Option(min=_SMALLEST_HEAP_MB, help="Largest heap of the broker, MiB.")] = 512,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A broker property; may be given several times."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME=PARTITIONS", help="A topic to make; may be given several times."),
    ] = None,
) -> None:
    """Run a real Apache Kafka on this machine until Ctrl-C: one node on loopback, for trying things out.

    The first line on standard output is the address for bootstrap.servers, printed when the broker answers
    and has the topics.
    """
    from transport.embedded import EmbeddedKafka
    from transport.new_topics import make_topics

    wanted = dict(map(_topic, topics or ()))
    with EmbeddedKafka(
        data_dir=data_dir, port=port, heap_mb=heap_mb, properties=dict(map(_property, properties or ()))
    ) as kafka:
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        make_topics(kafka.bootstrap_servers, wanted)
        typer.echo(kafka.bootstrap_servers)
        typer.echo(f"data in {kafka.log.parent}; Ctrl-C ends the broker", err=True)
        while not ended.wait(_LOOK_SECONDS):
            if not kafka.running:
                where = f"; see {kafka.log}" if data_dir is not None else ""
                typer.echo(f"the broker ended by itself{where}", err=True)
                raise typer.Exit(1)


def _property(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


def _topic(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not (name and number.isascii() and number.isdigit() and int(number) > 0):
        raise typer.BadParameter(f"{text!r} is not NAME=PARTITIONS", param_hint="--topic")
    return name, int(number)
