"""`redelivery broker`: an Apache Kafka on this machine, for trying things out."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import named_values
from kafka_redelivery.cli.output import print_text
from kafka_redelivery.topology import exit_codes

if TYPE_CHECKING:
    from kafka_redelivery.transport.broker.embedded import EmbeddedKafka

_CHECK_SECONDS: Final = 0.5
_MAX_PORT: Final = 65_535
_MIN_HEAP_MB: Final = 128
_MAX_NODES: Final = 9


def broker(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the data in this directory for the next start. Default: a temporary directory."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=_MAX_PORT,
            help="The port for clients, on 127.0.0.1; further nodes take the ports that follow. Default: a free port.",
        ),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option(
            min=1,
            max=_MAX_NODES,
            help="How many nodes, each a process of its own. 3: each topic has three replicas, so one node may fail.",
        ),
    ] = 1,
    heap_mb: Annotated[int, typer.Option(min=_MIN_HEAP_MB, help="Maximum heap of a node in MiB.")] = 512,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="Set a broker property; repeatable."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME=PARTITIONS", help="Create a topic; repeatable."),
    ] = None,
) -> None:
    """Run an Apache Kafka on this machine until Ctrl-C: one or more nodes on 127.0.0.1, for trying things out.

    Once the broker answers and has the topics, the command prints one line on standard output: the address for
    bootstrap.servers. With several nodes it also prints the process of each, so that you can kill one; the command goes
    on while most of them run. The command needs the optional extra broker of the Python package.
    """
    from kafka_redelivery.transport.broker.cluster import EmbeddedCluster
    from kafka_redelivery.transport.broker.embedded import EmbeddedKafka

    wanted, set_properties = dict(map(_topic, topics or ())), named_values(properties, "--property")
    with contextlib.ExitStack() as stack:
        kafka: EmbeddedKafka | EmbeddedCluster
        if nodes == 1:
            kafka = EmbeddedKafka(data_dir=data_dir, port=port, heap_mb=heap_mb, properties=set_properties)
            running = {1: stack.enter_context(kafka)}
        else:
            kafka = EmbeddedCluster(nodes, data_dir=data_dir, port=port, heap_mb=heap_mb, properties=set_properties)
            running = dict(stack.enter_context(kafka).nodes)
        ended = stack.enter_context(stop_event())
        kafka.create_topics(wanted)
        print_text(kafka.bootstrap_servers)
        for number, node in running.items():
            name = f"node {number}: {node.bootstrap_servers}, process {node.pid}, " if nodes > 1 else ""
            print_text(f"{name}data in {node.log.parent}", err=True)
        print_text("Ctrl-C stops the broker", err=True)
        while not ended.wait(_CHECK_SECONDS):
            for number in [number for number, node in running.items() if not node.running]:
                _ended(number, running.pop(number), nodes, kept=data_dir is not None)
            if len(running) <= nodes // 2:
                raise typer.Exit(exit_codes.FAILED)


def _ended(number: int, node: "EmbeddedKafka", nodes: int, *, kept: bool) -> None:
    name = "the broker" if nodes == 1 else f"node {number}"
    hint = f"see {node.log}" if kept else "run again with --data-dir DIR to keep its log"
    print_text(f"error: {name} ended unexpectedly; {hint}", err=True)


def _topic(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not (name and number.isascii() and number.isdigit() and int(number) > 0):
        raise typer.BadParameter(f"{text!r} is not NAME=PARTITIONS", param_hint="--topic")
    return name, int(number)
