"""The Spark session that all jobs run in.

With nothing set it is ``local[*]`` in this process, on the Java that is found and with the jars that are pinned. Under
``spark-submit`` everything that was submitted stands: master, memory, jars.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.errors import SparkUnavailableError
from pipeline.spark_jars import CONNECTOR, JarSet, with_jars
from pipeline.spark_java import find_spark_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_JAVA_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
_LOG: Final = "log4j2.configurationFile"
_QUIET: Final = Path(__file__).with_name("log4j2.properties")
"""Without it Spark tells, before it can be told to be quiet, by what profile it logs."""

_DEFAULTS: Final = {
    # Epoch ms and days mean the same wherever a job runs.
    "spark.sql.session.timeZone": "UTC",
    # Of two tasks with one identity the older is fenced: to start a second one on purpose only disturbs the first.
    "spark.speculation": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A shuffle of the default 200 partitions costs more than it sorts, where a topic has a few.
    "spark.sql.shuffle.partitions": "8",
}


@contextmanager
def spark_session(
    name: str, settings: Mapping[str, str] | None = None, jars: Iterable[JarSet] = ()
) -> Iterator[SparkSession]:
    """Open a session and close it again.

    Args:
        name: of the application, as Spark shows it.
        settings: Spark's own, by their own names; they win over our defaults, not over what was submitted.
        jars: needed beside those that read Kafka. What is submitted must bring its own.

    Raises:
        SparkUnavailableError: PySpark, its Java or its jars cannot be had.
    """
    try:
        from pyspark import SparkConf  # noqa: PLC0415 - an optional dependency
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise SparkUnavailableError(
            f"PySpark is not installed ({error}); install kafka-redelivery with its extra 'spark'"
        ) from error
    # It tells of every call between Python and the JVM.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    chosen = {**_DEFAULTS, **(settings or {})}
    # Under spark-submit there is a JVM already, which knows what was submitted.
    fixed = dict(SparkConf().getAll()) if "PYSPARK_GATEWAY_PORT" in os.environ else _alone(chosen, jars)
    builder = SparkSession.builder.appName(name)
    for key, value in {**chosen, **fixed}.items():
        builder = builder.config(key, value)
    asked = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    # Spark's context takes Ctrl-C for itself and cancels all jobs; who asked for it before wants to end in order.
    if asked is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, asked)
    try:
        yield session
    finally:
        session.stop()


def _alone(chosen: Mapping[str, str], jars: Iterable[JarSet]) -> dict[str, str]:
    """The settings of a session that nobody submitted: driver and executor are this process and a JVM it starts."""
    os.environ["JAVA_HOME"] = str(find_spark_java())
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    # The workers are this interpreter, whatever python3 on PATH is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_CONF_DIR" not in os.environ and _LOG not in os.environ.get(_JAVA_OPTIONS, ""):
        said = f'"-D{_LOG}={_QUIET.as_uri()}"'
        os.environ[_JAVA_OPTIONS] = f"{os.environ.get(_JAVA_OPTIONS, '')} {said}".strip()
    return {
        "spark.master": chosen.get("spark.master", "local[*]"),
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        **with_jars(chosen, (CONNECTOR, *jars)),
    }
