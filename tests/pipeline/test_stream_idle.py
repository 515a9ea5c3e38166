"""A streaming query that had nothing to write for so long that Kafka has forgotten its producers goes on writing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.streaming import prepare, running
from tests.scenarios.cluster import Cluster
from tests.scenarios.forgetting import await_forgotten, forgetting_kafka, known
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]


@pytest.fixture
def group(unique: str, tmp_path: Path) -> Iterator[Group]:
    """A group at a broker that forgets a transactional id after a few seconds."""
    with forgetting_kafka() as broker:
        found = Group(Cluster(broker.bootstrap_servers), unique, tmp_path)
        try:
            yield found
        finally:
            found.close()


def test_its_tasks_take_their_ids_again(spark: SparkSession, group: Group) -> None:
    """The producers are kept between micro-batches, and the records of the next one are written once."""
    prepare(group)
    with running(group, spark):
        group.send([["ok"]] * 20)
        until(lambda: sum(group.outputs().values()) == 20, "the first are handled")
        await_forgotten(group.cluster, *known(group.cluster, f"{group.name}.spark."))
        group.send([["ok"]] * 20, first=20)
        until(lambda: sum(group.outputs().values()) == 40, "the others are handled")
    assert group.outputs() == exactly(range(40))
