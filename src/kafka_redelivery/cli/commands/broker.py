"""`redelivery broker`: an Apache Kafka on this machine, for trying things out."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import named_values
from kafka_redelivery.cli.output import print_text
from kafka_redelivery.topology import exit_codes

_CHECK_SECONDS: Final = 0.5
_MAX_PORT: Final = 65_535
_MIN_HEAP_MB: Final = 128


def broker(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the data in this directory for the next start. Default: a temporary directory."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=_MAX_PORT, help="The port for clients, on 127.0.0.1. Default: a free port."),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(help="The version of Apache Kafka, from 3.6.2 on. Default: the one that the tests use."),
    ] = None,
    heap_mb: Annotated[int, typer.Option(min=_MIN_HEAP_MB, help="Maximum heap in MiB.")] = 512,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="Set a broker property; repeatable."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME=PARTITIONS", help="Create a topic; repeatable."),
    ] = None,
) -> None:
    """Run an Apache Kafka on this machine until Ctrl-C: one node on 127.0.0.1, for trying things out.

    Once the broker answers and has the topics, the command prints one line on standard output: the address for
    bootstrap.servers. The command needs the optional extra broker of the Python package.
    """
    from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
    from kafka_redelivery.transport.broker.jars import KAFKA_VERSION

    if version is not None and not re.fullmatch(r"\d+\.\d+\.\d+[-\w]*", version, re.ASCII):
        raise typer.BadParameter(f"{version!r} is not a version such as {KAFKA_VERSION}", param_hint="--version")
    wanted, set_properties = dict(map(_topic, topics or ())), named_values(properties, "--property")
    kafka = EmbeddedKafka(
        data_dir=data_dir,
        port=port,
        version=version or KAFKA_VERSION,
        heap_mb=heap_mb,
        properties=set_properties,
    )
    print_text(f"starting Apache Kafka {version or KAFKA_VERSION}", err=True)
    with kafka, stop_event() as ended:
        kafka.create_topics(wanted)
        print_text(kafka.bootstrap_servers)
        print_text(f"data in {kafka.log.parent}", err=True)
        print_text("Ctrl-C stops the broker", err=True)
        while not ended.wait(_CHECK_SECONDS):
            if not kafka.running:
                hint = "run again with --data-dir DIR to keep its log" if data_dir is None else f"see {kafka.log}"
                print_text(f"error: the broker ended unexpectedly; {hint}", err=True)
                raise typer.Exit(exit_codes.FAILED)


def _topic(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not (name and number.isascii() and number.isdigit() and int(number) > 0):
        raise typer.BadParameter(f"{text!r} is not NAME=PARTITIONS, such as orders=3", param_hint="--topic")
    return name, int(number)
