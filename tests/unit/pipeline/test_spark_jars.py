"""A session has the jars it needs, unless somebody gives them himself."""

import pytest

from pipeline.spark_jars import CONNECTOR, DELTA, JarSet, with_jars
from transport.jars import locked_jars


@pytest.mark.parametrize("jars", [CONNECTOR, DELTA])
def test_a_set_has_the_jar_by_which_it_is_known(jars: JarSet) -> None:
    """Else who gives it himself would be given it once more."""
    assert any(jar.name.startswith(jars.sign) for jar in locked_jars(jars.lock_file))


def test_what_is_given_is_not_added() -> None:
    """Neither where its files are named, nor where Spark is to fetch it."""
    jars = {"spark.jars": "/x/spark-sql-kafka-0-10_2.13-4.2.0.jar"}
    packages = {"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"}
    assert with_jars(jars | packages, [CONNECTOR, DELTA]) == {}


def test_what_is_missing_is_added_to_what_is_given() -> None:
    """The jars of the user stay, in front."""
    added = with_jars({"spark.jars": "/x/mine.jar"}, [CONNECTOR])["spark.jars"].split(",")
    assert added[0] == "/x/mine.jar"
    assert len(added) == 1 + len(locked_jars(CONNECTOR.lock_file))
