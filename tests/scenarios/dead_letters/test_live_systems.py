"""Dead letters are sent again to running systems, in which they die again, and both letters say so."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.broker.jars import kafka_jars
from kafka_redelivery.transport.broker.java import find_java
from tests.foreign.recipes.record import HERE, RECIPES, command, running
from tests.foreign.recorded import Letters
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FAILING = [Sent(b"nocause", b"k0", [("trace-id", b"a")], 0), Sent(b"cause", b"k1", (), 1)]
"""Records that the programs fail on that were recorded by hand."""


@pytest.fixture
def broker() -> Iterator[Cluster]:
    """A broker of its own: the topics have fixed names."""
    with EmbeddedKafka() as kafka:
        yield Cluster(kafka.bootstrap_servers)


@pytest.mark.parametrize("system", RECIPES)
def test_spring_connect_and_streams(broker: Cluster, system: str, tmp_path: Path) -> None:
    """Their records fail whenever they are read, so each letter is followed by a second one."""
    recipe = RECIPES[system]
    topic, number = next(iter(recipe.letters.items()))
    broker.create(*recipe.inputs, *recipe.letters, *recipe.others, partitions=3, config={"retention.ms": "-1"})
    for each, records in recipe.inputs.items():
        broker.produce(each, records)
    dies_again(Letters(broker, topic), number, command(system, broker.servers, tmp_path), tmp_path / "log")


@pytest.mark.long
def test_spring_cloud_stream(broker: Cluster, tmp_path: Path) -> None:
    """The same for its function `plain`."""
    topic = "error.c-orders.c-billing"
    broker.create("c-orders", topic, partitions=3)
    broker.produce("c-orders", FAILING)
    options = [
        f"--spring.config.location={HERE / 'cloud_stream/application.properties'}",
        f"--spring.cloud.stream.kafka.binder.brokers={broker.servers}",
        "--spring.cloud.function.definition=plain",
        "--spring.cloud.stream.bindings.plain-in-0.consumer.maxAttempts=1",
    ]
    program = [*compiled("cloud_stream", "ScsApp.java", tmp_path), "foreign.ScsApp", *options]
    dies_again(Letters(broker, topic), len(FAILING), program, tmp_path / "log")


@pytest.mark.long
def test_smallrye(broker: Cluster, tmp_path: Path) -> None:
    """The same without Quarkus, which takes minutes to build."""
    broker.create("q-orders", "q-dlq", partitions=3)
    broker.produce("q-orders", FAILING)
    channel = {
        "connector": "smallrye-kafka",
        "bootstrap.servers": broker.servers,
        "topic": "q-orders",
        "group.id": "q-billing",
        "auto.offset.reset": "earliest",
        "failure-strategy": "dead-letter-queue",
        "dead-letter-queue.topic": "q-dlq",
        "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    }
    java = compiled("smallrye", "Standalone.java", tmp_path)
    options = [f"-Dmp.messaging.incoming.orders.{name}={value}" for name, value in channel.items()]
    dies_again(Letters(broker, "q-dlq"), len(FAILING), [*java, *options, "foreign.Standalone"], tmp_path / "log")


def compiled(system: str, source: str, folder: Path) -> list[str | Path]:
    """Compile a program; return the command that runs it, without its main class."""
    java = Path(find_java())
    jars = ":".join(str(jar) for jar in kafka_jars(lock_file=HERE / f"{system}_jars.txt", what=system))
    options: list[str | Path] = ["-parameters", "-proc:none", "-cp", jars, "-d", folder]
    subprocess.run([java.with_name("javac"), *options, HERE / system / source], check=True)
    return [java, "-Xmx256m", "-cp", f"{folder}:{jars}"]


def dies_again(found: Letters, number: int, program: Sequence[str | Path], log: Path) -> None:
    """Send the letters of a program again while it runs, and wait until each has died again."""
    with running(program, log):
        until(lambda: len(found.cluster.read(found.topic)) == number, f"{number} dead letters", within_s=180)
        assert found.dlq_json("redrive", "--yes", "--create-topics")["sent"] == number
        until(lambda: len(found.cluster.read(found.topic)) == 2 * number, "each died again", within_s=180)
    letters = found.dlq_json("list", "--each")["each"]
    assert sorted(each["state"] for each in letters) == ["dead_again"] * number + ["waiting"] * number
