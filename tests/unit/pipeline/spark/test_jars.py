"""A session gets the jars it needs unless its settings name them."""

import pytest
from pyspark import __version__

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.spark.jars import (
    CONNECTOR,
    DELTA,
    VERSIONS,
    JarSet,
    refuse_connect,
    refuse_version,
    with_jars,
)
from kafka_redelivery.transport.broker.jars import locked_jars


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("jars", [CONNECTOR, DELTA])
def test_a_set_contains_its_main_jar(jars: JarSet, version: str) -> None:
    """Otherwise a session that names the jar would get it twice. Each version of PySpark has a set."""
    lock_file = jars.lock_file.with_name(f"{jars.lock}_{version}.txt")
    assert any(jar.name.startswith(jars.main_jar) for jar in locked_jars(lock_file))


@pytest.mark.parametrize("version", ["3.5.9", "4.0.5", "5.0.0.dev1"])
def test_other_versions_are_refused(version: str) -> None:
    """With the version and what to install, instead of an error of the JVM."""
    with pytest.raises(PipelineRefusedError, match=rf"PySpark {version} is installed, and 4\.1 and 4\.2 are supported"):
        refuse_version(version)
    assert [refuse_version(each) for each in ("4.1.4", "4.2.1")] == ["4.1", "4.2"]


def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a session that is given, and where a command would get one. The message names version and kind."""
    refuse_connect()
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(PipelineRefusedError, match=rf"Spark Connect \(PySpark {__version__}\).*without SPARK_REMOTE"):
        refuse_connect()
    refuse_connect(object())


def test_named_jars_are_not_added() -> None:
    """This holds for file names and for packages that Spark downloads."""
    jars = {"spark.jars": "/x/spark-sql-kafka-0-10_2.13-4.2.0.jar"}
    packages = {"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"}
    assert with_jars(jars | packages, [CONNECTOR, DELTA]) == {}


def test_missing_jars_are_added() -> None:
    """The user's jars come first."""
    added = with_jars({"spark.jars": "/x/mine.jar"}, [CONNECTOR])["spark.jars"].split(",")
    assert added[0] == "/x/mine.jar"
    assert len(added) == 1 + len(locked_jars(CONNECTOR.lock_file))
