"""The Spark session that all jobs run in.

By default it is ``local[*]`` in this process, with the Java that is found and the pinned jars. Under ``spark-submit``
every submitted setting applies: it overrides the configuration, which overrides our defaults. Where an application runs
already, as in a notebook, a job gets a session of its own in it and stops nothing.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka_redelivery.pipeline.errors import JavaEndedError, PipelineRefusedError
from kafka_redelivery.pipeline.spark.jars import CONNECTOR, JarSet, refuse_connect, refuse_version, with_jars
from kafka_redelivery.transport.broker.java import candidates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_ADDRESSES: Final = ("spark.driver.host", "spark.driver.bindAddress")
_JAVA_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit: the port of its JVM."""

_LOG: Final = "log4j2.configurationFile"
_QUIET: Final = Path(__file__).with_name("log4j2.properties")
"""Spark logs its default log4j profile at start, before ``spark.log.level`` applies. This file suppresses that."""

_NEEDED: Final = "jdk.incubator.vector"
"""Spark's launcher requires this module. Java has it since version 16; reduced runtimes, such as that of the embedded
broker, leave it out."""

_TIMEOUT_S: Final = 30
_END_S: Final = 10.0
"""The longest time between a broken connection to the JVM and the end of its process."""

_DEFAULTS: Final = {
    # Epoch ms and days mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    # Two tasks for one partition share a transactional id, so a speculative task would fence the first one.
    "spark.speculation": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A topic has a few partitions: a shuffle into the default 200 costs more than it gains.
    "spark.sql.shuffle.partitions": "8",
    # Spark starts Python workers with `python -m`, which looks for modules in the working directory first. A user's
    # grp.py there would hide the one of the standard library.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}


@contextmanager
def spark_session(
    name: str, settings: Mapping[str, str] | None = None, jars: Iterable[JarSet] = ()
) -> Iterator[SparkSession]:
    """Open a Spark session for the block.

    Args:
        name: the name of the application.
        settings: Spark settings; they override our defaults and are overridden by submitted ones.
        jars: jars besides Spark's Kafka connector, with their settings. A submitted or running application must bring
            its own.

    Raises:
        PipelineRefusedError: PySpark is not installed, or of an unsupported version, or no suitable Java is found.
        TransportError: a jar cannot be downloaded or fails its check.
    """
    try:
        refuse_version()
        refuse_connect()
        from pyspark import SparkContext  # noqa: PLC0415 - an optional dependency
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise PipelineRefusedError(
            f"PySpark is not installed ({error}); install kafka-redelivery with its extra 'spark'"
        ) from error
    # py4j logs every call between Python and the JVM.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    chosen = {**_DEFAULTS, **(settings or {})}
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - nothing public finds one without making one
        yield _session_beside(SparkSession.builder.getOrCreate(), chosen)
        return
    own_java = _GATEWAY not in os.environ
    wanted = tuple(jars)
    fixed = _local(chosen, wanted) if own_java else _submitted()
    for each in wanted:
        if own_java or _has_class(each.main_class):
            chosen = {**each.settings, **chosen}
    builder = SparkSession.builder.appName(name)
    for key, value in {**chosen, **fixed}.items():
        builder = builder.config(key, value)
    handler = signal.getsignal(signal.SIGINT)
    with _output_of_java_to_stderr() if own_java else nullcontext():
        session = builder.getOrCreate()
    # Spark's context replaces the handler of Ctrl-C by one that cancels all jobs. The caller's handler is restored.
    if handler is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)
    if own_java:
        _ignore_sigterm(session)
    try:
        with noticing_end_of_java(session):
            yield session
    finally:
        if end_of_java(session) is None:
            session.stop()


@contextmanager
def noticing_end_of_java(session: SparkSession, *, query: bool = False) -> Iterator[SparkSession]:
    """Replace an error of the block by :class:`JavaEndedError`, if Spark's JVM has ended.

    Of a JVM that ``spark-submit`` has started nothing is known here: this process ends with it.
    """
    try:
        yield session
    except JavaEndedError:
        raise
    except Exception as error:
        code = end_of_java(session)
        if code is None:
            raise
        raise JavaEndedError(code, query=query) from error


def end_of_java(session: SparkSession) -> int | None:
    """Return the exit code of the JVM that this process has started; ``None`` = it runs, or this has started none."""
    process = getattr(session.sparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing public knows it
    if process is None:
        return None
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - as in _ignore_sigterm
    try:
        jvm.System.currentTimeMillis()
    except Exception:  # noqa: BLE001 - py4j raises errors of sockets, and its own
        with suppress(subprocess.TimeoutExpired):
            code: int = process.wait(_END_S)
            return code
    return None


def submitted_settings() -> dict[str, str]:
    """Return the settings given to spark-submit, with those of its defaults file; none if it does not run this."""
    return _submitted() if _GATEWAY in os.environ else {}


def clone_of(session: SparkSession) -> SparkSession:
    """Return a session of the application that has the settings, views and functions of another one."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional dependency

    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())  # noqa: SLF001 - no other clones


def describing_jobs(session: SparkSession, command: str, show: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that shows a command's current step and describes Spark's jobs by it from then on."""

    def step(text: str) -> None:
        session.sparkContext.setJobDescription(f"{command}: {text}")
        show(text)

    return step


def _session_beside(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session of the application, with those settings that a session can have and its user has not set."""
    given = session.sparkContext.getConf()
    ours = session.newSession()
    for name, value in settings.items():
        if ours.conf.isModifiable(name) and not given.contains(name):
            ours.conf.set(name, value)
    return ours


@contextmanager
def _output_of_java_to_stderr() -> Iterator[None]:
    """Let a JVM that is started in the block write to standard error what it would write to standard output.

    Delta prints there how many files it has deleted, and standard output is for the results of our commands.
    """
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)


def _ignore_sigterm(session: SparkSession) -> None:
    """Let the JVM ignore SIGTERM, which systemd sends to all processes of a service at once.

    PySpark already lets it ignore Ctrl-C. The JVM ends with this process.
    """
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to the JVM
    jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal("TERM"), jvm.sun.misc.SignalHandler.SIG_IGN)


def _submitted() -> dict[str, str]:
    """Return the settings in the JVM that spark-submit runs."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - an optional dependency

    # A SparkConf that is made before this process is connected to the JVM is empty.
    SparkContext._ensure_initialized()  # noqa: SLF001 - nothing public connects without a context
    found = dict(SparkConf().getAll())
    if found.get("spark.app.name") == Path(sys.argv[0]).name:
        del found["spark.app.name"]  # the script's name, which spark-submit uses if no name is given
    return found


def _has_class(name: str) -> bool:
    """Return whether the JVM that spark-submit runs has a class, in Spark's jars or in those of the job."""
    from pyspark import SparkContext  # noqa: PLC0415 - an optional dependency

    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as in _submitted, which has connected this process
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))


def _local(chosen: Mapping[str, str], jars: Iterable[JarSet]) -> dict[str, str]:
    """Return the settings of a session without spark-submit, which runs in a JVM that this process starts."""
    os.environ["JAVA_HOME"] = str(find_spark_java())
    # Python workers use this interpreter, not python3 of PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_CONF_DIR" not in os.environ and _LOG not in os.environ.get(_JAVA_OPTIONS, ""):
        option = f'"-D{_LOG}={_QUIET.as_uri()}"'
        os.environ[_JAVA_OPTIONS] = f"{os.environ.get(_JAVA_OPTIONS, '')} {option}".strip()
    master = chosen.get("spark.master", "local[*]")
    addresses: dict[str, str] = {}
    if master.startswith("local"):  # executors of a cluster could not reach the driver there
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        addresses = {name: chosen.get(name, _LOOPBACK) for name in _ADDRESSES}
    return {"spark.master": master, **addresses, **with_jars(chosen, (CONNECTOR, *jars))}


def find_spark_java() -> Path:
    """Return the home of the first suitable Java: ``JAVA_HOME``, then ``PATH``.

    Raises:
        PipelineRefusedError: neither is suitable; the message lists both.
    """
    tried = []
    for location, java in candidates():
        if java is None:
            tried.append(f"{location}: none")
        elif _is_complete(java):
            return java.resolve().parent.parent
        else:
            tried.append(f"{location}: {java} is not a complete Java 17 or newer")
    raise PipelineRefusedError(
        f"no Java that Spark runs on: {'; '.join(tried)}. "
        "Install one (Debian: openjdk-17-jre-headless), or set JAVA_HOME to one"
    )


def _is_complete(java: Path) -> bool:
    try:
        answer = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and _NEEDED in answer.stdout
