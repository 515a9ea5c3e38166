"""Jars that PySpark does not include: sets pinned in lock files, downloaded once and verified at every use.

Each minor version of PySpark has its own lock files, since the jars call Spark's internals.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafka_redelivery.pipeline.errors import PipelineRefusedError

VERSIONS: Final = ("4.1", "4.2")
"""The minor versions of PySpark that are supported."""

_HERE: Final = Path(__file__).parent
_SETTINGS: Final = ("spark.jars", "spark.jars.packages")
_CONNECT: Final = "pyspark.sql.connect"
_REMOTE: Final = "SPARK_REMOTE"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are used together."""

    what: str
    """Their name in messages."""

    lock: str
    """Start of the names of its lock files."""

    main_jar: str
    """The prefix of the main jar's name. Settings that name this jar are assumed to name the whole set."""

    main_class: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark settings of a session that has these jars."""

    @property
    def lock_file(self) -> Path:
        """The lock file for the installed PySpark.

        Raises:
            PipelineRefusedError: see :func:`refuse_version`.
        """
        return _HERE / f"{self.lock}_{refuse_version()}.txt"

    def paths(self) -> tuple[Path, ...]:
        """Return the paths of the jars. Downloads those that are missing.

        Raises:
            PipelineRefusedError: see :func:`refuse_version`.
            TransportError: a jar cannot be downloaded, or does not match its pinned hash.
        """
        from kafka_redelivery.transport.broker.jars import kafka_jars  # noqa: PLC0415 - not needed where the settings name the jars

        return kafka_jars(lock_file=self.lock_file, what=self.what)


CONNECTOR: Final = JarSet(
    "Spark's Kafka connector",
    "spark_jars",
    "spark-sql-kafka",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
)
DELTA: Final = JarSet(
    "Delta Lake",
    "delta_jars",
    "delta-spark",
    "io.delta.sql.DeltaSparkSessionExtension",
    {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # As with shuffles: of the default 50 partitions most would be empty.
        "spark.databricks.delta.snapshotPartitions": "8",
    },
)


def refuse_version(version: str | None = None) -> str:
    """Return the minor version of PySpark, by default of the installed one.

    Raises:
        PipelineRefusedError: it is none of :data:`VERSIONS`.
    """
    if version is None:
        import pyspark  # noqa: PLC0415 - an optional dependency

        version = pyspark.__version__
    found = ".".join(version.split(".")[:2])
    if found not in VERSIONS:
        raise PipelineRefusedError(
            f"PySpark {version} is installed, and {' and '.join(VERSIONS)} are supported: install kafka-redelivery "
            "with its extra 'spark'"
        )
    return found


def refuse_connect(session: object = None) -> None:
    """Refuse Spark Connect: a session of it, or if none is given, an environment in which sessions are of it.

    Raises:
        PipelineRefusedError: it is; names the version.
    """
    import pyspark  # noqa: PLC0415 - an optional dependency
    from pyspark.sql.utils import is_remote  # noqa: PLC0415 - an optional dependency

    given = session is not None and type(session).__module__.startswith(_CONNECT)
    if given or (session is None and (is_remote() or _REMOTE in os.environ)):
        raise PipelineRefusedError(
            f"this is Spark Connect (PySpark {pyspark.__version__}), whose client has no driver that could "
            "be a member of the consumer group: run the query or job where the driver runs, with a classic session "
            "(SparkSession.builder.master(...), without SPARK_REMOTE), or submit it with spark-submit"
        )


def with_jars(settings: Mapping[str, str], wanted: Iterable[JarSet]) -> dict[str, str]:
    """Return Spark's setting for the jars that ``settings`` names and those that are wanted besides.

    Returns:
        no setting if ``settings`` already names all jars.

    Raises:
        TransportError: as :meth:`JarSet.paths`.
    """
    given = ",".join(settings.get(name, "") for name in _SETTINGS)
    ours = [str(path) for each in wanted if each.main_jar not in given for path in each.paths()]
    named = settings.get("spark.jars", "")
    return {"spark.jars": ",".join([*filter(None, [named]), *ours])} if ours else {}
