"""The workloads and the functions that run them."""

from collections.abc import Callable, Iterator
from enum import StrEnum

from tests.bench import (
    concurrency,
    console,
    headers,
    index,
    kill,
    many,
    outage,
    redrive,
    release,
    spark,
    tiers,
    typed,
    w0,
    w1,
    w2,
    w3,
    wide,
)
from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Result


class Workload(StrEnum):
    """The names of the workloads on the command line."""

    W0 = "W0"
    W1 = "W1"
    W2 = "W2"
    W3 = "W3"
    RELEASE = "release"
    TIERS = "tiers"
    KEYS = "keys"
    HEADERS = "headers"
    KILL = "kill"
    REDRIVE = "redrive"
    INDEX = "index"
    CONSOLE = "console"
    SPARK = "spark"
    DATAFRAME = "dataframe"
    WIDE = "wide"
    MANY = "many"
    TYPED = "typed"
    CODECS = "codecs"
    OUTAGE = "outage"


RUNS: dict[Workload, Callable[[Bed, Options], Iterator[Result]]] = {
    Workload.W0: w0.run,
    Workload.W1: w1.run,
    Workload.W2: w2.run,
    Workload.W3: w3.run,
    Workload.RELEASE: release.run,
    Workload.TIERS: tiers.run,
    Workload.KEYS: concurrency.run,
    Workload.HEADERS: headers.run,
    Workload.KILL: kill.run,
    Workload.REDRIVE: redrive.run,
    Workload.INDEX: index.run,
    Workload.CONSOLE: console.run,
    Workload.SPARK: spark.run,
    Workload.DATAFRAME: spark.run_dataframe,
    Workload.WIDE: wide.run,
    Workload.MANY: many.run,
    Workload.TYPED: typed.run,
    Workload.CODECS: typed.run_codecs,
    Workload.OUTAGE: outage.run,
}
