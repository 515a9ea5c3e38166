"""The command line of the demo: ``./dev demo``."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from rich.console import Console

from examples.flights import data
from examples.flights.engine import Engine
from examples.flights.errors import DemoError, DirectoryInUseError
from examples.flights.layout import layout
from examples.flights.outage import USUAL_S, Cost
from examples.flights.report import show, show_cost
from examples.flights.roles import BLOCKING, WITHOUT
from examples.flights.run import DemoEnvironment, run
from examples.flights.scenario import MISSING_MAKER, scenario
from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.errors import TransportError

_FAILED: Final = 1
_INTERRUPTED: Final = 128 + signal.SIGINT
_TERMINATED: Final = 128 + signal.SIGTERM
_FEW_DAYS: Final = 3
"""A plane that is in no file has 72 flights in January, and each of them waits for all delays of those before it."""
_LARGEST_PORT: Final = 65_535
_LONGEST_OUTAGE_S: Final = 150
"""A playback in which no record ends for three minutes ends."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Returns the exit code: 0 if every record is accounted for."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.outage is not None and options.engine is not Engine.WORKERS:
        parser.error("argument --outage: a worker is killed and one is added, so the engine has to be workers")
    if options.settings is BLOCKING and (options.redrive or options.engine is not Engine.WORKERS):
        parser.error("argument --blocking: not with --redrive, and the engine has to be workers")
    if options.settings is WITHOUT and (options.redrive or options.outage is None):
        parser.error("argument --without: only with --outage, and not with --redrive")
    if options.days is None:
        options.days = _FEW_DAYS if options.settings is BLOCKING else data.JANUARY
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    console = Console(stderr=True, emoji=False, markup=False)
    try:
        return _run(options, console)
    except KeyboardInterrupt:
        console.print("interrupted; all processes are stopped")
        return _INTERRUPTED
    except (DemoError, PipelineError, TransportError) as error:
        console.print(f"demo: {error}", markup=False, highlight=False, soft_wrap=True)
    except KafkaException as error:
        console.print(f"demo: Kafka: {error.args[0].str()}", markup=False, highlight=False, soft_wrap=True)
    return _FAILED


def _run(options: argparse.Namespace, console: Console) -> int:
    options.engine.verify()
    given = scenario(data.flights(options.days), data.planes(), MISSING_MAKER if options.redrive else None)
    names = layout(options.settings)
    starting = console.status("starting Kafka (the first run downloads it)")
    with _directory(options.keep) as directory, starting:
        # The Kafka clients log here, for finding the cause of a failure.
        log = directory / "demo.log"
        logging.basicConfig(filename=log, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        kafka = None if options.keep is None else directory / "kafka"
        with EmbeddedKafka(data_dir=kafka, port=options.port) as broker:
            starting.stop()
            console.print(f"Kafka is ready at {broker.bootstrap_servers}; logs are in {directory}", highlight=False)
            environment = DemoEnvironment(broker, directory, console, options.engine, options.outage, options.settings)
            report = run(given, names, environment)
        if isinstance(report, Cost):
            show_cost(report, Console(emoji=False, markup=False))
            if options.json:
                print(json.dumps({"outage": asdict(report)}))
            return 0
        show(report, Console(emoji=False, markup=False))
        if options.json:
            print(json.dumps(report.document()))
        if not report.conserved:
            raise DemoError(f"not every record is accounted for; the logs are in {directory}")
    return 0


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """The directory for logs: ``keep``, or a temporary one that is removed unless the demo fails.

    Raises:
        DirectoryInUseError: ``keep`` is not empty.
    """
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise DirectoryInUseError(keep)
        yield keep.absolute()
        return
    directory = Path(tempfile.mkdtemp(prefix="redelivery-flights-"))
    failed = False
    try:
        yield directory
    except Exception:
        failed = True
        raise
    finally:
        if not failed:  # done, or interrupted by the user
            shutil.rmtree(directory, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev demo",
        description="Seat-miles of the flights that left New York in 2013, on an embedded Apache Kafka. "
        "Ends with a table of what became of every record, checked against the CSV files.",
        epilog="exit code: 0 = every record is accounted for, 1 = one is not, or the demo failed, 2 = wrong usage",
    )
    span = parser.add_mutually_exclusive_group()
    span.add_argument("--all", dest="days", action="store_const", const=data.YEAR, help="the whole year")
    span.add_argument(
        "--days",
        type=_days,
        metavar="N",
        help="the first N days of the year (default: 31, January; with --blocking: 3)",
    )
    parser.add_argument(
        "--engine",
        type=Engine,
        choices=list(Engine),
        default=Engine.WORKERS,
        help="what handles flights: a worker (default), a streaming query on Spark with the same handler, or one of "
        "DataFrames (examples/flights_dataframe.py); -cluster: submitted to a Spark cluster of two workers here",
    )
    parser.add_argument(
        "--redrive",
        action="store_true",
        help=f"the planes of {MISSING_MAKER} are missing until their flights are dead letters, which are sent again",
    )
    parser.add_argument(
        "--outage",
        type=_seconds,
        nargs="?",
        const=USUAL_S,
        metavar="SECONDS",
        help="the handler asks a book of flights, which is away in mid-run for so many seconds (default: "
        f"{USUAL_S:g}); meanwhile a worker is killed and one is added",
    )
    settings = parser.add_mutually_exclusive_group()
    settings.add_argument(
        "--blocking",
        dest="settings",
        action="store_const",
        const=BLOCKING,
        help="a flight that failed keeps its place, and the later flights of its plane wait for it",
    )
    settings.add_argument(
        "--without",
        dest="settings",
        action="store_const",
        const=WITHOUT,
        help="with --outage: the book is not declared as a dependency; ends with what its outage has cost",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep Kafka's data and all logs in DIR")
    parser.add_argument("--port", type=_port, help="port of Kafka on 127.0.0.1 (default: a free port)")
    parser.set_defaults(settings=())
    return parser


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= data.YEAR:
        raise argparse.ArgumentTypeError(f"must be from 1 to {data.YEAR}")
    return days


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 1 <= seconds <= _LONGEST_OUTAGE_S:
        raise argparse.ArgumentTypeError(f"must be from 1 to {_LONGEST_OUTAGE_S}")
    return seconds


def _port(text: str) -> int:
    port = int(text)
    if not 1 <= port <= _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"must be from 1 to {_LARGEST_PORT}")
    return port


if __name__ == "__main__":
    sys.exit(main())
